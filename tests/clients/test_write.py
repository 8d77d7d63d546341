"""VCZ stores that `COPY … STORED AS VCZ` writes: their arrays by zarr-python, of whole stores and of parts of them, and their statistics."""

import itertools
import math
import zipfile

import numpy as np
import pytest

from server import FIXTURES
from written import (
    CODECS, SHARED, Source, arrays, assert_arrays, assert_copy, assert_values, beside, contents, copy, create, digest, dimensions, fixture, group, rows_of,
    sources, sql,
)

LOCAL = sources(FIXTURES)
# gambX, with a million variants, has a test of its own.
REAL = sources(SHARED, but=["gambX"])
SOURCES = [*LOCAL, *REAL] if REAL else [*LOCAL, None]


def name_of(source):
    return source.name if source else "real-stores"


def present(source):
    if source is None or not source.path.exists():
        pytest.skip(f"NOT RUN: there are no real stores in {SHARED}, so none is copied")


# ------------------------------------------------------------------------------------------- statistics


def argument(source, population, samples):
    """The argument that is a population, with the comma before it."""
    if population == "all":
        return ""
    if source.populations:
        return f", '{population}'"
    half = math.ceil(len(samples) / 2)
    members = samples[:half] if population == "first" else samples[half:]
    return ", [" + ", ".join("'" + sample.replace("'", "''") + "'" for sample in members) + "]"


def statistics(source, table, samples):
    """Queries of a table that has a store's genotypes: name -> SQL. Names and keys are those of expected.json."""
    expected = source.expected
    queries = {
        "sites": "SELECT count(*) AS variants, CAST(min(variant_position) AS BIGINT) AS position_min, CAST(max(variant_position) AS BIGINT) AS "
        f"position_max FROM {table}",
        "contigs": f"SELECT variant_contig, count(*) AS n FROM {table} GROUP BY 1 ORDER BY 1",
    }
    if "all" not in expected:
        return queries
    classes = ["hom_ref", "het", "hom_alt", "haploid", "missing"]
    sums = ", ".join(f"sum(genotype_counts(call_genotype)['{name}']) AS {name}" for name in classes)
    queries["genotype_counts"] = f"SELECT {sums} FROM {table}"
    known = [key for key, values in expected.items() if isinstance(values, dict) and values.get("copies", 0) > 0]
    for key in known:
        wanted, x = expected[key], "call_genotype" + argument(source, key, samples)
        ac, m = f"allele_counts({x})", wanted["project_m"]
        counts = ", ".join(f"sum({ac}[{allele}])" for allele in range(1, expected["n_alleles"] + 1))
        queries[key] = (
            f"SELECT count(*) FILTER (WHERE allele_number({ac}) > 0) AS sites_with_data, sum(allele_number({ac})) AS allele_number, "
            f"make_array({counts}) AS allele_count_sums, CAST(cardinality(sfs({x})) AS BIGINT) - 1 AS copies, diversity({x}) AS diversity, "
            f"segregating_sites({x}) AS segregating_sites, theta_w({x}) AS theta_w, tajimas_d({x}) AS tajimas_d, sfs({x}) AS sfs, "
            f"sfs_folded({x}) AS sfs_folded, project_sfs({x}, {m}) AS project_sfs, project_sfs_folded({x}, {m}) AS project_sfs_folded FROM {table}"
        )
    for key, wanted in expected.items():
        if not isinstance(wanted, dict) or "joint_sfs_cells" not in wanted:
            continue
        first, second = key.split("_")
        if first not in known or second not in known:
            continue
        x, (m1, m2) = "call_genotype" + argument(source, first, samples) + argument(source, second, samples), wanted["project_m"]
        queries[key] = (
            f"SELECT divergence({x}) AS divergence, fst_hudson({x}) AS fst_hudson, joint_sfs({x}) AS joint_sfs, joint_sfs_folded({x}) AS "
            f"joint_sfs_folded, project_joint_sfs({x}, {m1}, {m2}) AS project_joint_sfs, project_joint_sfs_folded({x}, {m1}, {m2}) AS "
            f"project_joint_sfs_folded FROM {table}"
        )
    return queries


