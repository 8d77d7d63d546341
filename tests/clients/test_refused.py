"""What a client must not do is refused with a clear status, and the server goes on serving."""

import pathlib
import re
import time

import adbc_driver_manager.dbapi as adbc
import pyarrow as pa
import pyarrow.flight as flight
import pytest

from protocol import action, command, query, read
from server import FIXTURES, SIM, Server, rows, value

pytestmark = pytest.mark.alone

STORE = str(FIXTURES / "sim.vcz.zip")
BED = str(FIXTURES / "sim.accessible.bed")

READ_ONLY = [
    "CREATE TABLE x AS SELECT 1",
    "CREATE VIEW x AS SELECT 1",
    "CREATE SCHEMA x",
    "CREATE DATABASE x",
    "CREATE FUNCTION f(INT) RETURNS INT RETURN $1 + 1",
    "DROP TABLE sim",
    "DROP VIEW short",
    "INSERT INTO sim SELECT * FROM sim",
    "INSERT INTO accessible VALUES ('1', 1, 2)",
    "DELETE FROM accessible",
    "UPDATE accessible SET contig = 'x'",
    "TRUNCATE accessible",
    "COPY (SELECT 1) TO '/tmp/vcz-refused.csv'",
    "COPY sim TO '/tmp/vcz-refused.parquet' STORED AS PARQUET",
    "EXPLAIN COPY (SELECT 1) TO '/tmp/vcz-refused.csv'",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '/tmp/vcz-refused.csv'",
    "EXPLAIN ANALYZE INSERT INTO accessible VALUES ('1', 1, 2)",
    "PREPARE p AS SELECT 1",
    "PREPARE p AS COPY (SELECT 1) TO '/tmp/vcz-refused.csv'",
    "EXECUTE p",
    "DEALLOCATE p",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
]
FILES = [
    "SELECT * FROM '/etc/passwd'",
    f"SELECT * FROM '{STORE}'",
    f"SELECT * FROM '{BED}'",
    "SELECT * FROM 's3://bucket/x.vcz'",
    "SELECT * FROM 'https://example.org/x.parquet'",
    "CREATE EXTERNAL TABLE x STORED AS CSV LOCATION '/etc/passwd'",
    f"CREATE EXTERNAL TABLE x STORED AS VCZ LOCATION '{STORE}'",
    f"SELECT * FROM vcz_samples('{STORE}')",
    f"SELECT * FROM vcz_arrays('{STORE}')",
    f"SELECT * FROM genome_windows('{STORE}', 1000)",
    f"SELECT * FROM genome_windows('sim', 1000, 1000, '{BED}')",
    f"SELECT is_accessible(variant_contig, variant_position, '{BED}') FROM sim",
    f"SELECT accessible_bases('chr1', 1, 2, '{BED}')",
    f"SELECT sum(accessible_bases('chr1', 1, 2, '{BED}')) OVER () FROM sim",
    f"EXPLAIN SELECT accessible_bases('chr1', 1, 2, '{BED}')",
    f"WITH w AS (SELECT * FROM genome_windows('{STORE}', 1000)) SELECT * FROM w",
    f"SELECT (SELECT count(*) FROM '{STORE}')",
    f"SELECT sfs(call_genotype, (SELECT array_agg(sample_id) FROM vcz_samples('{STORE}'))) FROM sim",
    f"SELECT sfs(call_genotype, (SELECT array_agg(x) FROM '/etc/passwd' AS t(x))) FROM sim",
    f"SELECT 1 WHERE EXISTS (SELECT 1 FROM vcz_samples('{STORE}'))",
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_parquet('/etc/passwd')",
    "SELECT * FROM parquet_metadata('/etc/passwd')",
    "SELECT * FROM metadata_cache()",
    "SELECT * FROM list_files_cache()",
]
SETTINGS = [
    "SET datafusion.runtime.memory_limit = '100G'",
    "SET datafusion.runtime.temp_directory = '/etc'",
    "SET datafusion.catalog.information_schema = false",
    "SET datafusion.catalog.location = '/'",
    "SET datafusion.execution.batch_size = 100000000",
    "SET datafusion.execution.target_partitions = 100000",
    "SET datafusion.sql_parser.recursion_limit = 100000000",
    "SET vcz.gpu_memory_limit = '100GB'",
    "SET vcz.gpu_direct_storage = 'on'",
    "SET vcz.batch_bytes = '100GB'",
    "SET flight.message_bytes = '100GB'",
    "SET vcz.backend = 'quantum'",
    "SET nothing.at_all = 1",
    "RESET datafusion.runtime.memory_limit",
]
LARGE = [
    "SELECT repeat('x', 2000000000)",
    "SELECT array_repeat(1, 2000000000)",
    "SELECT range(1, 10000000000)",
    "SELECT lpad('x', 2147483647)",
]


