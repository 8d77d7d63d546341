"""TLS, with a certificate made here; addresses that other machines reach are not served in plain text."""

import subprocess

import pyarrow.flight as flight
import pytest
import trustme

from protocol import read
from server import SIM, VCZ, Server, value


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture(scope="module")
def files(authority, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    issued = authority.issue_cert("localhost", "127.0.0.1")
    cert, key = folder / "cert.pem", folder / "key.pem"
    cert.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    key.write_bytes(issued.private_key_pem.bytes())
    return cert, key


def test_tls(authority, files):
    cert, key = files
    trusted = authority.cert_pem.bytes()
    with Server(*SIM, "--tls-cert", cert, "--tls-key", key, tls=True) as server:
        assert read(server.flight(tls_root_certs=trusted), "SELECT 1 AS a")[0].num_rows == 1
        with server.adbc(**{"adbc.flight.sql.client_option.tls_root_certs": trusted.decode()}) as connection:
            assert value(connection, "SELECT count(*) FROM sim") == 7402
        # Clients that do not trust it, or speak plain text, get nothing.
        other = trustme.CA().cert_pem.bytes()
        for client in [server.flight(), server.flight(tls_root_certs=other), flight.connect(f"grpc+tcp://{server.address}")]:
            with pytest.raises(flight.FlightUnavailableError):
                read(client, "SELECT 1 AS a", flight.FlightCallOptions(timeout=10))
        assert read(server.flight(tls_root_certs=trusted), "SELECT 1 AS a")[0].num_rows == 1


def refused(*arguments):
    """What a server says that does not start."""
    ended = subprocess.run([VCZ, "serve", *map(str, arguments)], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    return ended.stderr


def test_plain_text_is_for_this_machine_only(files, tmp_path):
    cert, key = files
    assert "without TLS data and passwords can be read" in refused(*SIM, "--bind", "0.0.0.0:0")
    assert "without users anyone can read the tables" in refused(*SIM, "--bind", "0.0.0.0:0", "--tls-cert", cert, "--tls-key", key)
    with Server(*SIM, "--bind", "0.0.0.0:0", "--insecure") as server:
        port = server.address.rsplit(":", 1)[1]
        assert read(flight.connect(f"grpc+tcp://127.0.0.1:{port}"), "SELECT 1 AS a")[0].num_rows == 1


def test_bad_certificates(files, tmp_path):
    cert, key = files
    garbage = tmp_path / "garbage.pem"
    garbage.write_text("not a certificate")
    missing = tmp_path / "missing.pem"
    assert "cannot read the certificate" in refused(*SIM, "--tls-cert", missing, "--tls-key", key)
    assert "cannot read the private key" in refused(*SIM, "--tls-cert", cert, "--tls-key", missing)
    for pair in [(garbage, key), (cert, garbage)]:
        said = refused(*SIM, "--tls-cert", pair[0], "--tls-key", pair[1])
        assert "certificate" in said and "garbage.pem" in said
    other = trustme.CA().issue_cert("localhost").private_key_pem
    wrong = tmp_path / "wrong.pem"
    wrong.write_bytes(other.bytes())
    assert "wrong.pem" in refused(*SIM, "--tls-cert", cert, "--tls-key", wrong)