def assert_expected(row, wanted, what):
    """The keys of a row that are expected: integers exactly, floats to 1e-12."""
    if "joint_sfs" in row:
        for key, checksum in [("joint_sfs", "joint_sfs_checksum"), ("joint_sfs_folded", "joint_sfs_folded_checksum")]:
            cells = np.array(row[key], dtype=float)
            i, j = np.indices(cells.shape)
            row[checksum] = float((cells * (31 * i + 17 * j + 1)).sum())
        row["joint_sfs_cells"] = int((np.array(row["joint_sfs"]) != 0).sum())
        row["joint_sfs_total"] = int(np.array(row["joint_sfs"]).sum())
    checked = [key for key in row if key in wanted]
    for key in checked:
        if wanted[key] is None:
            assert row.get(key) is None, f"{what}: {key}"
        else:
            assert np.array(row[key]) == pytest.approx(np.array(wanted[key]), rel=1e-12, abs=1e-12), f"{what}: {key}"
    return len(checked)


def check_statistics(source, results, queries):
    """Compares the results of a copy, in the queries' order, with expected.json."""
    expected, checked = source.expected, 0
    for key, (*rows,) in zip(queries, results, strict=True):
        if not expected:
            continue
        if key == "contigs":
            assert {row["variant_contig"]: row["n"] for row in rows} == expected["contigs"]
        else:
            checked += assert_expected(dict(rows[0]), expected if key == "sites" else expected[key], f"{source.name}: {key}")
    return checked


# ------------------------------------------------------------------------------------------- whole stores


@pytest.mark.parametrize("source", SOURCES, ids=name_of)
def test_copies(source, tmp_path):
    """Every store as a folder of Zarr v2 in the default chunks and codec, and in other chunks and codecs: arrays, statistics."""
    present(source)
    number = SOURCES.index(source)
    plain, other = tmp_path / "plain.vcz", tmp_path / ("other.vcz.zip" if number % 2 else "other.vcz")
    variants = group(source.path)["variant_position"].shape[0]
    chunks = [(100, 7), (64, 4), (300, 5), (257, 10000)][number % 4]
    if variants > 1000:
        # Fewer files.
        chunks = (10 * chunks[0], chunks[1])
    options = {"format": 3, "variants_chunk_size": chunks[0], "samples_chunk_size": chunks[1], "codec": CODECS[number % len(CODECS)]}
    samples = group(source.path)["sample_id"][:].tolist() if "sample_id" in group(source.path) else []
    queries = {table: statistics(source, table, samples) for table in ("t", "plain", "other")}
    copied, again, *results = sql(
        source.table(), copy("SELECT * FROM t", plain), copy("SELECT * FROM t", other, **options),
        create("plain", plain, source.populations), create("other", other, source.populations),
        *itertools.chain.from_iterable(queries[table].values() for table in queries),
    )
    assert copied == again == [{"count": variants}]
    assert_copy(plain, source.path, 2)
    assert_copy(other, source.path, 3, chunks)
    assert beside(plain) == [other.name]
    of = len(queries["t"])
    original, first, second = results[:of], results[of : 2 * of], results[2 * of :]
    assert first == original and second == original
    check_statistics(source, first, queries["t"])


def test_enough_is_compared():
    """The stores that have statistics to compare."""
    with_genotypes = [source for source in LOCAL if "all" in source.expected]
    assert len(LOCAL) >= 26 and len(with_genotypes) >= 25
    assert not REAL or len(REAL) >= 28 and len([source for source in REAL if "all" in source.expected]) >= 20


def test_a_million_variants(tmp_path):
    """The largest of the real stores, from two partitions."""
    source = Source(SHARED / "gambX.vcz.zip")
    present(source)
    target = tmp_path / "gambX.vcz"
    queries = statistics(source, "c", [])
    (copied,), *results = sql(source.table(), copy("SELECT * FROM t", target), create("c", target, source.populations), *queries.values())
    found, wanted = group(target), group(source.path)
    assert copied == {"count": wanted["variant_position"].shape[0]}
    assert set(found.array_keys()) == set(wanted.array_keys())
    step = 100_000
    for name, array in wanted.arrays():
        assert found[name].shape == array.shape and dimensions(found[name]) == dimensions(array), name
        for start in range(0, array.shape[0], step):
            rows = slice(start, start + step)
            assert_values(
                found[name][rows].astype(array.dtype) if array.dtype.kind == "i" else found[name][rows], array[rows], f"{name} from {start}"
            )
    assert check_statistics(source, results, queries) >= 40


