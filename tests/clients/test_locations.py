"""Clients are told the names of tables, not where the server keeps them."""

import gzip
import shutil

import pytest

from server import FIXTURES, Server, rows


def shown(connection, sql):
    return "\n".join(str(value) for row in rows(connection, sql) for value in row.values())


@pytest.fixture
def served(tmp_path):
    """A server of tables of all kinds in the folder `elsewhere`; with the folder."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    store = folder / "moved.vcz"
    shutil.unpack_archive(FIXTURES / "sim.vcz.zip", store, "zip")
    for name in ["mask.bed", "view.bed", "windows.bed"]:
        shutil.copy(FIXTURES / "sim.accessible.bed", folder / name)
    shutil.copy(FIXTURES / "sim.vcz.zip", folder / "inner.vcz.zip")
    (folder / "genes.gff3").write_text("##gff-version 3\nchr1\tx\tgene\t100\t2000\t.\t+\t.\tID=g1\n")
    (folder / "genes.gtf").write_text('chr1\tx\tgene\t100\t2000\t.\t+\t.\tgene_id "g1";\n')
    sql = tmp_path / "init.sql"
    sql.write_text(
        f"""CREATE EXTERNAL TABLE mask (contig VARCHAR, "start" BIGINT, "end" BIGINT) STORED AS CSV LOCATION '{folder}/mask.bed'
  OPTIONS ('format.delimiter' '\t', 'format.has_header' 'false', 'format.comment' '#');
CREATE EXTERNAL TABLE intervals STORED AS BED LOCATION '{folder}/view.bed';
CREATE EXTERNAL TABLE genes STORED AS GFF3 LOCATION '{folder}/genes.gff3';
CREATE EXTERNAL TABLE transcripts STORED AS GTF LOCATION '{folder}/genes.gtf';
CREATE VIEW masked AS SELECT variant_position, is_accessible(variant_contig, variant_position, '{folder}/view.bed') AS is_open FROM moved;
CREATE VIEW grid AS SELECT * FROM genome_windows('moved', 50000, 50000, '{folder}/windows.bed');
CREATE VIEW inner_sites AS SELECT variant_position FROM '{folder}/inner.vcz.zip';
CREATE VIEW arrays AS SELECT store, reason FROM vcz_arrays('moved');
"""
    )
    with Server(store, "--sql", sql) as server, server.adbc() as connection:
        yield connection, folder


QUERIES = [
    "SELECT sfs(call_genotype) FROM moved",
    "SELECT count(*) FROM mask WHERE contig = '1'",
    "SELECT count(*) FROM intervals",
    "SELECT count(*) FROM genes WHERE contig = 'chr1'",
    "SELECT count(*) FROM transcripts",
    "SELECT count(*) FROM moved v JOIN genes g ON v.variant_contig = g.contig AND v.variant_position BETWEEN g.\"start\" AND g.stop",
    "SELECT count(*) FROM masked WHERE is_open",
    "SELECT * FROM grid",
    "SELECT max(variant_position) FROM inner_sites",
    "SELECT * FROM arrays",
]


def test_plans_and_errors_name_tables(served):
    connection, folder = served
    # Object stores write a path without its first slash.
    hidden = ["elsewhere", str(folder.parent).strip("/")]

    def is_clean(text):
        assert not [part for part in hidden if part in text], text

    for query in QUERIES:
        for explain in ["", "EXPLAIN", "EXPLAIN VERBOSE", "EXPLAIN ANALYZE"]:
            try:
                text = shown(connection, f"{explain} {query}")
            except Exception as error:
                text = str(error)
                # A view of a file by location may be refused, but not with the location.
                assert "inner_sites" in query or "masked" in query or "grid" in query, (query, error)
            is_clean(text)
    for query in [
        "SELECT * FROM vcz_arrays('moved')",
        "SELECT DISTINCT store FROM vcz_arrays('moved')",
        "SELECT * FROM information_schema.views",
        "SELECT reverse(reverse(definition)) FROM information_schema.views",
        "SELECT substr(definition, position('else' IN definition) + 1) FROM information_schema.views",
        "SELECT * FROM information_schema.tables",
        "SELECT * FROM information_schema.columns",
        "SHOW CREATE TABLE mask",
    ]:
        text = shown(connection, query)
        is_clean(text)
        assert "lsewhere/" not in text, text
    assert shown(connection, "SELECT DISTINCT store FROM vcz_arrays('moved')") == "moved.vcz"
    shutil.rmtree(folder)
    failed = {}
    for query in QUERIES:
        try:
            is_clean(shown(connection, query))
        except Exception as error:
            failed[query] = str(error)
            is_clean(str(error))
    # Others read nothing any more, such as masks that were read when their view was made.
    for query, name in [(QUERIES[0], "moved"), (QUERIES[2], "intervals"), (QUERIES[3], "genes"), (QUERIES[4], "transcripts")]:
        assert name in failed[query], failed


def test_several_stores_are_a_table(tmp_path):
    """A server of several stores as one table, as on the command line: a pattern, a folder, and stores of one name."""
    stores = sorted(FIXTURES.glob("c*r.vcz.zip"))
    folder = tmp_path / "set"
    folder.mkdir()
    for store in stores:
        shutil.copy(store, folder)
    for arguments in [[f"genome={FIXTURES}/c*r.vcz.zip"], [f"genome={folder}"], [f"genome={store}" for store in stores]]:
        with Server(*arguments) as server, server.adbc() as connection:
            found = rows(connection, "SELECT count(*) AS n, count(DISTINCT variant_contig) AS contigs FROM genome")
            assert found == [{"n": 2800, "contigs": 6}]
            assert rows(connection, "SELECT count(DISTINCT store) AS stores FROM vcz_arrays('genome')") == [{"stores": 2}]


def test_a_compressed_mask_is_a_table(tmp_path):
    mask = FIXTURES / "sim.accessible.bed"
    (tmp_path / "mask.bed.gz").write_bytes(gzip.compress(mask.read_bytes()))
    sql = tmp_path / "init.sql"
    sql.write_text(f"CREATE EXTERNAL TABLE plain STORED AS BED LOCATION '{mask}'; CREATE EXTERNAL TABLE zipped STORED AS BED LOCATION '{tmp_path}/mask.bed.gz';")
    with Server(FIXTURES / "sim.vcz.zip", "--sql", sql) as server, server.adbc() as connection:
        plain, zipped = (rows(connection, f"SELECT * FROM {name} ORDER BY 1, 2") for name in ("plain", "zipped"))
        assert plain == zipped and len(plain) > 10
        counts = [rows(connection, f"SELECT count(*) AS n FROM sim WHERE is_accessible(variant_contig, variant_position, '{name}')") for name in ("plain", "zipped")]
        assert counts[0] == counts[1] and 0 < counts[0][0]["n"] < 7402
