"""Clients are told the names of tables, not where the server keeps them."""

import shutil

import pytest

from server import FIXTURES, Server, rows


def shown(connection, sql):
    return "\n".join(str(value) for row in rows(connection, sql) for value in row.values())


def test_plans_and_errors_name_tables(tmp_path):
    store = tmp_path / "secret" / "moved.vcz"
    shutil.unpack_archive(FIXTURES / "sim.vcz.zip", store, "zip")
    bed = tmp_path / "secret" / "mask.bed"
    shutil.copy(FIXTURES / "sim.accessible.bed", bed)
    sql = tmp_path / "init.sql"
    sql.write_text(
        f"""CREATE EXTERNAL TABLE mask (contig VARCHAR, "start" BIGINT, "end" BIGINT) STORED AS CSV LOCATION '{bed}'
  OPTIONS ('format.delimiter' '\t', 'format.has_header' 'false', 'format.comment' '#');"""
    )
    with Server(store, "--sql", sql) as server, server.adbc() as connection:
        for explain in ["EXPLAIN", "EXPLAIN VERBOSE", "EXPLAIN ANALYZE"]:
            for query in ["SELECT sfs(call_genotype) FROM moved", "SELECT count(*) FROM mask WHERE contig = '1'"]:
                plan = shown(connection, f"{explain} {query}")
                assert "secret" not in plan and str(tmp_path) not in plan, plan
        shutil.rmtree(store)
        with pytest.raises(Exception, match="moved") as failed:
            rows(connection, "SELECT sfs(call_genotype) FROM moved")
        assert "secret" not in str(failed.value) and str(tmp_path).strip("/") not in str(failed.value), failed.value


def test_a_pattern_is_a_table():
    """A server of several stores as one table, as on the command line."""
    with Server(f"genome={FIXTURES}/c*r.vcz.zip") as server, server.adbc() as connection:
        found = rows(connection, "SELECT count(*) AS n, count(DISTINCT variant_contig) AS contigs FROM genome")
        assert found == [{"n": 2800, "contigs": 6}]
        assert rows(connection, "SELECT count(DISTINCT store) AS stores FROM vcz_arrays('genome')") == [{"stores": 2}]