# ------------------------------------------------------------------------------------------- codecs, chunks, bytes


def codec_of(array, format_):
    """The name of an array's codec, its level and shuffle."""
    if format_ == 2:
        if not array.compressors:
            return ("none", None, None)
        config = array.compressors[0].get_config()
        name, level, shuffle = config.get("cname", config["id"]), config.get("clevel", config.get("level")), config.get("shuffle")
        return (f"blosc-{name}" if config["id"] == "blosc" else name, level, {0: "noshuffle", 1: "shuffle", 2: "bitshuffle"}.get(shuffle))
    if not array.compressors:
        return ("none", None, None)
    config = array.compressors[0].to_dict()
    name, inside = config["name"], config.get("configuration", {})
    return (f"blosc-{inside['cname']}" if name == "blosc" else name, inside.get("clevel", inside.get("level")), inside.get("shuffle"))


@pytest.mark.parametrize("format_", [2, 3])
def test_codecs(format_, tmp_path):
    """Each codec, as a folder and as an archive: the same arrays, and metadata that name the codec."""
    source = fixture("missing")
    levels = {"blosc-lz4": ":3", "gzip": ":1", "blosc-zlib": ":2"}
    cases = {}
    for codec, ending in itertools.product(CODECS, ["vcz", "vcz.zip"]):
        cases[tmp_path / f"{codec.replace(':', '-')}.{ending}"] = codec + (levels.get(codec, "") if ending == "vcz" else "")
    sql(
        source.table(),
        *(copy("SELECT * FROM t", path, format=format_, codec=codec, variants_chunk_size=100) for path, codec in cases.items()),
    )
    for path, codec in cases.items():
        assert_copy(path, source.path, format_, (100, 10000))
        arrays = group(path)
        name, _, level = codec.partition(":")
        for array, shuffle in {"call_genotype": "bitshuffle", "call_genotype_phased": "bitshuffle", "call_DP": "shuffle"}.items():
            found, found_level, found_shuffle = codec_of(arrays[array], format_)
            assert found == name, f"{path.name}: {array}"
            assert not level or found_level == int(level), f"{path.name}: {array}"
            assert not name.startswith("blosc") or found_shuffle == shuffle, f"{path.name}: {array}"
    assert codec_of(group(tmp_path / "blosc-zstd.vcz")["call_genotype"], format_) == ("blosc-zstd", 7, "bitshuffle")
    sizes = {path.name: sum(file.stat().st_size for file in path.rglob("c*/**/*") if file.is_file()) for path in cases if path.is_dir()}
    assert sizes["blosc-zstd.vcz"] < sizes["none.vcz"] / 2


def test_archives_and_endings(tmp_path):
    """The target's name says whether it is an archive, and that it is VCZ; options say otherwise."""
    source = fixture("haploid")
    bare = lambda target: f"COPY (SELECT * FROM t) TO '{target}'"  # noqa: E731
    names = ["folder.vcz", "archive.vcz.zip", "as_option", "as_option.zip"]
    folder, archive, zipped, unzipped = (tmp_path / name for name in names)
    sql(
        source.table(), bare(folder), bare(archive), copy("SELECT * FROM t", zipped, zip="true"), copy("SELECT * FROM t", unzipped, zip="false")
    )
    assert [path.is_dir() for path in (folder, archive, zipped, unzipped)] == [True, False, False, True]
    for path in (folder, archive, zipped, unzipped):
        assert_copy(path, source.path, 2)
    with zipfile.ZipFile(archive) as entries:
        assert entries.testzip() is None
        # Chunks are compressed already, so that the archive can be read by ranges.
        assert {entry.compress_type for entry in entries.infolist()} == {zipfile.ZIP_STORED}
        assert len(entries.namelist()) == len(set(entries.namelist()))
        entries.extractall(tmp_path / "unpacked.vcz")
    assert_copy(tmp_path / "unpacked.vcz", source.path, 2)