@pytest.mark.parametrize("sql", READ_ONLY + FILES + SETTINGS + LARGE)
def test_statements(server, sql):
    client = server.flight()
    with pytest.raises((pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowKeyError)) as refused:
        read(client, sql)
    assert len(str(refused.value)) > 20, "the reason is given"
    # By the other ways in: prepared, as an update, and for its schema only.
    connection = server.adbc()
    with pytest.raises(Exception):
        with connection.cursor() as cursor:
            cursor.adbc_prepare(sql)
            cursor.execute(sql)
            cursor.fetchall()
    with pytest.raises(Exception):
        with connection.cursor() as cursor:
            cursor.adbc_statement.set_sql_query(sql)
            cursor.adbc_statement.execute_update()
    assert value(connection, "SELECT count(*) FROM sim") == 7402
    assert not list(pathlib.Path("/tmp").glob("vcz-refused*"))


def test_read_only_says_so(server):
    with pytest.raises(pa.ArrowInvalid, match="--allow-ddl"):
        read(server.flight(), "CREATE TABLE x AS SELECT 1")
    for sql, said in [
        ("CREATE TABLE x AS SELECT 1", "CREATE TABLE is not allowed: the server is read-only"),
        ("CREATE VIEW x AS SELECT 1", "CREATE VIEW is not allowed: the server is read-only"),
        ("DROP TABLE sim", "DROP TABLE is not allowed: the server is read-only"),
        ("COPY (SELECT 1) TO '/tmp/vcz-refused.csv'", "COPY is not allowed: the server is read-only and writes no files"),
        ("EXPLAIN COPY sim TO '/tmp/vcz-refused.parquet'", "COPY is not allowed: the server is read-only and writes no files"),
        ("SELECT repeat('x', 3)", "this server does not have the function 'repeat', because"),
        ("SELECT * FROM read_csv('/etc/passwd')", "there is no table function 'read_csv' on this server; it has generate_series"),
    ]:
        with pytest.raises(pa.ArrowInvalid, match=re.escape(said)):
            read(server.flight(), sql)
    with pytest.raises(pa.ArrowInvalid, match="'first' is a population: write it in single quotes"):
        read(server.flight(), 'SELECT sfs(call_genotype, "first") FROM sim')
    with pytest.raises(pa.ArrowInvalid, match="cannot be set on this server; these can: vcz.backend"):
        read(server.flight(), "SET datafusion.runtime.memory_limit = '1G'")


