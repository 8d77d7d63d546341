"""New arrays in a store that is there, `COPY … OPTIONS ('vcz.mode' 'add')`: masks beside the data, and arrays over samples."""

import numpy as np
import pytest

from written import arrays, assert_consolidated, assert_values, beside, copy, create, digest, dimensions, fails, fixture, group, says, sql


@pytest.fixture(params=[2, 3])
def store(request, tmp_path):
    """A copy of `sim` to which arrays are added; the other arrays in memory."""
    target = tmp_path / "sim.vcz"
    sql(fixture("sim").table(), copy("SELECT * FROM t", target, format=request.param, variants_chunk_size=300))
    return target, arrays(target), request.param


def unchanged(target, before, format_, added):
    """Asserts that a store has what it had, and these arrays."""
    found = arrays(target)
    assert set(found) == set(before) | set(added)
    for name, values in before.items():
        assert_values(found[name], values, name)
    assert_consolidated(target, format_)
    assert not [path for path in target.rglob("*") if ".tmp" in path.name]
    assert beside(target) == []
    return {name: found[name] for name in added}


def test_masks_beside_the_data(store):
    """A filter becomes an array, which a query uses: the same rows as the filter's."""
    target, before, format_ = store
    table = create("t", target, fixture("sim").populations)
    mask = "is_pass(variant_filter) AND variant_quality > 30"
    ((added,),) = sql(table, copy(f"SELECT {mask} AS variant_mask_good FROM t", target, mode="add"))
    assert added == {"count": 7402}
    # Under other names, with the store's rows beside them, several at once.
    pi = "site_diversity(allele_counts(call_genotype, 'first'))"
    sql(table, copy(f"SELECT variant_contig, variant_position, {pi} AS pi, allele_counts(call_genotype) AS ac FROM t", target, mode="add"), partitions=2)
    found = unchanged(target, before, format_, ["variant_mask_good", "variant_pi", "variant_ac"])
    filters = before["filter_id"].tolist()
    passes = before["variant_filter"][:, filters.index("PASS")] & ~np.delete(before["variant_filter"], filters.index("PASS"), axis=1).any(axis=1)
    assert_values(found["variant_mask_good"], passes & (before["variant_quality"] > 30), "variant_mask_good")
    assert dimensions(group(target)["variant_mask_good"]) == ["variants"]
    counts = np.stack([(before["call_genotype"] == allele).sum(axis=(1, 2)) for allele in range(before["variant_allele"].shape[1])], axis=1)
    assert (np.where(found["variant_ac"] < 0, 0, found["variant_ac"]) == counts[:, : found["variant_ac"].shape[1]]).all()
    statistic = "SELECT count(*) AS n, sfs(call_genotype, 'first') AS s, sum(variant_position) AS p FROM t WHERE {} AND variant_position > 50000"
    by_mask, by_filter = sql(table, statistic.format("variant_mask_good"), statistic.format(mask), partitions=2)
    assert by_mask == by_filter and 0 < by_mask[0]["n"] < 7402
    ((there,), (computed,)) = sql(table, "SELECT exact_sum(variant_pi) AS pi FROM t", "SELECT diversity(call_genotype, 'first') AS pi FROM t")
    assert there["pi"] == pytest.approx(computed["pi"], rel=1e-12)


def test_an_array_that_exists_is_not_replaced(store):
    target, before, format_ = store
    table = create("t", target)
    says(fails(table, copy("SELECT variant_quality * 2 AS variant_quality FROM t", target, mode="add")), "variant_quality", "vcz.overwrite")
    unchanged(target, before, format_, [])
    # Positions and contigs are never written.
    sql(table, copy("SELECT variant_quality * 2 AS variant_quality FROM t", target, mode="add", overwrite="true"))
    found = unchanged(target, {name: values for name, values in before.items() if name != "variant_quality"}, format_, ["variant_quality"])
    assert_values(found["variant_quality"][:].astype("f8"), before["variant_quality"].astype("f8") * 2, "variant_quality")
    # A failed replacement keeps what is there.
    fails(table, copy("SELECT -1 AS variant_quality FROM t", target, mode="add", overwrite="true"))
    assert_values(arrays(target)["variant_quality"].astype("f8"), before["variant_quality"].astype("f8") * 2, "variant_quality")


