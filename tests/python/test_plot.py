"""Plots: what is drawn, not how it looks."""

import matplotlib
import numpy as np
import pytest

matplotlib.use("agg")
import matplotlib.pyplot as plt

import vcz


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def test_sfs(db):
    first, second = db.sfs("sim", "first"), db.sfs("sim", "second")
    ax = vcz.plot.sfs(first)
    assert [bar.get_height() for bar in ax.patches] == first[1:-1].tolist() and ax.get_yscale() == "log"
    ax = vcz.plot.sfs({"first": first, "second": second}, scale="linear", endpoints=True)
    assert len(ax.patches) == len(first) + len(second)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["first", "second"]
    folded = db.sfs("sim", "first", folded=True)
    ax = vcz.plot.sfs(folded)
    assert [bar.get_height() for bar in ax.patches] == folded[1:].tolist() and "minor" in ax.get_xlabel()
    with pytest.raises(ValueError, match="one dimension, found 2"):
        vcz.plot.sfs(np.ones((2, 2)))


def test_joint_sfs(db):
    grid = db.joint_sfs("sim", "first", "second")
    figure, given = plt.subplots()
    ax = vcz.plot.joint_sfs(grid, ax=given)
    assert ax is given and ax.get_ylabel().endswith("first") and ax.get_xlabel().endswith("second")
    shown = ax.collections[0].get_array().reshape(grid.shape)
    assert shown.mask[0, 0] and shown.mask[-1, -1] and (shown.mask == ((grid == 0) | shown.mask)).all()
    assert (shown.compressed() == np.asarray(grid)[~shown.mask]).all()
    figure.canvas.draw()
    with pytest.raises(ValueError, match="no cell with sites"):
        vcz.plot.joint_sfs(np.zeros((3, 3)))


def test_scan(db, tmp_path):
    scan = db.windows("sim", 50_000, pi=("diversity", "first"), fst=("fst_hudson", "first", "second"))
    axes = vcz.plot.scan(scan, y=["pi", "fst"])
    contigs = list(dict.fromkeys(row["contig"] for row in scan.to_pylist()))
    assert len(axes) == 2 and [len(ax.lines) for ax in axes] == [len(contigs)] * 2
    assert [label.get_text() for label in axes[1].get_xticklabels()] == contigs
    drawn = np.concatenate([line.get_ydata() for line in axes[0].lines])
    expected = np.array([row["pi"] if row["pi"] is not None else np.nan for row in scan.to_pylist()], dtype=float)
    np.testing.assert_array_equal(drawn, expected)
    ax = vcz.plot.scan(scan.to_pandas(), y="pi", region=("chr2", 1, 200_000))
    assert ax.get_xlabel() == "chr2, Mb" and ax.lines[0].get_xdata().max() <= 0.2
    ax.figure.savefig(tmp_path / "scan.png")
    # Absent windows are gaps, as NULL is.
    frame = scan.to_pandas()
    absent = frame[(frame["contig"] != "chr2") | (frame["window_start"] != 100_001)]
    ax = vcz.plot.scan(absent, y="pi", region="chr2")
    (line,) = ax.lines
    (gap,) = np.flatnonzero(np.isnan(line.get_ydata()))
    assert line.get_xdata()[gap] == 0.100001 and len(line.get_xdata()) == (frame["contig"] == "chr2").sum()
    # Positions of variants are not those of windows.
    places = {"contig": ["a"] * 4, "at": [10, 11, 20, 400], "x": [1.0, 2.0, 3.0, 4.0]}
    ax = vcz.plot.scan(places, y="x", x="at")
    assert not np.isnan(ax.lines[0].get_ydata()).any()
    # One window alone.
    assert len(vcz.plot.scan({"contig": ["a"], "window_start": [1], "x": [1.0]}, y="x").lines[0].get_xdata()) == 1
    with pytest.raises(ValueError, match="no window in chr9"):
        vcz.plot.scan(scan, y="pi", region="chr9")