@pytest.mark.parametrize("format_", [2, 3])
def test_same_bytes_with_any_number_of_partitions(format_, tmp_path):
    source = fixture("sim")
    digests = []
    for partitions in (1, 2, 16):
        folder = tmp_path / str(partitions)
        folder.mkdir()
        options = {"format": format_, "variants_chunk_size": 300, "samples_chunk_size": 11}
        sql(
            source.table(), copy("SELECT * FROM t", folder / "whole.vcz", **options), copy("SELECT * FROM t", folder / "whole.vcz.zip", **options),
            copy("SELECT * FROM t WHERE variant_position % 3 = 0 AND is_pass(variant_filter)", folder / "part.vcz", **options), partitions=partitions,
        )
        # The order of an archive's entries is that in which chunks were encoded.
        digests.append({name: contents(folder / name) for name in ("whole.vcz", "whole.vcz.zip", "part.vcz")})
    assert digests[0] == digests[1] == digests[2]
    assert len(digests[0]["whole.vcz"]) > 100


def test_a_copy_of_a_copy_is_the_copy(tmp_path):
    """Nothing is added or lost on the way, in one format or from one to the other."""
    source = fixture("formats")
    targets = [tmp_path / f"{number}" / "a.vcz" for number in range(3)]
    for target in targets:
        target.parent.mkdir()
    for before, target, format_ in zip([source.path, *targets], targets, [2, 3, 2]):
        sql(create("t", before), copy("SELECT * FROM t", target, format=format_))
    assert digest(targets[0]) == digest(targets[2])


# ------------------------------------------------------------------------------------------- stores in other layouts, of other programs

LAYOUTS = ["v2-big-endian", "v2-fixed-unicode-big", "v2-order-f", "v3-sharded-transpose", "v3-crc32c", "v2-blosc-snappy-shuffle", "version-0.1"]


def test_layouts(tmp_path):
    """What is in another layout is written in the usual one: all of these stores have the same values."""
    wanted = group(FIXTURES / "layouts" / "v2-zstd.vcz.zip")
    statements = []
    for layout in LAYOUTS:
        table = '"' + layout + '"'
        statements += [create(table, FIXTURES / "layouts" / f"{layout}.vcz.zip"), copy(f"SELECT * FROM {table}", tmp_path / f"{layout}.vcz")]
    sql(*statements)
    for layout in LAYOUTS:
        found = group(tmp_path / f"{layout}.vcz")
        assert set(wanted.array_keys()) - set(found.array_keys()) <= {"region_index", "contig_length"}, layout
        # The arrays are those of 0.4, where the store said 0.1.
        assert found.attrs["vcf_zarr_version"] == "0.4", layout
        for name, array in found.arrays():
            if name in wanted:
                values = array[...].astype(wanted[name].dtype) if array.dtype.kind == "i" else array[...]
                assert_values(values, wanted[name][...], f"{layout}: {name}")


@pytest.mark.parametrize("name", ["sgkit.zarr.zip", "scikit_allel.zarr.zip"])
def test_stores_of_other_programs(name, tmp_path):
    """They have no version of VCF Zarr; the copy does, and the same rows."""
    target = tmp_path / "copy.vcz"
    rows = "SELECT variant_contig, variant_position, variant_allele, call_genotype FROM {} LIMIT 1000"
    _, before, after = sql(
        create("t", FIXTURES / "other_writers" / name), copy("SELECT * FROM t", target), create("c", target), rows.format("t"), rows.format("c")
    )
    assert before == after and len(after) > 50
    assert group(target).attrs["vcf_zarr_version"]


# ------------------------------------------------------------------------------------------- parts of stores


