"""Columns that `COPY … STORED AS VCZ` makes arrays of, and what it refuses."""

import numpy as np
import pytest

from written import (
    arrays, assert_arrays, assert_copy, assert_values, beside, copy, create, digest, dimensions, fails, fixture, group, rows_of, says, sql,
)

NEW = """SELECT variant_contig, variant_position, variant_allele, call_genotype,
  site_diversity(allele_counts(call_genotype, 'first')) AS pi, CAST(variant_position AS FLOAT) / 3 AS third, allele_counts(call_genotype, 'first') AS ac,
  is_segregating(allele_counts(call_genotype)) AS variant_segregates, CASE WHEN variant_position % 2 = 0 THEN variant_position END AS even,
  CASE WHEN variant_position % 5 > 0 THEN variant_allele[1] END AS reference_base, make_array(1.5, NULL, 2.5) AS odd,
  CAST(variant_position % 100 AS TINYINT UNSIGNED) AS tiny, CAST(variant_position AS BIGINT) * 1000000 AS big,
  CASE WHEN variant_position % 3 = 0 THEN make_array(variant_position % 50) WHEN variant_position % 3 = 1 THEN make_array(7, NULL, variant_position % 40) END AS ragged
FROM t"""


@pytest.mark.parametrize("format_", [2, 3])
def test_new_columns(format_, tmp_path):
    """Columns that are no arrays of VCZ become `variant_…` arrays of their type; lists are padded with fill, NULL is missing."""
    source = fixture("sim")
    target = tmp_path / "new.vcz"
    query = "SELECT variant_contig, variant_position, variant_pi, variant_third, variant_ac, variant_segregates, variant_even, variant_reference_base, variant_odd, variant_ragged FROM c WHERE variant_position % 17 = 0"
    plain = NEW.replace("FROM t", "FROM t WHERE variant_position % 17 = 0")
    _, after, before = sql(source.table(), copy(NEW, target, format=format_), create("c", target), query, plain)
    kept = {"variant_contig", "variant_position", "variant_segregates"}
    rename = {key: key if key in kept else f"variant_{key}" for key in ["pi", "third", "ac", "even", "reference_base", "odd", *kept]}
    assert [{name: row.get(name) for name in rename.values()} for row in after] == [
        {name: row.get(key) for key, name in rename.items()} for row in before
    ]
    # A list that is NULL, or of missing values only, or empty: no value.
    lists = lambda rows, name: [row.get(name) if any(value is not None for value in row.get(name) or []) else [] for row in rows]  # noqa: E731
    assert lists(after, "variant_ragged") == lists(before, "ragged")
    found, store = group(target), arrays(source.path)
    position = store["variant_position"].astype(np.int64)
    types = {
        "variant_pi": "f8", "variant_third": "f4", "variant_segregates": "?", "variant_even": "i4", "variant_tiny": "i2", "variant_big": "i8",
        "variant_odd": "f8",
    }
    for name, kind in types.items():
        assert found[name].dtype == np.dtype(kind), f"{name}: {found[name].dtype}"
        assert dimensions(found[name])[0] == "variants", name
    assert found["variant_ac"].dtype.kind == "i" and found["variant_ac"].shape[0] == len(position)
    assert_values(found["variant_third"][:], position.astype("f4") / np.float32(3), "variant_third")
    assert_values(found["variant_even"][:], np.where(position % 2 == 0, position, -1).astype("i4"), "variant_even")
    assert_values(found["variant_tiny"][:], (position % 100).astype("i2"), "variant_tiny")
    assert_values(found["variant_big"][:], position * 1_000_000, "variant_big")
    assert_values(found["variant_reference_base"][:], np.where(position % 5 > 0, store["variant_allele"][:, 0].astype(object), "."), "variant_reference_base")
    odd = np.array([1.5, 0, 2.5]).view("u8")
    odd[1] = 0x7FF0000000000001
    assert found["variant_odd"][:].view("u8")[0].tolist() == odd.tolist()
    ragged = found["variant_ragged"][:]
    assert ragged.shape == (len(position), 3) and len(dimensions(found["variant_ragged"])) == 2
    assert (ragged[position % 3 == 0][:, 0] == position[position % 3 == 0] % 50).all() and (ragged[position % 3 == 0][:, 1:] == -2).all()
    assert (ragged[position % 3 == 1][:, 1] == -1).all()
    # The dimension of another length has another name.
    lengths = {}
    for name, array in found.arrays():
        for dimension, length in zip(dimensions(array), array.shape):
            assert lengths.setdefault(dimension, length) == length, f"{name}: {dimension}"