WRONG = {
    "rows": ("SELECT variant_contig, variant_position, 1.5 AS x FROM t WHERE variant_position > 5000", ["rows|variants", "7402|7,402"]),
    "fewer rows": ("SELECT variant_contig, variant_position, 1.5 AS x FROM t LIMIT 7401", ["7401|7,401", "7402|7,402"]),
    "rows of nowhere": ("SELECT variant_quality AS x FROM t WHERE variant_position > 5000", ["variant_position|WHERE"]),
    "order": ("SELECT variant_contig, variant_position, 1.5 AS x FROM t ORDER BY variant_position DESC", ["variant_position|order"]),
    "positions": ("SELECT variant_contig, variant_position + 1 AS variant_position, 1.5 AS x FROM t", ["position"]),
    "contigs": ("SELECT 'chr1' AS variant_contig, variant_position, 1.5 AS x FROM t", ["contig"]),
    "another table": ("SELECT variant_quality AS x FROM o", ["variant_position|table"]),
    "aggregate": ("SELECT diversity(call_genotype) AS x FROM t", ["rows|variant_position"]),
    "whose samples": ("SELECT 5 AS sample_x FROM t", ["sample_x", "sample_id", "variant_"]),
    "nothing": ("SELECT variant_contig, variant_position FROM t", ["column|array"]),
    "boolean NULL": ("SELECT CASE WHEN variant_position > 100 THEN true END AS x FROM t", ["NULL|missing", "x"]),
    "late": ("SELECT CASE WHEN variant_position > 200000 AND variant_contig = 'chr2' THEN -1 ELSE 3 END AS x FROM t", ["-1"]),
}


def test_what_cannot_be_added(tmp_path):
    """Other rows, other positions, archives, stores that are not there: the store stays as it is."""
    target, archive = tmp_path / "sim.vcz", tmp_path / "sim.vcz.zip"
    source = fixture("sim")
    sql(source.table(), copy("SELECT * FROM t", target), copy("SELECT * FROM t", archive))
    before, bytes_before = arrays(target), digest(target)
    for case, (query, parts) in WRONG.items():
        says(fails(create("t", target), source.table("o"), copy(query, target, mode="add")), *parts)
        assert digest(target) == bytes_before, case
        assert beside(target) == [archive.name], case
    kept = digest(archive)
    says(fails(create("t", archive), copy("SELECT 1.5 AS x FROM t", archive, mode="add")), "zip|archive", "folder|director|unzip|unpack|extract")
    assert digest(archive) == kept
    says(fails(create("t", target), copy("SELECT 1.5 AS x FROM t", tmp_path / "none.vcz", mode="add")), "there is no store .*none.vcz")
    assert not (tmp_path / "none.vcz").exists()
    assert before.keys() == arrays(target).keys()


def test_arrays_over_samples(store):
    """Columns `sample_…` with a column sample_id: by id, in whatever order they come."""
    target, before, format_ = store
    table = create("t", target, fixture("sim").populations)
    query = "SELECT sample_id, sample_index * 2 AS sample_twice, upper(sample_id) AS sample_loud FROM vcz_samples('t') ORDER BY sample_id DESC"
    sql(table, copy(query, target, mode="add"))
    found = unchanged(target, before, format_, ["sample_twice", "sample_loud"])
    assert found["sample_twice"].tolist() == [2 * at for at in range(30)]
    assert found["sample_loud"].tolist() == [sample.upper() for sample in before["sample_id"].tolist()]
    assert dimensions(group(target)["sample_twice"]) == ["samples"]
    now = digest(target)
    everybody = "SELECT sample_id, 1 AS sample_x FROM vcz_samples('t')"
    says(fails(table, copy(f"{everybody} UNION ALL SELECT 'nobody', 1", target, mode="add")), "nobody")
    says(fails(table, copy(f"{everybody} WHERE sample_index > 0", target, mode="add")), "s00")
    says(fails(table, copy("SELECT sample_id, 1 AS sample_twice FROM vcz_samples('t')", target, mode="add")), "sample_twice", "vcz.overwrite")
    says(fails(table, copy(f"{everybody} UNION ALL SELECT 's00', 2", target, mode="add")), "s00", "twice|two|duplicate|more than once|several")
    assert digest(target) == now


def test_a_copy_keeps_what_was_added(store, tmp_path):
    """Arrays over samples are subset with the samples; masks are columns."""
    target, before, _ = store
    table = create("t", target, fixture("sim").populations)
    sql(
        table, copy("SELECT sample_id, sample_index AS sample_number FROM vcz_samples('t')", target, mode="add"),
        copy("SELECT variant_quality > 30 AS variant_mask FROM t", target, mode="add"),
    )
    part = tmp_path / "part.vcz"
    calls = [name for name in before if name.startswith("call_")]
    chosen = ", ".join(f"select_samples({name}, ['s03', 's17']) AS {name}" for name in calls)
    sql(table, copy(f"SELECT * REPLACE ({chosen}) FROM t WHERE variant_mask", part))
    found = arrays(part)
    assert found["sample_id"].tolist() == ["s03", "s17"] and found["sample_number"].tolist() == [3, 17]
    assert found["variant_mask"].all() and len(found["variant_mask"]) == int((before["variant_quality"] > 30).sum())
    assert_values(found["call_genotype"], before["call_genotype"][before["variant_quality"] > 30][:, [3, 17]], "call_genotype")
