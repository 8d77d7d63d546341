"""Notices of statements: in the metadata of the flight info (those of planning), and of a last batch without rows (all)."""

import json
import threading

import pyarrow as pa
import pytest

from protocol import query, read
from server import FIXTURES, Server, rows

MISSING = [FIXTURES / "missing.vcz.zip", "--populations", FIXTURES / "missing.populations.tsv"]
SFS = "SELECT sfs(call_genotype) AS sfs FROM missing"
LEFT_OUT = "sfs of 48 copies left out 450 of 571 sites: "


@pytest.fixture(scope="module")
def missing():
    with Server(*MISSING) as server:
        yield server


def unknown(contig):
    """A statement about a contig that the store does not have."""
    return f"SELECT count(*) AS n FROM missing WHERE variant_contig = '{contig}'"


def parsed(metadata):
    """The notices in metadata; none if it is empty."""
    return json.loads(bytes(metadata))["notices"] if metadata else []


def chunks(client, sql):
    """The chunks of a result, and the notices of its flight info."""
    info = client.get_flight_info(query(sql))
    return list(client.do_get(info.endpoints[0].ticket)), parsed(info.app_metadata)


def notices(client, sql):
    """The notices of a statement, those of planning apart."""
    found, planning = chunks(client, sql)
    assert not any(chunk.app_metadata for chunk in found[:-1])
    return parsed(found[-1].app_metadata) if found else [], planning


def test_pyarrow_reads_them(missing):
    client = missing.flight()
    found, planning = chunks(client, SFS)
    assert [chunk.data.num_rows for chunk in found] == [1, 0] and planning == []
    (said,) = parsed(found[1].app_metadata)
    assert said.startswith(LEFT_OUT) and "project_sfs" in said
    # What planning finds out is there before anything runs, and at the end.
    at_the_end, planning = notices(client, unknown("chrUn"))
    assert at_the_end == planning and len(planning) == 1
    assert "has no contig 'chrUn', so no row matches" in planning[0] and "/" not in planning[0], "tables, not locations"
    # Both kinds, and none: then there is no further batch.
    both, planning = notices(client, "SELECT (SELECT sfs(call_genotype) FROM missing), (" + unknown("chrUn") + ")")
    assert len(both) == 2 and planning == both[:1] and both[1].startswith(LEFT_OUT)
    found, planning = chunks(client, "SELECT diversity(call_genotype) FROM missing")
    assert [chunk.data.num_rows for chunk in found] == [1] and not found[0].app_metadata and planning == []


def test_readers_of_pyarrow_take_the_last_batch(missing):
    client = missing.flight()
    assert read(client, SFS)[0].num_rows == 1
    reader = lambda: client.do_get(client.get_flight_info(query(SFS)).endpoints[0].ticket)
    assert reader().read_pandas().shape == (1, 1)
    assert pa.Table.from_batches(reader().to_reader()).num_rows == 1
    # Without rows, and compressed.
    at_the_end, _ = notices(client, SFS + " WHERE variant_position < 0")
    assert at_the_end == []
    read(client, "SET flight.compression = 'zstd'")
    assert notices(client, SFS)[0][0].startswith(LEFT_OUT)
    missing.idle()


def test_adbc_is_not_disturbed(missing):
    with missing.adbc() as connection:
        ((found,),) = [row.values() for row in rows(connection, SFS)]
        assert len(found) == 49 and sum(found) == 571 - 450
        for sql, parameters in [(unknown("chrUn"), None), (unknown("chrUn").replace("'chrUn'", "?"), ("chrUn",))]:
            assert rows(connection, sql, parameters) == [{"n": 0}]
        with connection.cursor() as cursor:
            cursor.execute(SFS)
            assert sum(batch.num_rows for batch in cursor.fetch_record_batch()) == 1
            cursor.execute(SFS)
            assert len(cursor.fetchall()) == 1
    missing.idle()


def test_statements_at_once_do_not_mix(missing):
    client, failures = missing.flight(), []

    def repeat(sql, expected):
        try:
            for _ in range(20):
                (said,), _ = notices(client, sql)
                assert expected in said, (sql, said)
        except BaseException as error:
            failures.append(error)

    statements = [
        (SFS, LEFT_OUT),
        ("SELECT sfs(call_genotype, 'first') FROM missing", "sfs of 26 copies left out "),
        (unknown("a"), "has no contig 'a'"),
        (unknown("b"), "has no contig 'b'"),
    ]
    threads = [threading.Thread(target=repeat, args=statement) for statement in statements]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures and not any(thread.is_alive() for thread in threads)
    missing.idle()


def test_explain_analyze_counts_sites(missing):
    client = missing.flight()
    plan = "\n".join(read(client, "EXPLAIN ANALYZE " + SFS)[0]["plan"].to_pylist())
    assert "sfs_sites_left_out=450" in plan