@pytest.mark.parametrize("format_", [2, 3])
def test_some_samples(format_, tmp_path):
    """Genotypes and FORMAT fields of a population: those of its samples, in the store's order, and so the other arrays over samples."""
    source = fixture("chunks7")
    store = arrays(source.path)
    lines = [line.split("\t") for line in source.populations.read_text().splitlines()[1:]]
    ids = store["sample_id"].tolist()
    members = sorted(ids.index(sample) for sample, population in lines if population == "third")
    assert 0 < len(members) < len(ids)
    calls = [name for name in store if name.startswith("call_")]
    assert {"call_genotype", "call_genotype_phased", "call_genotype_mask"} <= set(calls)
    sites = [name for name in store if name.startswith("variant_")]
    query = f"SELECT {', '.join(sites)}, {', '.join(f'''select_samples({name}, 'third') AS {name}''' for name in calls)} FROM t"
    target, one = tmp_path / "third.vcz", tmp_path / "one.vcz"
    replace = ", ".join(f"select_samples({name}, ['{ids[20]}']) AS {name}" for name in calls)
    queries = "SELECT sfs(call_genotype) AS a, diversity(call_genotype) AS b FROM c", "SELECT sfs(call_genotype, 'third') AS a, diversity(call_genotype, 'third') AS b FROM t"
    *_, copied, original = sql(
        source.table(), copy(query, target, format=format_, samples_chunk_size=2),
        copy(f"SELECT * REPLACE ({replace}) FROM t", one, format=format_), create("c", target), *queries,
    )
    assert copied == original
    for path, kept in [(target, members), (one, [20])]:
        wanted = {name: values[:, kept] if name in calls else values for name, values in store.items()} | {"sample_id": store["sample_id"][kept]}
        assert_arrays(path, wanted)
        assert group(path)["call_genotype"].shape[1] == group(path)["sample_id"].shape[0] == len(kept)
    assert group(target)["call_genotype"].chunks[1] == 2


def test_samples_of_every_field(tmp_path):
    """Of FORMAT fields of every type, with several values a call, whose chunks differ."""
    source = fixture("filters")
    store = arrays(source.path)
    ids = store["sample_id"].tolist()
    kept = [1, 4, 5, 12]
    calls = [name for name in store if name.startswith("call_")]
    population = "[" + ", ".join(f"'{ids[at]}'" for at in reversed(kept)) + "]"
    query = "SELECT * REPLACE (" + ", ".join(f"select_samples({name}, {population}) AS {name}" for name in calls) + ") FROM t"
    target = tmp_path / "four.vcz"
    sql(source.table(), copy(query, target, samples_chunk_size=3))
    wanted = {name: values[:, kept] if name in calls else values for name, values in store.items()} | {"sample_id": store["sample_id"][kept]}
    found = arrays(target)
    assert set(found) - {"region_index"} == set(wanted)
    for name, values in wanted.items():
        assert_values(found[name].astype(values.dtype) if values.dtype.kind in "iu" else found[name], values, name)


WHERE = {
    "variant_position BETWEEN 5000 AND 40000 AND variant_contig = 'chr2'": lambda s: (s["contig"] == "chr2") & (s["position"] >= 5000) & (s["position"] <= 40000),
    "is_pass(variant_filter)": lambda s: s["passes"],
    "variant_quality > 50 OR variant_position % 7 = 0": lambda s: (s["variant_quality"] > 50) | (s["position"] % 7 == 0),
    "is_biallelic(variant_allele) AND derived_count(allele_counts(call_genotype, 'first')) > 3": None,
    "variant_position < 0": lambda s: s["position"] < 0,
}


def test_some_rows(tmp_path):
    """Rows by position, by filters, by counts and by LIMIT: those of numpy, and the arrays that are not over variants stay."""
    source = fixture("sim")
    store = arrays(source.path)
    filters = store["filter_id"].tolist()
    others = [at for at, name in enumerate(filters) if name != "PASS"]
    summary = store | {
        "contig": store["contig_id"].astype(object)[store["variant_contig"]], "position": store["variant_position"].astype(np.int64),
        "passes": store["variant_filter"][:, filters.index("PASS")] & ~store["variant_filter"][:, others].any(axis=1),
    }
    lines = [line.split("\t") for line in source.populations.read_text().splitlines()[1:]]
    first = [store["sample_id"].tolist().index(sample) for sample, population in lines if population == "first"]
    derived = (store["call_genotype"][:, first] > 0).sum(axis=(1, 2))
    biallelic = (store["variant_allele"] != "").sum(axis=1) == 2
    targets = [tmp_path / f"where{number}.vcz" for number in range(len(WHERE))]
    limit, tail = tmp_path / "limit.vcz", tmp_path / "tail.vcz"
    counted = sql(
        source.table(), *(copy(f"SELECT * FROM t WHERE {where}", target, variants_chunk_size=300) for where, target in zip(WHERE, targets)),
        copy("SELECT * FROM t LIMIT 1234", limit), copy("SELECT * FROM t LIMIT 100 OFFSET 7000", tail),
    )
    masks = [mask(summary) if mask else biallelic & (derived > 3) for mask in WHERE.values()]
    assert [mask.any() for mask in masks] == [True] * 4 + [False]
    everything = np.arange(len(derived))
    for target, keep, (count,) in zip([*targets, limit, tail], [*masks, everything < 1234, (everything >= 7000) & (everything < 7100)], counted):
        assert count == {"count": int(keep.sum())}, target.name
        assert_arrays(target, rows_of(source, keep))
    # An empty one is a store, too.
    assert sql(create("e", targets[-1]), "SELECT count(*) AS n FROM e") == [[{"n": 0}]]