def test_substrait_ingestion_transactions(server):
    client = server.flight()
    plan = flight.FlightDescriptor.for_command(command("CommandStatementSubstraitPlan", b"\x0a\x00"))
    with pytest.raises((pa.ArrowNotImplementedError, flight.FlightError)):
        client.get_flight_info(plan)
    for refused in [
        action("CreatePreparedSubstraitPlan", "ActionCreatePreparedSubstraitPlanRequest", b"\x0a\x00"),
        action("BeginTransaction", "ActionBeginTransactionRequest"),
        action("BeginSavepoint", "ActionBeginSavepointRequest", b"t", "name"),
        flight.Action("SomethingElse", b""),
    ]:
        with pytest.raises((pa.ArrowNotImplementedError, pa.ArrowInvalid, flight.FlightError)):
            list(client.do_action(refused))
    with pytest.raises(Exception):
        with server.adbc().cursor() as cursor:
            cursor.adbc_ingest("new_table", pa.table({"a": [1]}), mode="create")
    assert read(client, "SELECT 1 AS a")[0].num_rows == 1


def test_long_sql(server):
    client = server.flight()
    with pytest.raises(pa.ArrowInvalid, match="more than the 1048576 allowed"):
        read(client, "SELECT '" + "x" * 10_000_000 + "'")
    with pytest.raises((pa.ArrowInvalid, flight.FlightError), match="larger than|limit|length"):
        read(client, "SELECT '" + "x" * 40_000_000 + "'")
    with pytest.raises(Exception):
        with server.adbc().cursor() as cursor:
            cursor.adbc_prepare("SELECT '" + "x" * 10_000_000 + "'")
    deep = "SELECT " + "(" * 50_000 + "1" + ")" * 50_000
    with pytest.raises(pa.ArrowInvalid):
        read(client, deep)
    # Deep without parentheses: walked by recursion, so it must neither be too deep for a stack nor be refused too early.
    for part, times in [(" + 1", 900), ("::BIGINT", 900), (" UNION ALL SELECT 1", 200), (" OR TRUE", 900)]:
        read(client, "SELECT 1" + part * times if "OR" not in part else "SELECT TRUE" + part * times)
        with pytest.raises(pa.ArrowInvalid, match="more than the 1000 allowed"):
            read(client, "SELECT 1" + part * 3000)
    with pytest.raises(pa.ArrowInvalid, match="more than the 200 allowed"):
        read(client, "SELECT 1 FROM " + ", ".join(["sim"] * 300))
    values = ", ".join(map(str, range(50_000)))
    assert read(client, f"SELECT count(*) AS n FROM sim WHERE variant_position IN ({values})")[0].to_pylist()[0]["n"] > 0


def test_garbage(server):
    client = server.flight()
    for descriptor in [flight.FlightDescriptor.for_command(b"\xff\xff\xff"), flight.FlightDescriptor.for_path("etc", "passwd")]:
        with pytest.raises((pa.ArrowInvalid, pa.ArrowNotImplementedError, flight.FlightError)):
            client.get_flight_info(descriptor)
    forged = command("TicketStatementQuery", bytes(32))
    for ticket in [b"", b"\xff", command("TicketStatementQuery", b"x"), forged, command("CommandPreparedStatementQuery", forged)]:
        with pytest.raises((pa.ArrowInvalid, pa.ArrowKeyError, pa.ArrowNotImplementedError, flight.FlightError)):
            client.do_get(flight.Ticket(ticket)).read_all()
    ticket = client.get_flight_info(query("SELECT 1 AS a")).endpoints[0].ticket
    assert client.do_get(ticket).read_all().num_rows == 1
    with pytest.raises(pa.ArrowKeyError, match="was used already"):
        client.do_get(ticket).read_all()


def test_memory(server):
    """A query over its memory fails alone: one beside it goes on."""
    client, other = server.flight(), server.adbc()
    hungry = [
        "SELECT array_agg(value) FROM generate_series(1, 1000000000)",
        "SELECT count(*) FROM generate_series(1, 1000000000) a JOIN generate_series(1, 1000000000) b ON a.value = b.value",
        "SELECT count(*) OVER () FROM generate_series(1, 1000000000)",
        "SELECT sfs(call_genotype, (SELECT array_agg(value::VARCHAR) FROM generate_series(1, 1000000000))) FROM sim",
    ]
    for sql in hungry:
        with other.cursor() as cursor:
            cursor.execute("SELECT variant_position FROM sim ORDER BY 1")
            with pytest.raises((pa.ArrowException, flight.FlightError), match="memory|Memory|Resources"):
                read(client, sql)
            assert cursor.fetch_arrow_table().num_rows == 7402
    # A population is one value: many are refused at the second, not collected.
    with pytest.raises(pa.ArrowInvalid, match="one value"):
        read(client, "SELECT sfs(call_genotype, (SELECT value::VARCHAR FROM generate_series(1, 100000000000))) FROM sim")
    assert server.resident()[1] < 1 << 30
    server.idle()


