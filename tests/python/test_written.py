"""Stores that `Result.write` writes, as zarr-python reads them."""

import numpy as np
import pytest
import zarr

import vcz
from conftest import FIXTURES


def arrays(path):
    """The arrays of a store, in memory."""
    store = zarr.storage.ZipStore(path, mode="r") if path.is_file() else str(path)
    return {name: array[...] for name, array in zarr.open_group(store, mode="r").arrays()}


@pytest.fixture(scope="module")
def sim():
    return arrays(FIXTURES / "sim.vcz.zip")


@pytest.mark.parametrize("name", ["part.vcz", "part.vcz.zip"])
@pytest.mark.parametrize("options", [{}, {"vcz_format": 3, "vcz_variants_chunk_size": 500, "vcz_codec": "zstd:3"}], ids=["default", "options"])
def test_a_part_of_a_store(db, sim, name, options, tmp_path):
    """Rows by WHERE, samples and calls as chosen: what numpy gives of the same arrays."""
    part = db.sql(
        """SELECT * EXCLUDE (call_genotype, call_genotype_mask, call_genotype_phased), select_samples(call_genotype, 'first') AS call_genotype
           FROM sim WHERE is_pass(variant_filter) AND variant_position > $least""",
        {"least": 1000},
    )
    filters = sim["filter_id"].tolist()
    passed = sim["variant_filter"][:, filters.index("PASS")] & ~np.delete(sim["variant_filter"], filters.index("PASS"), axis=1).any(axis=1)
    keep = passed & (sim["variant_position"] > 1000)
    rows = (line.split("\t") for line in (FIXTURES / "sim.populations.tsv").read_text().splitlines())
    first = {fields[0] for fields in rows if "first" in fields[1:]}
    samples = np.array([sample in first for sample in sim["sample_id"]])
    assert 0 < keep.sum() < len(keep) and 0 < samples.sum() < len(samples)
    assert part.write(tmp_path / name, **options) == keep.sum()
    found = arrays(tmp_path / name)
    assert found["sample_id"].tolist() == sim["sample_id"][samples].tolist()
    assert (found["call_genotype"] == sim["call_genotype"][keep][:, samples]).all()
    for array in ("variant_position", "variant_allele", "variant_quality", "variant_filter"):
        np.testing.assert_array_equal(found[array], sim[array][keep], array)
    group = zarr.open_group(zarr.storage.ZipStore(tmp_path / name, mode="r") if name.endswith(".zip") else str(tmp_path / name), mode="r")
    assert group.metadata.zarr_format == options.get("vcz_format", 2)
    assert group["variant_position"].chunks[0] == min(options.get("vcz_variants_chunk_size", 1000), 1000)


def test_a_mask_is_added(db, sim, tmp_path):
    """A result per variant becomes an array of the store that it came from."""
    path = tmp_path / "sim.vcz"
    assert db.sql("SELECT * FROM sim").write(path) == len(sim["variant_position"])
    with vcz.connect(path) as copy:
        mask = copy.sql("SELECT variant_quality > 30 AS variant_mask_good FROM sim")
        assert mask.write(path, vcz_mode="add") == len(sim["variant_position"])
        with pytest.raises(vcz.Error, match="'vcz.overwrite'"):
            mask.write(path, vcz_mode="add")
    found = arrays(path)
    assert set(found) == {*sim, "variant_mask_good"}
    assert (found["variant_mask_good"] == (sim["variant_quality"] > 30)).all()
    with vcz.connect(path) as copy:
        assert copy.sql("SELECT count(*) AS n FROM sim WHERE variant_mask_good").to_pylist() == [{"n": int((sim["variant_quality"] > 30).sum())}]


def test_a_statement_that_fails_leaves_nothing(db, tmp_path):
    with pytest.raises(vcz.Error, match="variant_contig"):
        db.sql("SELECT variant_position FROM sim").write(tmp_path / "x.vcz")
    with pytest.raises(vcz.Error, match="'variant_minus'"):
        db.sql("SELECT *, -1 AS minus FROM sim").write(tmp_path / "x.vcz")
    assert list(tmp_path.iterdir()) == []
