"""Connections that say nothing, too little, or nothing for long keep nobody out and leave nothing behind."""

import functools
import os
import resource
import socket
import ssl
import subprocess
import threading
import time

import pyarrow.flight as flight
import pytest
import trustme

from protocol import query, read
from server import SIM, VCZ, Relay, Server

pytestmark = pytest.mark.alone

FLOOD = 2000
LOGIN = 1
# Where floods come from: together more than a server takes in all, none more than it takes of one.
OTHERS = [f"127.0.0.{number}" for number in range(2, 10)]
# By default a server takes as many connections, and its second port as many.
MOST, MOST_PAGES = 1024, 64
HALF_HEADERS = b"GET /metrics HTTP/1.1\r\nHost: here\r\nX-Half: "
# The start of a TLS record with a ClientHello of 512 bytes, which do not follow.
HALF_HELLO = bytes.fromhex("1603010200010001fc0303") + bytes(32)
# HTTP/2: the preface and SETTINGS; POST, http and / as HEADERS of stream 1, whose END_HEADERS or END_STREAM does not follow.
SETTINGS = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000040000000000")
HALF_BLOCK = SETTINGS + bytes.fromhex("000003010000000001838684")
# CONTINUATION of these headers, of 100 bytes of which not all follow.
DRIPPED = bytes.fromhex("000064090000000001") + bytes(100)