def test_time():
    with Server(*SIM, "--query-timeout", "700ms") as server:
        client = server.flight()
        slow = "SELECT sum(a.value * b.value % 7) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b"
        with pytest.raises((flight.FlightTimedOutError, pa.ArrowException), match="took longer than 700ms"):
            read(client, slow)
        # While it is planned.
        with pytest.raises((flight.FlightTimedOutError, pa.ArrowException), match="took longer than 700ms"):
            read(client, f"SELECT sfs(call_genotype, ({slow.replace('sum(', 'max(')})::VARCHAR) FROM sim")
        # A client that does not read.
        with pytest.raises((flight.FlightTimedOutError, pa.ArrowException), match="took longer than 700ms"):
            reader = client.do_get(client.get_flight_info(query("SELECT * FROM generate_series(1, 10000000000)")).endpoints[0].ticket)
            time.sleep(1)
            while True:
                reader.read_chunk()
        assert read(client, "SELECT count(*) AS n FROM sim")[0].to_pylist() == [{"n": 7402}]
        server.idle()


def test_too_many_queries():
    with Server(*SIM, "--max-queries", "1", "--queue-timeout", "300ms") as server:
        client = server.flight()
        info = client.get_flight_info(query("SELECT * FROM generate_series(1, 10000000000)"))
        reader = client.do_get(info.endpoints[0].ticket)
        reader.read_chunk()
        with pytest.raises((flight.FlightError, pa.ArrowException), match="as many as this server allows"):
            read(server.flight(), "SELECT 1 AS a")
        # ADBC's UNAVAILABLE: not the query's fault, and worth trying again.
        with pytest.raises(adbc.OperationalError, match="as many as this server allows"):
            rows(server.adbc(), "SELECT 1 AS a")
        reader.cancel()
        assert read(server.flight(), "SELECT 1 AS a")[0].num_rows == 1
        server.idle()


def test_ddl_when_allowed():
    with Server(*SIM, "--allow-ddl", "--query-memory-limit", "100m") as server:
        connection, other = server.adbc(), server.adbc()
        rows(connection, "CREATE VIEW early AS SELECT * FROM sim WHERE variant_position < 1000")
        rows(connection, "CREATE TABLE cohort AS SELECT sample_id FROM vcz_samples('sim') LIMIT 5")
        assert server.metric("vcz_memory_reserved_bytes") > 0, "tables that are kept are accounted"
        assert value(other, "SELECT count(*) FROM cohort") == 5
        spectrum = value(other, "SELECT sfs(call_genotype, (SELECT array_agg(sample_id) FROM cohort)) FROM early")
        assert len(spectrum) == 11
        for sql in [
            "DROP TABLE sim", "CREATE OR REPLACE VIEW sim AS SELECT 1", "CREATE OR REPLACE TABLE sim AS SELECT 1",
            "DROP SCHEMA public CASCADE", "CREATE TABLE big AS SELECT * FROM generate_series(1, 100000000)",
            "CREATE TABLE cohort AS SELECT 1", *FILES, *[sql for sql in READ_ONLY if re.match("COPY|EXPLAIN|PREPARE|INSERT", sql)],
        ]:
            with pytest.raises(Exception):
                rows(connection, sql)
        rows(connection, "DROP VIEW early")
        rows(connection, "DROP TABLE cohort")
        server.idle()
