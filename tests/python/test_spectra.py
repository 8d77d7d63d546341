"""Spectra as files, read back by dadi, moments, numpy, and by the rules of fastsimcoal2."""

import numpy as np
import pytest

import vcz

dadi = pytest.importorskip("dadi")
moments = pytest.importorskip("moments")


def both_ways(db, tmp_path, name, spectrum, statement, **options):
    """The spectrum as save_spectrum and as COPY write it, which must be the same bytes."""
    saved, copied = tmp_path / f"saved_{name}", tmp_path / f"copied_{name}"
    vcz.save_spectrum(saved, spectrum, **options)
    db.sql(f"COPY ({statement}) TO '{copied}'")
    assert saved.read_bytes() == copied.read_bytes(), name
    return saved


@pytest.mark.parametrize("reader", [dadi.Spectrum, moments.Spectrum], ids=["dadi", "moments"])
def test_fs(db, tmp_path, reader):
    joint = db.joint_sfs("sim", "first", "second")
    read = reader.from_file(str(both_ways(db, tmp_path, "joint.fs", joint, joint.sql)))
    assert read.shape == joint.shape and (read.data == joint).all() and not read.folded
    assert read.pop_ids == ["first", "second"]
    corners = np.zeros(joint.shape, dtype=bool)
    corners[0, 0] = corners[-1, -1] = True
    assert (read.mask == corners).all()

    one = db.sfs("sim", "first")
    read_one = reader.from_file(str(both_ways(db, tmp_path, "one.fs", one, one.sql)))
    assert (read_one.data == one).all() and list(read_one.pop_ids) == ["first"]

    # Folded, the file is what the reader itself makes of the unfolded spectrum.
    folded = db.joint_sfs("sim", "first", "second", folded=True)
    found = reader.from_file(str(both_ways(db, tmp_path, "folded.fs", folded, folded.sql)))
    own = read.fold()
    assert found.folded and (found.mask == own.mask).all() and np.allclose(found.data[~own.mask], own.data[~own.mask], rtol=1e-15)
    folded = db.sfs("sim", "first", folded=True)
    assert folded.copies == 32 and len(folded) == 17
    found = reader.from_file(str(both_ways(db, tmp_path, "folded1.fs", folded, folded.sql)))
    own = read_one.fold()
    assert (found.mask == own.mask).all() and (found.data[~own.mask] == own.data[~own.mask]).all()

    # The reader's own objects can be made of the arrays, too.
    made = reader(joint)
    assert (made.data == joint).all() and not made.folded and (made.fold().data == read.fold().data).all()
    assert made.S() == read.S() and reader(one).pi() == read_one.pi()

    # Projected spectra are not whole numbers.
    projected = db.joint_sfs("sim", "first", "second", project=[6, 4])
    read = reader.from_file(str(both_ways(db, tmp_path, "projected.fs", projected, projected.sql)))
    assert read.shape == (7, 5) and (read.data == projected).all()


def test_npy(db, tmp_path):
    joint = db.joint_sfs("sim", "first", "second")
    read = np.load(both_ways(db, tmp_path, "joint.npy", joint, joint.sql))
    assert read.dtype == np.int64 and (read == joint).all()
    projected = db.sfs("sim", "first", project=11, folded=True)
    read = np.load(both_ways(db, tmp_path, "projected.npy", projected, projected.sql))
    assert read.dtype == np.float64 and (read == projected).all()


def test_sfs(db, tmp_path):
    joint = db.joint_sfs("sim", "first", "second")
    head, line, _ = both_ways(db, tmp_path, "joint.sfs", joint, joint.sql).read_text().split("\n")
    assert head == f"#SHAPE=<{joint.shape[0]}/{joint.shape[1]}>"
    assert [float(cell) for cell in line.split()] == joint.ravel().tolist()
    vcz.save_spectrum(tmp_path / "angsd.sfs", joint, format="angsd")
    read = moments.Spectrum.from_angsd(str(tmp_path / "angsd.sfs"), [cells - 1 for cells in joint.shape])
    assert (read.data == joint).all()


def table(path, label):
    """A file of fastsimcoal2 as its manual describes it: a line of observations, heads, then a row for each copy of the other population."""
    first, heads, *rows = path.read_text().splitlines()
    assert first.split() == ["1", "observation"]
    assert heads.split() == [f"d0_{copies}" for copies in range(len(heads.split()))]
    cells = [row.split("\t") for row in rows]
    if label is None:
        return np.array(cells, dtype=float)
    assert [row[0] for row in cells] == [f"{label}_{copies}" for copies in range(len(rows))]
    return np.array([row[1:] for row in cells], dtype=float)