@pytest.fixture(scope="module", autouse=True)
def descriptors():
    """The flood needs as many sockets here."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if most != resource.RLIM_INFINITY and most < FLOOD + 200:
        pytest.skip(f"this process may open {most} files only")


@pytest.fixture(scope="module")
def users(tmp_path_factory):
    file = tmp_path_factory.mktemp("users") / "users"
    line = subprocess.run([VCZ, "serve", "--hash-password", "ada"], input="ada", capture_output=True, text=True, check=True)
    file.write_text(line.stdout)
    return ["--auth-file", file]


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture(scope="module")
def certificate(authority, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    issued = authority.issue_cert("localhost", "127.0.0.1")
    cert, key = folder / "cert.pem", folder / "key.pem"
    cert.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    key.write_bytes(issued.private_key_pem.bytes())
    return ["--tls-cert", cert, "--tls-key", key]


def login(server, **options):
    """The seconds that a new client takes to connect, log in and get an answer."""
    started = time.monotonic()
    client = server.flight(disable_server_verification=True, **options) if server.tls else server.flight(**options)
    token = flight.FlightCallOptions(headers=[client.authenticate_basic_token("ada", "ada")], timeout=10)
    assert read(client, "SELECT 1 AS a", token)[0].num_rows == 1
    client.close()
    return time.monotonic() - started


def used(server):
    """Descriptors and threads of the server."""
    process = f"/proc/{server.process.pid}"
    return len(os.listdir(f"{process}/fd")), len(os.listdir(f"{process}/task"))


def settled(server, baseline, within=40):
    """Waits until the server has no more descriptors and threads than before."""
    end = time.monotonic() + within
    while True:
        now = used(server)
        if now[0] <= baseline[0] and now[1] <= baseline[1]:
            return
        assert time.monotonic() < end, f"{now} descriptors and threads, {baseline} before\n" + "\n".join(server.log[-5:])
        time.sleep(0.2)


def cpu(server):
    fields = open(f"/proc/{server.process.pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def flood(address, says, begin=lambda connection: connection, number=FLOOD, sources=OTHERS):
    """Connections that stay open here after saying `says`; those that the server closes at once are kept, too."""
    host, port = address.rsplit(":", 1)
    sockets = []
    for at in range(number):
        connection = socket.create_connection((host, int(port)), timeout=10, source_address=(sources[at % len(sources)], 0))
        try:
            connection = begin(connection)
            connection.sendall(says)
        except OSError:
            pass
        sockets.append(connection)
    return sockets


@functools.cache
def context():
    found = ssl.create_default_context()
    found.check_hostname, found.verify_mode = False, ssl.CERT_NONE
    found.set_alpn_protocols(["h2"])
    return found


def encrypted(connection):
    return context().wrap_socket(connection)


class Logins:
    """Logs in again and again until the block ends; `waits` has when each began, and the seconds that it took."""

    def __init__(self, server):
        self.server, self.waits, self.failed, self.ended = server, [], None, threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        try:
            while not self.ended.is_set():
                self.waits.append((time.monotonic(), login(self.server)))
        except Exception as error:
            self.failed = error

    def end(self):
        self.ended.set()
        self.thread.join()

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.end()


class Drip:
    """Says a byte on each connection every second, and at last again and again, until the block ends."""

    def __init__(self, sockets, says):
        self.sockets, self.says, self.ended = sockets, says, threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        at = 0
        while self.says and not self.ended.wait(1):
            byte = self.says[min(at, len(self.says) - 1)].to_bytes(1)
            for connection in self.sockets:
                try:
                    connection.send(byte)
                except OSError:
                    pass
            at += 1

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()


# What a connection says at first, and a byte every second of what it says then. "page" is the second port.
KINDS = {
    "nothing": (b"", b""),
    "nothing in TLS": (b"", b""),
    "half preface": (b"PRI ", b""),
    "half preface in TLS": (b"PRI ", b""),
    "half hello": (HALF_HELLO, b""),
    "settings": (SETTINGS, b""),
    "settings in TLS": (SETTINGS, b""),
    "half block of headers": (HALF_BLOCK, b""),
    "half block of headers in TLS": (HALF_BLOCK, b""),
    "drip": (b"", SETTINGS),
    "drip of headers in TLS": (HALF_BLOCK, DRIPPED),
    "half page": (HALF_HEADERS, b""),
    "half page beside TLS": (HALF_HEADERS, b""),
    "drip of a page": (HALF_HEADERS, b"x"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_floods(kind, users, certificate):
    tls = kind == "half hello" or "TLS" in kind
    with Server(*SIM, *users, "--connection-timeout", "3s", *(certificate if tls else []), tls=tls) as server:
        for _ in range(2):
            login(server)
        time.sleep(1)
        baseline, before = used(server), cpu(server)
        address = server.ops.removeprefix("http://") if "page" in kind else server.address
        first, then = KINDS[kind]
        with Logins(server) as logins:
            began = time.monotonic()
            sockets = flood(address, first, encrypted if kind.endswith("in TLS") else lambda connection: connection)
            flooded = time.monotonic()
            with Drip(sockets, then):
                while time.monotonic() < flooded + 2:
                    assert server.get("/healthz")[0] == 200
                assert used(server)[0] < baseline[0] + MOST + MOST_PAGES + 50
                logins.end()
                # The server closes them itself.
                settled(server, baseline)
        assert not logins.failed and max(took for _, took in logins.waits) < LOGIN, (logins.failed, logins.waits)
        meanwhile = sum(began - took < at < flooded for at, took in logins.waits)
        assert 0 < meanwhile < len(logins.waits)
        busy = cpu(server)
        time.sleep(1)
        assert cpu(server) - busy < 0.25, "it does not spin"
        assert server.wait_for_log(r"connections were closed", 5)
        print(
            f"{kind}: {FLOOD} connections in {flooded - began:.2f} s; of {len(logins.waits)} logins, {meanwhile} while they were opened, "
            f"one took at most {max(took for _, took in logins.waits):.2f} s; {busy - before:.1f} s of computing"
        )
        for connection in sockets:
            connection.close()


@pytest.mark.parametrize("tls", [False, True])
def test_a_flood_from_the_address_of_a_client(tls, users, certificate):
    """Without other limits than those that a server has by itself, once the flood is there."""
    with Server(*SIM, *users, *(certificate if tls else []), tls=tls) as server:
        login(server)
        time.sleep(1)
        baseline = used(server)
        host = server.address.rsplit(":", 1)[0]
        sockets = flood(server.address, b"PRI ", encrypted if tls else lambda connection: connection, sources=[host])
        for _ in range(5):
            assert login(server) < LOGIN
        # Those that made room are closed by tasks of their own, a moment later.
        settled(server, (baseline[0] + MOST // 4 + 50, baseline[1] + 50), within=2)
        settled(server, baseline)
        for connection in sockets:
            connection.close()


def test_one_address_keeps_no_other_out(users):
    """An address with all of its connections in use gets no further one; another address does."""
    limits = ["--max-connections", "100", "--max-connections-per-address", "3", "--max-queries", "8"]
    # Otherwise clients of a process share connections.
    alone = {"generic_options": [("grpc.use_local_subchannel_pool", 1)]}
    with Server(*SIM, *users, *limits) as server, Relay(server.address, "127.0.0.2") as other:
        header = server.flight().authenticate_basic_token("ada", "ada")
        options = lambda seconds: flight.FlightCallOptions(headers=[header], timeout=seconds)
        held = []
        for _ in range(3):
            client = server.flight(**alone)
            info = client.get_flight_info(query("SELECT value FROM generate_series(1, 100000000)"), options(60))
            held.append(client.do_get(info.endpoints[0].ticket, options(60)))
            assert len(held[-1].read_chunk().data)
        with pytest.raises((flight.FlightUnavailableError, flight.FlightTimedOutError)):
            read(server.flight(**alone), "SELECT 1 AS a", options(2))
        server.wait_for_log(r"refused=[1-9]", 10)
        assert login(other) < LOGIN
        assert all(len(reader.read_chunk().data) for reader in held), "those that are in use go on"
        for reader in held:
            reader.cancel()
        server.idle()
        assert login(server, **alone) < LOGIN


def test_without_descriptors(users):
    """Not even descriptors that are used up stop it for long."""
    with Server(*SIM, *users, "--connection-timeout", "3s", "--max-connections", "5000") as server:
        login(server)
        baseline = used(server)
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (baseline[0] + 50, baseline[0] + 50))
        sockets = flood(server.address, b"PRI ", number=300)
        server.wait_for_log("cannot accept connections, trying again", 10)
        busy = cpu(server)
        time.sleep(2)
        assert cpu(server) - busy < 1
        for connection in sockets:
            connection.close()
        settled(server, baseline)
        # The first waits behind those that closed while they were queued: accepting goes on in steps of 200 ms.
        login(server)
        assert login(server) < LOGIN


def test_idle_connections_are_closed(users):
    with Server(*SIM, *users, "--idle-connection-timeout", "2s") as server:
        client = server.flight()
        options = flight.FlightCallOptions(headers=[client.authenticate_basic_token("ada", "ada")], timeout=10)
        read(client, "SELECT 1 AS a", options)
        assert server.metric("vcz_connections") == 1
        server.wait_for_log("connections were closed", 10)
        assert server.metric("vcz_connections") == 0
        # The client connects again by itself.
        assert read(client, "SELECT 1 AS a", options)[0].num_rows == 1


def test_a_query_is_not_idle(users):
    limits = ["--idle-connection-timeout", "1s", "--connection-timeout", "1s"]
    with Server(*SIM, *users, *limits) as server:
        client = server.flight()
        options = flight.FlightCallOptions(headers=[client.authenticate_basic_token("ada", "ada")])
        sql = "SELECT count(*) AS n FROM generate_series(1, 30000) a JOIN generate_series(1, 30000) b ON a.value % 7 < b.value % 5"
        assert read(client, sql, options)[0].num_rows == 1
