"""Large results stream: memory stays small, and a client that has enough stops the scan."""

import threading
import time

import numpy as np
import pyarrow as pa
import pyarrow.flight as flight
import pytest

from protocol import field, query, read
from server import Server
from stores import genotypes

pytestmark = pytest.mark.alone

LIMIT = 400 << 20


def check(batch, wanted):
    """Whether a batch of (variant_position, call_genotype) holds what the store does."""
    rows, samples, _ = wanted.shape
    values = batch.column(1).values.values.to_numpy().reshape(batch.num_rows, samples, 2)
    for at in (0, batch.num_rows - 1):
        assert np.array_equal(values[at], wanted[(batch.column(0)[at].as_py() - 1) % rows])
    return values.nbytes


@pytest.mark.parametrize("client", ["adbc", "pyarrow"])
def test_a_gigabyte_in_little_memory(wide, client):
    sql, wanted = "SELECT variant_position, call_genotype FROM wide", genotypes(1000, 5_000)
    with Server(wide) as server:
        received = 0
        if client == "adbc":
            with server.adbc().cursor() as cursor:
                cursor.execute(sql)
                for batch in cursor.fetch_record_batch():
                    received += check(batch, wanted)
        else:
            connection = server.flight()
            for chunk in connection.do_get(connection.get_flight_info(query(sql)).endpoints[0].ticket):
                received += check(chunk.data, wanted)
        assert received == 100_000 * 5_000 * 2
        peak = server.resident()[1]
        print(f"1 GB through {client}: the server had {peak >> 20} MiB at most")
        assert peak < LIMIT
        server.idle()


def test_a_slow_client_holds_the_server_back(wide):
    with Server(wide) as server:
        connection = server.flight()
        reader = connection.do_get(connection.get_flight_info(query("SELECT call_genotype FROM wide")).endpoints[0].ticket)
        reader.read_chunk()
        time.sleep(1)
        decoded = server.metric("vcz_sent_bytes_total")
        assert decoded == 0, "it has not ended"
        assert server.metric("vcz_queries_sending") == 1
        assert server.resident()[1] < LIMIT
        assert read(connection, "SELECT count(*) AS n FROM wide")[0].to_pylist() == [{"n": 100_000}]
        reader.cancel()
        server.idle(1)


@pytest.mark.parametrize("how", ["close", "cancel", "drop"])
def test_early_close_stops_the_scan(wide, how):
    with Server(wide, "--query-timeout", "60s") as server:
        # One query has rows ready, the other computes for long before it has any.
        for sql in ["SELECT call_genotype FROM wide", "SELECT count(*) FROM wide a, wide b WHERE a.variant_position % 7 = b.variant_position % 5"]:
            if how == "cancel":
                cursor = server.adbc().cursor()
                failed = []

                def run():
                    try:
                        cursor.execute(sql)
                        cursor.fetch_arrow_table()
                    except Exception as error:
                        failed.append(error)

                thread = threading.Thread(target=run)
                thread.start()
                while not server.metric("vcz_queries_sending"):
                    time.sleep(0.01)
                cursor.adbc_cancel()
                ended = time.monotonic()
                server.idle(1)
                assert time.monotonic() - ended < 1
                thread.join(10)
                assert failed and not thread.is_alive()
                continue
            connection = server.flight()
            reader = connection.do_get(connection.get_flight_info(query(sql)).endpoints[0].ticket)
            if "call_genotype" in sql:
                reader.read_chunk()
            while not server.metric("vcz_queries_sending"):
                time.sleep(0.01)
            if how == "drop":
                del reader
                connection.close()
            else:
                reader.cancel()
            ended = time.monotonic()
            server.idle(1)
            assert time.monotonic() - ended < 1
            server.wait_for_log("outcome=client_left", 2)


def test_cancel_flight_info(wide):
    with Server(wide) as server:
        connection = server.flight()
        info = connection.get_flight_info(query("SELECT call_genotype FROM wide"))
        reader = connection.do_get(info.endpoints[0].ticket)
        reader.read_chunk()
        cancel = lambda: [result.body.to_pybytes() for result in connection.do_action(flight.Action("CancelFlightInfo", field(1, info.serialize())))]
        assert cancel() == [b"\x08\x01"], "CANCEL_STATUS_CANCELLED"
        with pytest.raises(flight.FlightCancelledError, match="cancelled"):
            while True:
                reader.read_chunk()
        server.idle(1)
        # Planned and not fetched: it is forgotten. Unknown: said so.
        info = connection.get_flight_info(query("SELECT call_genotype FROM wide"))
        assert server.metric("vcz_tickets") == 1
        cancel()
        assert server.metric("vcz_tickets") == 0
        with pytest.raises(pa.ArrowKeyError, match="no such query"):
            cancel()
        assert "outcome=cancelled" in "\n".join(server.log)
