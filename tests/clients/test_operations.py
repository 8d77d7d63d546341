"""What operators see: health, numbers, the log, start-up errors, and a server that stops without cutting queries off."""

import re
import signal
import socket
import subprocess
import threading
import time

import pyarrow as pa
import pyarrow.flight as flight
import pytest

from protocol import query, read
from server import FIXTURES, SIM, VCZ, Server, rows

pytestmark = pytest.mark.alone


def test_health_and_metrics(server):
    assert server.get("/healthz") == (200, "ok\n")
    assert server.get("/nothing")[0] == 404
    before = server.metric("vcz_rows_total")
    read(server.flight(), "SELECT variant_position FROM sim")
    assert server.metric("vcz_rows_total") == before + 7402
    assert server.metric("vcz_decoded_bytes_total") > 0
    _, text = server.get("/metrics")
    assert text.endswith("# EOF\n") and "vcz_query_seconds_bucket" in text
    assert not re.search("anonymous|sim|SELECT", text), "no users, tables or statements"


def test_a_line_of_log_for_each_query(server):
    start = len(server.log)
    read(server.flight(), "SELECT sfs(call_genotype) FROM sim")
    line = server.wait_for_log("outcome=done.*", 5, start).group(0)
    for part in [r"rows=1\b", r"milliseconds=\d+", r"bytes_decoded=[1-9]\d+", r"backend=host", r"bytes_sent=\d+"]:
        assert re.search(part, line), (part, line)
    start = len(server.log)
    with pytest.raises(pa.ArrowException):
        read(server.flight(), "SELECT 1 / (variant_position - variant_position) FROM sim")
    server.wait_for_log("outcome=failed", 5, start)


def test_what_a_query_leaves_out_is_logged():
    with Server(FIXTURES / "missing.vcz.zip") as server:
        client = server.flight()
        read(client, "SELECT sfs(call_genotype) FROM missing")
        server.wait_for_log("sfs of 48 copies left out 450 of 571 sites", 5)
        start = len(server.log)
        read(client, "SELECT count(*) FROM missing WHERE variant_contig = 'chrUn'")
        server.wait_for_log("has no contig 'chrUn', so no row matches it", 5, start)
        start = len(server.log)
        read(client, "SELECT diversity(call_genotype) FROM missing")
        server.wait_for_log("outcome=done", 5, start)
        assert not any("left out" in line for line in server.log[start:])


def refused(*arguments):
    ended = subprocess.run([VCZ, "serve", *map(str, arguments)], capture_output=True, text=True, timeout=60)
    assert ended.returncode != 0
    return ended.stderr


def test_start_up_errors(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert f"cannot listen on {address}" in (said := refused(*SIM, "--bind", address)) and "another program" in said
        assert f"cannot listen on {address}" in refused(*SIM, "--bind", "127.0.0.1:0", "--metrics-bind", address)
    broken = tmp_path / "broken.vcz"
    broken.mkdir()
    (broken / ".zgroup").write_text("{")
    assert "broken.vcz" in refused(broken, "--bind", "127.0.0.1:0")
    assert "there is no store 'missing.vcz'" in refused("missing.vcz")
    assert "no tables to serve" in refused("--bind", "127.0.0.1:0")
    users = tmp_path / "users"
    users.write_text("# people\nuser ada plain-text-password\n")
    said = refused(*SIM, "--bind", "127.0.0.1:0", "--auth-file", users)
    assert "line 2: user 'ada': expected an Argon2 hash" in said and "plain-text" not in said
    sql = tmp_path / "init.sql"
    sql.write_text("CREATE EXTERNAL TABLE x STORED AS VCZ LOCATION 'nowhere.vcz';")
    assert "init.sql" in (said := refused("--sql", sql, "--bind", "127.0.0.1:0")) and "nowhere.vcz" in said
    assert "--bind" in refused(*SIM, "--bind", "nonsense")
    assert "--query-timeout" in refused(*SIM, "--query-timeout", "soon")


def test_it_stops_when_it_is_idle():
    for how in [signal.SIGTERM, signal.SIGINT]:
        with Server(*SIM) as server:
            connection = server.adbc()
            rows(connection, "SELECT 1")
            started = time.monotonic()
            assert server.stop(how) == 0
            assert time.monotonic() - started < 5


def test_running_queries_end_before_it_stops(wide):
    with Server(wide) as server:
        client = server.flight()
        reader = client.do_get(client.get_flight_info(query("SELECT variant_position, call_genotype FROM wide")).endpoints[0].ticket)
        seen = reader.read_chunk().data.num_rows
        server.process.send_signal(signal.SIGTERM)
        server.wait_for_log("stopping; running queries have", 5)
        assert server.get("/healthz") == (503, "stopping\n")
        with pytest.raises((flight.FlightError, pa.ArrowException)):
            read(server.flight(), "SELECT 1", flight.FlightCallOptions(timeout=5))
        for chunk in reader:
            seen += chunk.data.num_rows
        assert seen == 100_000
        assert server.stop() == 0


def test_queries_that_do_not_end_are_cancelled(wide):
    with Server(wide, "--shutdown-timeout", "1s") as server:
        client = server.flight()
        reader = client.do_get(client.get_flight_info(query("SELECT call_genotype FROM wide")).endpoints[0].ticket)
        reader.read_chunk()
        started = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        assert server.stop() == 0
        assert 0.9 < time.monotonic() - started < 8
        with pytest.raises((flight.FlightError, pa.ArrowException)):
            while True:
                reader.read_chunk()
        assert "queries that did not end are cancelled" in "\n".join(server.log)


def test_defaults_of_the_operator_may_be_large(tmp_path):
    setup = tmp_path / "setup.sql"
    setup.write_text("SET vcz.prefetch = 64;")
    with Server(*SIM, "--sql", setup) as server:
        connection = server.adbc()
        rows(connection, "SET datafusion.execution.batch_size = 1000")
        assert rows(connection, "SELECT count(*) AS n FROM sim") == [{"n": 7402}]
        rows(connection, "SET vcz.prefetch = 65")
        with pytest.raises(Exception, match="from 0 to 1024"):
            rows(connection, "SET vcz.prefetch = 1025")


def test_the_time_of_a_statement(server):
    (first,) = rows(server.adbc(), "SELECT now() AS now, current_timestamp AS again, current_date AS date, current_time AS time")
    assert abs(first["now"].timestamp() - time.time()) < 60 and first["now"] == first["again"]
    assert first["date"] == first["now"].date()
    time.sleep(0.01)
    connection = server.adbc()
    with connection.cursor() as cursor:
        cursor.execute("SELECT now() AS now WHERE $1 > 0", [1])
        second = cursor.fetch_arrow_table().to_pylist()[0]["now"]
    assert second > first["now"], "each statement has a time of its own"
    with pytest.raises(Exception, match="no time zone 'Mars/Phobos'"):
        rows(connection, "SET datafusion.execution.time_zone = 'Mars/Phobos'")