def test_order(tmp_path):
    """ORDER BY is the order of the copy, which then has no region index; statistics are the same."""
    source = fixture("contigs_order")
    target, contigs = tmp_path / "down.vcz", tmp_path / "contigs.vcz"
    _, _, (there,), (back,) = sql(
        source.table(), copy("SELECT * FROM t ORDER BY variant_position DESC, variant_contig", target),
        copy("SELECT * FROM t ORDER BY variant_contig, variant_position", contigs), create("c", target),
        "SELECT sfs(call_genotype) AS s, diversity(call_genotype) AS pi, count(*) AS n FROM t",
        "SELECT sfs(call_genotype) AS s, diversity(call_genotype) AS pi, count(*) AS n FROM c",
    )
    assert there == back
    store = arrays(source.path)
    names = store["contig_id"].astype(object)[store["variant_contig"]]
    # Where both are equal the order is not said, so these are left out.
    assert len(set(zip(names.tolist(), store["variant_position"].tolist()))) == len(names)
    assert_arrays(target, rows_of(source, np.lexsort([names, -store["variant_position"].astype(np.int64)])))
    assert "region_index" not in group(target)
    assert_arrays(contigs, rows_of(source, np.lexsort([store["variant_position"], names])))
    assert "region_index" in group(contigs)


def null_codes(values):
    """Where VCZ's missing and fill values are."""
    if values.dtype.kind == "i":
        return (values == -1) | (values == -2)
    codes = {2: (0x7C01, 0x7C02), 4: (0x7F800001, 0x7F800002), 8: (0x7FF0000000000001, 0x7FF0000000000002)}[values.dtype.itemsize]
    return np.isin(values.view(f"u{values.dtype.itemsize}"), codes)


def test_masked_calls(tmp_path):
    """Calls that fail a filter are missing in the copy, as numpy computes them, and everything else is the same."""
    source = fixture("missing")
    store = arrays(source.path)
    target, both = tmp_path / "deep.vcz", tmp_path / "both.vcz"
    masked = "filter_calls(filter_calls(call_genotype, call_DP, 50), call_value(call_AD, 2), 20)"
    members = store["sample_id"].tolist()[3:9]
    population = "[" + ", ".join(f"'{sample}'" for sample in members) + "]"
    calls = [name for name in store if name.startswith("call_") and name != "call_genotype"]
    chosen = ", ".join(f"select_samples({name}, {population}) AS {name}" for name in calls)
    statistic = "SELECT diversity({}) AS pi, sum(genotype_counts({})['missing']) AS missing FROM {}"
    *_, asked, found = sql(
        source.table(), copy(f"SELECT * REPLACE ({masked} AS call_genotype) FROM t", target, variants_chunk_size=64),
        copy(f"SELECT * REPLACE (select_samples({masked}, {population}) AS call_genotype, {chosen}) FROM t WHERE variant_contig = 'X'", both),
        create("c", target), statistic.format(masked, masked, "t"), statistic.format("call_genotype", "call_genotype", "c"),
    )
    assert asked == found
    depth, reads = store["call_DP"], np.ascontiguousarray(store["call_AD"][..., 1])
    passes = ~null_codes(depth) & (depth >= 50) & ~null_codes(reads) & (reads >= 20)
    genotypes = store["call_genotype"].copy()
    genotypes[~passes[:, :, None] & (genotypes != -2)] = -1
    assert 0 < passes.mean() < 1 and (genotypes != store["call_genotype"]).any()
    assert_arrays(target, store | {"call_genotype": genotypes})
    rows = store["contig_id"].astype(object)[store["variant_contig"]] == "X"
    wanted = {name: values[rows] if name.startswith(("variant_", "call_")) else values for name, values in store.items()}
    wanted = {name: values[:, 3:9] if name.startswith("call_") else values for name, values in (wanted | {"call_genotype": genotypes[rows]}).items()}
    assert_arrays(both, wanted | {"sample_id": store["sample_id"][3:9]})