def test_without_a_table(tmp_path):
    """Rows of no VCZ table: contigs, samples and filters are options."""
    target, named = tmp_path / "values.vcz", tmp_path / "named.vcz"
    rows = "SELECT * FROM (VALUES ('b', 5, 0.5), ('b', 9, NULL), ('a', 1, 2.0)) AS v(variant_contig, variant_position, variant_quality)"
    sql(copy(rows, target, contigs="b,a"), copy(f"SELECT *, make_array('PASS') AS variant_filter FROM ({rows})", named, contigs="c,b,a", filters="PASS,low"))
    found = arrays(target)
    assert found["contig_id"].tolist() == ["b", "a"] and found["variant_contig"].tolist() == [0, 0, 1]
    assert found["variant_position"].tolist() == [5, 9, 1] and group(target).attrs["vcf_zarr_version"]
    found = arrays(named)
    assert found["variant_contig"].tolist() == [1, 1, 2] and found["filter_id"].tolist() == ["PASS", "low"]
    assert found["variant_filter"].tolist() == [[True, False]] * 3
    says(fails(copy(rows, tmp_path / "none.vcz")), "vcz.contigs")
    says(fails(copy(rows, tmp_path / "none.vcz", contigs="a")), r"\bb\b", "contig")
    assert beside(target) == ["named.vcz"]
    # Each name is read back.
    (rows,) = sql(create("v", target), "SELECT variant_contig AS c, variant_quality AS q FROM v")
    assert [(row["c"], row.get("q")) for row in rows] == [("b", 0.5), ("b", None), ("a", 2.0)]


# ------------------------------------------------------------------------------------------- errors

BASE = "SELECT variant_contig, variant_position"
ERRORS = {
    "boolean NULL": (f"{BASE}, CASE WHEN variant_position > 100 THEN true END AS flag FROM t", ["flag", "NULL|missing"]),
    "integer -1": (f"{BASE}, -1 AS minus FROM t", ["minus", "-1"]),
    "integer -1 of a list": (f"{BASE}, make_array(3, -1) AS minus FROM t", ["minus", "-1"]),
    "integer -2 of a list": (f"{BASE}, make_array(-2, 3) AS minus FROM t", ["minus", "-2"]),
    "struct": (f"{BASE}, genotype_counts(call_genotype) AS counted FROM t", ["counted", "struct"]),
    "decimal": (f"{BASE}, CAST(1.25 AS DECIMAL(10, 2)) AS price FROM t", ["price", "cast|float|double"]),
    "no positions": ("SELECT variant_contig, variant_id FROM t", ["variant_position"]),
    "no contigs": ("SELECT variant_position, variant_id FROM t", ["variant_contig"]),
    "no rows of variants": ("SELECT sfs(call_genotype) AS s FROM t", ["variant_contig|variant_position"]),
    "some samples": (f"{BASE}, select_samples(call_genotype, 'first') AS call_genotype, call_genotype_phased FROM t", ["call_genotype", "samples"]),
    "two columns": (f"{BASE}, 1.5 AS pi, 2.5 AS variant_pi FROM t", ["variant_pi"]),
    "no name": (f"{BASE}, 1.5 + variant_position FROM t", ["AS|name"]),
    "path as name": (f'{BASE}, 1.5 AS "a/b" FROM t', ["a/b"]),
    "NULL position": ("SELECT variant_contig, CASE WHEN variant_position > 100 THEN variant_position END AS variant_position FROM t", ["variant_position", "NULL|missing"]),
    "unknown contig": ("SELECT 'nowhere' AS variant_contig, variant_position FROM t", ["nowhere"]),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case, tmp_path):
    """Each says which column, and what is wrong; nothing is left behind."""
    query, parts = ERRORS[case]
    message = fails(fixture("sim").table(), copy(query, tmp_path / "no.vcz"))
    says(message, *parts)
    assert list(tmp_path.iterdir()) == []


OPTIONS = [
    ("format", "4", ["2", "3", "4"]),
    ("codec", "lzma", ["lzma", "blosc-zstd"]),
    ("codec", "zstd:99", ["99", "level"]),
    ("variants_chunk_size", "0", ["variants_chunk_size"]),
    ("samples_chunk_size", "many", ["samples_chunk_size", "many"]),
    ("zip", "perhaps", ["zip", "perhaps"]),
    ("mode", "append", ["append", "create", "add"]),
    ("overwrite", "ja", ["overwrite", "ja"]),
    ("chunk_size", "100", ["chunk_size", "variants_chunk_size"]),
    ("populations", "x.tsv", ["populations"]),
]


def test_options_that_are_wrong(tmp_path):
    """The message has the option or its value, and what is possible."""
    for key, value, parts in OPTIONS:
        says(fails(fixture("haploid").table(), copy("SELECT * FROM t", tmp_path / "no.vcz", **{key: value})), *parts)
        assert list(tmp_path.iterdir()) == [], key


