"""No user has all places: idle results give theirs up, and a place is left to others."""

import subprocess
import time

import pyarrow.flight as flight
import pytest

from protocol import query, read
from server import SIM, VCZ, Server

pytestmark = pytest.mark.alone

ROWS = 20_000_000
MANY = f"SELECT value FROM generate_series(1, {ROWS})"


@pytest.fixture(scope="module")
def users(tmp_path_factory):
    file = tmp_path_factory.mktemp("users") / "users"
    names = ["ada", "bob"]
    hashed = [subprocess.run([VCZ, "serve", "--hash-password", name], input=name, capture_output=True, text=True, check=True) for name in names]
    file.write_text("".join(line.stdout for line in hashed))
    return ["--auth-file", file]


def logged_in(server, name):
    client = server.flight()
    return client, flight.FlightCallOptions(headers=[client.authenticate_basic_token(name, name)], timeout=60)


def opened(client, options):
    """A result of which one batch was read."""
    info = client.get_flight_info(query(MANY), options)
    reader = client.do_get(info.endpoints[0].ticket, options)
    return reader, len(reader.read_chunk().data)


def test_idle_results_give_their_place_up(users):
    with Server(*SIM, *users, "--max-queries", "2", "--idle-result-timeout", "1s", "--queue-timeout", "5s") as server:
        (ada, hers), (bob, his) = logged_in(server, "ada"), logged_in(server, "bob")
        first, taken = opened(ada, hers)
        # The second waits until the first is idle.
        second, _ = opened(ada, hers)
        third, _ = opened(ada, hers)
        started = time.monotonic()
        assert read(bob, "SELECT 1 AS a", his)[0].num_rows == 1
        assert time.monotonic() - started < 1
        end = time.monotonic() + 5
        while server.metric("vcz_queries_idle") < 3:
            assert time.monotonic() < end
            time.sleep(0.1)
        assert server.metric("vcz_queries_running") == 0
        # The first goes on where it was.
        for chunk in first:
            taken += len(chunk.data)
        assert taken == ROWS
        second.cancel(), third.cancel()
        server.idle()
        assert server.metric("vcz_queries_idle") == 0


def test_idle_results_are_limited(users):
    with Server(*SIM, *users, "--max-queries", "2", "--idle-result-timeout", "300ms", "--queue-timeout", "10s") as server:
        (ada, hers), (bob, his) = logged_in(server, "ada"), logged_in(server, "bob")
        readers = [opened(ada, hers)[0] for _ in range(10)]
        time.sleep(2)
        assert server.metric("vcz_queries_idle") == 8
        ended = 0
        for reader in reversed(readers[-2:]):
            with pytest.raises(Exception, match="was not read for"):
                for _ in reader:
                    pass
            ended += 1
        assert ended == 2 and read(bob, "SELECT 1 AS a", his)[0].num_rows == 1
        for reader in readers[:8]:
            reader.cancel()
        server.idle()


def test_one_user_leaves_a_place(users):
    with Server(*SIM, *users, "--max-queries", "4", "--idle-result-timeout", "60s", "--queue-timeout", "1s") as server:
        (ada, hers), (bob, his) = logged_in(server, "ada"), logged_in(server, "bob")
        readers = [opened(ada, hers)[0] for _ in range(3)]
        with pytest.raises(flight.FlightUnavailableError, match="3 of your queries are running"):
            opened(ada, hers)
        started = time.monotonic()
        assert read(bob, "SELECT 1 AS a", his)[0].num_rows == 1
        assert time.monotonic() - started < 1
        for reader in readers:
            reader.cancel()
        server.idle()


def test_one_address_leaves_a_place():
    with Server(*SIM, "--max-queries", "4", "--max-queries-per-user", "2", "--queue-timeout", "500ms") as server:
        client = server.flight()
        readers = [opened(client, None)[0] for _ in range(2)]
        with pytest.raises(flight.FlightUnavailableError, match="2 of your queries"):
            opened(server.flight(), None)
        for reader in readers:
            reader.cancel()
        server.idle()


def test_results_that_are_not_read_leave_memory_to_others(users):
    """Sorts of one user, who may have three quarters of the memory."""
    limits = ["--memory-limit", "400m", "--max-queries", "4", "--idle-result-timeout", "1s"]
    with Server(*SIM, *users, *limits) as server:
        (ada, hers), (bob, his) = logged_in(server, "ada"), logged_in(server, "bob")
        sort = "SELECT value, value % 7 AS a FROM generate_series(1, 2500000) ORDER BY value % 13, value DESC"
        readers, errors = [], []
        for _ in range(4):
            try:
                info = ada.get_flight_info(query(sort), hers)
                reader = ada.do_get(info.endpoints[0].ticket, hers)
                reader.read_chunk()
                readers.append(reader)
            except Exception as error:
                assert "memory" in str(error), error
                errors.append(error)
        time.sleep(2)
        held = server.metric("vcz_memory_reserved_bytes")
        print(f"{len(readers)} results that are not read hold {held / 1e6:.0f} MB")
        assert readers and 100 << 20 < held <= 300 << 20, (held, errors)
        assert any("all queries of one user" in str(error) for error in errors), errors
        his_own = "SELECT count(DISTINCT value) AS n FROM generate_series(1, 500000)"
        assert read(bob, his_own, his)[0].to_pylist() == [{"n": 500_000}]
        for reader in readers:
            reader.cancel()
        server.idle()