def masked_by(store):
    """A FORMAT field of one whole number a call, and a number that some of the values are below; None where there is none."""
    for name in ("call_DP", "call_GQ"):
        if name in store and store[name].ndim == 2 and store[name].dtype.kind == "i":
            known = store[name][~null_codes(store[name])]
            if known.size and known.min() < known.max():
                return name, int(np.median(known)) + 1
    return None, None


@pytest.mark.parametrize("source", [*SOURCES, *([Source(SHARED / "gambX.vcz.zip")] if REAL else [])], ids=name_of)
def test_parts_of_every_store(source, tmp_path):
    """Every third position, every other sample, and calls masked by a field, of each store: what numpy gives of the same arrays."""
    present(source)
    store = arrays(source.path)
    rows = store["variant_position"] % 3 == 0
    wanted = {name: values[rows] if name.startswith(("variant_", "call_")) else values for name, values in store.items()}
    calls = [name for name in store if name.startswith("call_")]
    chosen = {}
    if calls:
        ids = store["sample_id"].tolist()
        kept = np.arange(0, len(ids), 2)
        population = "[" + ", ".join("'" + ids[at].replace("'", "''") + "'" for at in kept) + "]"
        field, least = masked_by(store) if "call_genotype" in store else (None, None)
        for name in calls:
            of = f"filter_calls(call_genotype, {field}, {least})" if name == "call_genotype" and field else name
            chosen[name] = f"select_samples({of}, {population}) AS {name}"
        if field:
            depth, genotypes = wanted[field], wanted["call_genotype"].copy()
            fails_ = null_codes(depth) | (depth < least)
            genotypes[fails_[:, :, None] & (genotypes != -2)] = -1
            wanted["call_genotype"] = genotypes
        # Arrays over samples alone, too.
        over = {name: dimensions(array) for name, array in group(source.path).arrays()}
        wanted = {
            name: values[:, kept] if name in calls else values[kept] if over[name][:1] == ["samples"] else values for name, values in wanted.items()
        }
    sites = [name for name in store if name.startswith("variant_")]
    query = f"SELECT {', '.join([*sites, *chosen.values()])} FROM t WHERE variant_position % 3 = 0"
    target = tmp_path / "part.vcz"
    ((count,),) = sql(source.table(), copy(query, target, format=2 + len(source.name) % 2, samples_chunk_size=3 if len(store["sample_id"]) < 50 else 10000))
    assert count == {"count": int(rows.sum())}
    found = arrays(target)
    assert set(found) - {"region_index"} == set(wanted) - {"region_index"}
    for name in set(wanted) - {"region_index"}:
        values, of = found[name], wanted[name]
        # Indices and positions may have other widths, and unsigned numbers have the next signed type.
        assert_values(values.astype(of.dtype) if of.dtype.kind in "iu" else values, of, f"{source.name}: {name}")


def test_rows_of_several_stores(tmp_path):
    """A table of several stores with the same samples and contigs is one store."""
    halves = [tmp_path / f"half{number}.vcz" for number in range(2)]
    source, whole = fixture("sim"), tmp_path / "whole.vcz"
    sql(source.table(), *(copy(f"SELECT * FROM t WHERE variant_contig = 'chr{n + 1}'", half) for n, half in enumerate(halves)))
    sql(create("t", f"{tmp_path}/half*.vcz"), copy("SELECT * FROM t", whole))
    assert_copy(whole, source.path, 2)