def test_obs(db, tmp_path):
    joint = db.joint_sfs("sim", "first", "second")
    path = both_ways(db, tmp_path, "x_jointDAFpop1_0.obs", joint, joint.sql)
    assert (table(path, "d1").T == joint).all()
    folded = db.joint_sfs("sim", "first", "second", folded=True)
    path = both_ways(db, tmp_path, "x_jointMAFpop1_0.obs", folded, folded.sql)
    assert (table(path, "d1").T == folded).all()
    one = db.sfs("sim", "first")
    path = both_ways(db, tmp_path, "x_DAFpop0.obs", one, one.sql)
    assert (table(path, None) == one).all()
    minor = db.sfs("sim", "first", folded=True)
    path = both_ways(db, tmp_path, "x_MAFpop0.obs", minor, minor.sql)
    whole = table(path, None)[0]
    assert len(whole) == 33 and (whole[:17] == minor).all() and not whole[17:].any()
    path = both_ways(db, tmp_path, "x_DSFS.obs", joint, joint.sql)
    first, sizes, cells = path.read_text().splitlines()
    assert first == "1 observations. No. of demes and sample sizes are on next line"
    assert sizes.split() == ["2", *(str(cells - 1) for cells in joint.shape)]
    assert [float(cell) for cell in cells.split()] == joint.ravel().tolist()
    path = both_ways(db, tmp_path, "x_MSFS.obs", folded, folded.sql)
    first, sizes, cells = path.read_text().splitlines()
    assert first == "1 observations. No. of demes and sample sizes are on next line"
    assert sizes == f"2\t{folded.shape[0] - 1} {folded.shape[1] - 1}"
    found, own = np.array(cells.split(), dtype=float).reshape(folded.shape), dadi.Spectrum(joint).fold()
    assert (found == folded).all() and (found[~own.mask] == own.data[~own.mask]).all()
    # More than half of all copies are never those of the minor allele.
    copies = np.add.outer(np.arange(found.shape[0]), np.arange(found.shape[1]))
    assert found.sum() == joint.sum() and not found[copies > copies.max() / 2].any()
    with pytest.raises(vcz.Error, match="MSFS"):
        vcz.save_spectrum(tmp_path / "y_DSFS.obs", folded)
    vcz.save_spectrum(tmp_path / "y_DAFpop0.obs", one, monomorphic=1_000_000)
    assert table(tmp_path / "y_DAFpop0.obs", None)[0, 0] == 1_000_000
    with pytest.raises(vcz.Error, match="MAF instead of DAF"):
        vcz.save_spectrum(tmp_path / "y_DAFpop0.obs", minor)


def test_options_and_errors(db, tmp_path):
    with pytest.raises(vcz.Error, match="of 4 or of 5 copies"):
        vcz.save_spectrum(tmp_path / "x.fs", np.array([1, 2, 3]), folded=True)
    vcz.save_spectrum(tmp_path / "x.fs", np.array([6, 6, 3]), folded=True, copies=4, populations=["a"])
    assert (tmp_path / "x.fs").read_text() == '5 folded "a"\n6 6 3 0 0\n1 0 0 1 1\n'
    with pytest.raises(vcz.Error, match="is not folded"):
        vcz.save_spectrum(tmp_path / "x.fs", np.ones((3, 3)), folded=True)
    with pytest.raises(vcz.Error, match="finite numbers, found NaN in cell 1"):
        vcz.save_spectrum(tmp_path / "x.npy", np.array([1.0, np.nan]))
    with pytest.raises(vcz.Error, match="no format of spectra 'vcf'"):
        vcz.save_spectrum(tmp_path / "x.vcf", np.array([1, 2]))
    with pytest.raises(vcz.Error, match="of 1 population"):
        vcz.save_spectrum(tmp_path / "x.fs", np.array([1, 2]), populations=["a", "b"])
    with pytest.raises(TypeError, match="array of numbers"):
        vcz.save_spectrum(tmp_path / "x.fs", ["a"])
    with pytest.raises(vcz.Error, match="cannot write"):
        vcz.save_spectrum(tmp_path / "no" / "x.fs", np.array([1, 2]))
    # A file is not left behind where a query fails.
    with pytest.raises(vcz.Error, match="several rows"):
        db.sql("SELECT sfs(call_genotype, 'first') FROM sim GROUP BY variant_contig").write(tmp_path / "y.fs")
    assert not (tmp_path / "y.fs").exists()
    # What is computed of a spectrum keeps what it is of, a part of it does not.
    joint = db.joint_sfs("sim", "first", "second")
    assert (joint * 2).populations == ("first", "second") and joint[1:].populations == () and not hasattr(joint.T, "populations")
    assert isinstance(joint.sum(), np.int64) and isinstance(joint.mean(), np.float64) and joint.sum(axis=0).populations == ()
    assert joint.copy().populations == ("first", "second") and (joint == joint.copy()).all()
    result = db.sql("SELECT joint_sfs(call_genotype, 'first', 'second') FROM sim")
    result.write(tmp_path / "z", format="fs", spectrum_populations="x,y")
    assert dadi.Spectrum.from_file(str(tmp_path / "z")).pop_ids == ["x", "y"]