def test_prefixes_of_options(tmp_path):
    """An option may lack its prefix; another prefix is an error before anything is asked of an object store."""
    source = fixture("haploid")
    sql(source.table(), f"COPY t TO '{tmp_path / 'a.vcz'}' STORED AS VCZ OPTIONS ('format' '3', 'codec' 'gzip')")
    assert_copy(tmp_path / "a.vcz", source.path, 3)
    codecs = group(tmp_path / "a.vcz")["call_genotype"].metadata.to_dict()["codecs"]
    assert [codec["name"] for codec in codecs][-1] == "gzip"
    for target, option, parts in [
        (tmp_path / "b.vcz", "vzc.format", ["vzc.format", "'vcz.format'"]),
        ("s3://bucket/b.vcz", "aws.regoin", ["aws.regoin", "aws.region"]),
        ("s3://bucket/b.vcz", "format", ["format", "'vcz.format'"]),
    ]:
        says(fails(source.table(), f"COPY t TO '{target}' STORED AS VCZ OPTIONS ('{option}' '3')"), *parts)


def test_targets_that_exist(tmp_path):
    """They are not touched, unless 'vcz.overwrite' says so."""
    source, other = fixture("haploid"), fixture("int16")
    tables = [source.table(), other.table("o")]
    for name in ("a.vcz", "a.vcz.zip"):
        target = tmp_path / name
        sql(*tables, copy("SELECT * FROM t", target))
        before = digest(target)
        says(fails(*tables, copy("SELECT * FROM o", target)), "exist", "vcz.overwrite")
        assert digest(target) == before
        sql(*tables, copy("SELECT * FROM o", target, overwrite="true"))
        assert_copy(target, other.path, 2)
        # A failed statement keeps it, too.
        fails(*tables, copy(f"{BASE}, -1 AS minus FROM t", target, overwrite="true"))
        assert_copy(target, other.path, 2)
    # What is no store is not replaced.
    precious = tmp_path / "precious.vcz"
    precious.mkdir()
    (precious / "thesis.txt").write_text("all of it")
    message = fails(*tables, copy("SELECT * FROM t", precious, overwrite="true"))
    says(message, "precious.vcz")
    assert (precious / "thesis.txt").read_text() == "all of it"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.vcz", "a.vcz.zip", "precious.vcz"]


def test_a_store_over_itself(tmp_path):
    """A store that is read while it is replaced: right, or an error, and never lost."""
    target = tmp_path / "a.vcz"
    source = fixture("int16")
    sql(source.table(), copy("SELECT * FROM t", target))
    try:
        sql(create("t", target), copy("SELECT * FROM t WHERE variant_position % 2 = 0", target, overwrite="true"))
    except AssertionError:
        assert_copy(target, source.path, 2)
    else:
        assert_arrays(target, rows_of(source, arrays(source.path)["variant_position"] % 2 == 0))
    assert beside(target) == []


def test_rows_of_a_join_are_not_sorted(tmp_path):
    """Rows in no order are written in that order without a region index, or refused; with ORDER BY they have one."""
    source = fixture("sim")
    target = tmp_path / "joined.vcz"
    joined = (
        "SELECT t.* FROM t JOIN (SELECT variant_contig AS c, variant_position AS p, variant_position % 10 AS k FROM t) o "
        "ON t.variant_contig = o.c AND t.variant_position = o.p WHERE k = 3"
    )
    sql(source.table(), copy(f"{joined} ORDER BY variant_contig, variant_position", target))
    keep = arrays(source.path)["variant_position"] % 10 == 3
    assert_arrays(target, rows_of(source, keep))
    assert "region_index" in group(target)
    shuffled, unordered = f"SELECT * FROM ({joined}) ORDER BY variant_position % 1000 LIMIT 500", tmp_path / "unordered.vcz"
    says(fails(source.table(), copy(f"SELECT a.* FROM ({shuffled}) a JOIN (SELECT 1 AS one) b ON b.one > 0", unordered)), "ORDER BY|order")
    assert not unordered.exists() and beside(target) == []


def test_tables_of_different_contigs(tmp_path):
    message = fails(
        fixture("sim").table("a"), fixture("chunks7").table("b"),
        copy("SELECT variant_contig, variant_position FROM a UNION ALL SELECT variant_contig, variant_position FROM b", tmp_path / "no.vcz"),
    )
    says(message, "contig")
    assert list(tmp_path.iterdir()) == []


def test_insert_is_refused(tmp_path):
    target = tmp_path / "a.vcz"
    source = fixture("haploid")
    sql(source.table(), copy("SELECT * FROM t", target))
    before = digest(target)
    says(fails(create("c", target), source.table(), "INSERT INTO c SELECT * FROM t"), "INSERT", "COPY")
    assert digest(target) == before
