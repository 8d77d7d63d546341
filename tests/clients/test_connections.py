"""Connections that say nothing, too little, or nothing for long keep nobody out and leave nothing behind."""

import os
import resource
import socket
import ssl
import subprocess
import time

import pyarrow.flight as flight
import pytest
import trustme

from protocol import read
from server import SIM, VCZ, Server

FLOOD = 2000
LOGIN = 1
HALF_HEADERS = b"GET /metrics HTTP/1.1\r\nHost: here\r\nX-Half: "
# The start of a TLS record with a ClientHello of 512 bytes, which do not follow.
HALF_HELLO = bytes.fromhex("1603010200010001fc0303") + bytes(32)


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


def flood(address, says, begin=lambda connection: connection, number=FLOOD):
    """Connections that stay open here after saying `says`; those that the server closes at once are kept, too."""
    host, port = address.rsplit(":", 1)
    sockets = []
    for _ in range(number):
        connection = socket.create_connection((host, int(port)), timeout=10)
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


@pytest.mark.parametrize("kind", ["nothing", "half preface", "half hello", "half preface in TLS", "half headers", "half headers to TLS"])
def test_floods(kind, users, certificate):
    tls = kind in ["half hello", "half preface in TLS", "half headers to TLS"]
    arguments = [*SIM, *users, "--connection-timeout", "5s", "--max-connections", "400"]
    with Server(*arguments, *(certificate if tls else []), tls=tls) as server:
        for _ in range(2):
            login(server)
        time.sleep(1)
        baseline, before = used(server), cpu(server)
        address = server.ops.removeprefix("http://") if "headers" in kind else server.address
        says = {"nothing": b"", "half hello": HALF_HELLO}.get(kind, HALF_HEADERS if "headers" in kind else b"PRI ")
        sockets = flood(address, says, encrypted if kind == "half preface in TLS" else lambda connection: connection)
        waits = []
        end = time.monotonic() + 3
        while time.monotonic() < end:
            waits.append(login(server))
            assert server.get("/healthz")[0] == 200
        assert max(waits) < LOGIN, waits
        assert used(server)[0] < baseline[0] + 550
        # The server closes them itself.
        settled(server, baseline)
        busy = cpu(server)
        time.sleep(2)
        assert cpu(server) - busy < 0.5, "it does not spin"
        assert server.wait_for_log(r"connections were closed", 5)
        print(f"{kind}: a login took at most {max(waits):.2f} s of {len(waits)}; {busy - before:.1f} s of computing")
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
