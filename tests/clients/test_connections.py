"""Connections that say nothing, too little, or nothing for long keep nobody out and leave nothing behind."""

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

from protocol import read
from server import SIM, VCZ, Server

FLOOD = 2000
LOGIN = 1
HALF_HEADERS = b"GET /metrics HTTP/1.1\r\nHost: here\r\nX-Half: "


def frame(kind, flags, stream, content):
    """A frame of HTTP/2."""
    return len(content).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + content


# What a client of HTTP/2 begins with: the whole preface, with its settings.
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"")
# A request whose headers do not end: method, scheme and path, and then more.
UNFINISHED = PREFACE + frame(1, 0, 1, b"\x83\x86\x84") + 3 * frame(9, 0, 1, b"\x00\x01a\x01b")
# The start of a TLS record with a ClientHello of 512 bytes, which do not follow.
HALF_HELLO = bytes.fromhex("1603010200010001fc0303") + bytes(32)


@pytest.fixture(scope="module", autouse=True)
def descriptors():
    """The flood needs as many sockets here."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if most != resource.RLIM_INFINITY and most < FLOOD + 200:
        pytest.fail(f"this process may open {most} files only, and the floods need {FLOOD + 200}")


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


def flood(address, says, begin=lambda connection: connection, number=FLOOD, addresses=1):
    """Connections that stay open here after saying `says`; those that the server closes at once are kept, too."""
    host, port = address.rsplit(":", 1)
    sockets = []
    for at in range(number):
        source = (f"127.0.0.{2 + at % addresses}" if addresses > 1 else "127.0.0.1", 0)
        connection = socket.create_connection((host, int(port)), timeout=10, source_address=source)
        try:
            connection = begin(connection)
            connection.sendall(says)
        except OSError:
            pass
        sockets.append(connection)
    return sockets


def encrypted(connection):
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    return context.wrap_socket(connection)


class Logins:
    """A client that logs in again and again, in a thread; `waits` are the seconds that each login took, `most` the connections it saw."""

    def __init__(self, server):
        self.server, self.waits, self.errors, self.most = server, [], [], 0
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.stopped.is_set():
            try:
                self.waits.append(login(self.server))
                assert self.server.get("/healthz")[0] == 200
                self.most = max(self.most, self.server.metric("vcz_connections"))
            except Exception as error:
                self.errors.append(error)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        self.thread.join()


# What a connection says before it is silent; pages are those of the metrics port.
KINDS = {
    "nothing": b"",
    "half preface": b"PRI ",
    "preface": PREFACE,
    "unfinished headers": UNFINISHED,
    "half hello": HALF_HELLO,
    "half preface in TLS": b"PRI ",
    "preface in TLS": PREFACE,
    "unfinished headers in TLS": UNFINISHED,
    "half page": HALF_HEADERS,
    "half page of a server with TLS": HALF_HEADERS,
}
FROM_MANY = ["nothing", "preface", "unfinished headers", "unfinished headers in TLS"]


@pytest.mark.parametrize("kind, addresses", [*((kind, 1) for kind in KINDS), *((kind, 100) for kind in FROM_MANY)])
def test_floods(kind, addresses, users, certificate):
    tls = kind == "half hello" or "TLS" in kind
    arguments = [*SIM, *users, "--connection-timeout", "5s", "--max-connections", "400"]
    with Server(*arguments, *(certificate if tls else []), tls=tls) as server:
        for _ in range(2):
            login(server)
        time.sleep(1)
        baseline, before = used(server), cpu(server)
        address = server.ops.removeprefix("http://") if "page" in kind else server.address
        begin = encrypted if kind.endswith("in TLS") else lambda connection: connection
        with Logins(server) as logins:
            sockets = flood(address, KINDS[kind], begin, addresses=addresses)
            time.sleep(3)
        assert not logins.errors, logins.errors[:3]
        assert max(logins.waits) < LOGIN, logins.waits
        assert used(server)[0] < baseline[0] + 550
        if "page" not in kind:
            # 100 from one address, and 400 in all.
            wanted = range(95, 111) if addresses == 1 else range(300, 401)
            assert logins.most in wanted, logins.most
        # The server closes them itself.
        settled(server, baseline)
        busy = cpu(server)
        time.sleep(2)
        assert cpu(server) - busy < 0.5, "it does not spin"
        assert server.wait_for_log(r"connections were closed", 5)
        waits = logins.waits
        print(f"{kind} from {addresses}: {logins.most:.0f} open at most; a login took at most {max(waits):.2f} s of {len(waits)}; {busy - before:.1f} s of computing")
        for connection in sockets:
            connection.close()


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
