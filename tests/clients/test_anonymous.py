"""Anonymous reading asks no metadata service of a cloud, whose address answers late or never on other machines."""

import json
import os
import shutil
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from faults import Shelf
from server import FIXTURES, REPOSITORY, VCZ, Server, value
from test_remote import EXPECTED, POPULATIONS, SFS

# Those of Amazon and Azure; Google's is metadata.google.internal, which is the same.
ADDRESS = "169.254.169.254"


class Metadata:
    """A metadata service that knows nothing; `asked` are the paths that it was asked for."""

    def __init__(self):
        self.asked = asked = []

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_GET(self):
                asked.append(self.path)
                self.send_error(404)

            do_PUT = do_GET

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.host = "127.0.0.1:%d" % self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture(scope="module")
def metadata():
    service = Metadata()
    yield service
    service.server.shutdown()


@pytest.fixture(scope="module")
def shelf():
    with Shelf({"sim.vcz.zip": (FIXTURES / "sim.vcz.zip").read_bytes()}) as shelf:
        yield shelf


@pytest.fixture
def variables(metadata, shelf, monkeypatch):
    """An environment without credentials, whose metadata services are that of the test."""
    metadata.asked.clear()
    for name in list(os.environ):
        if name.startswith(("AWS_", "GOOGLE_", "AZURE_", "IDENTITY_", "MSI_")):
            monkeypatch.delenv(name)
    # Of the AWS SDK, of object_store, of Google and of Azure.
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", f"http://{metadata.host}")
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", f"http://{metadata.host}")
    monkeypatch.setenv("GCE_METADATA_HOST", metadata.host)
    monkeypatch.setenv("GCE_METADATA_IP", metadata.host)
    monkeypatch.setenv("IDENTITY_ENDPOINT", f"http://{metadata.host}")
    monkeypatch.setenv("IDENTITY_HEADER", "x")
    monkeypatch.setenv("HOME", "/nonexistent")


def options(location, shelf, *further):
    address = f"http://127.0.0.1:{shelf.port}"
    given = {
        "s3": [f"aws.endpoint={address}", "aws.allow_http=true"],
        "gs": [f"gcp.base_url={address}"],
        "az": [f"azure.endpoint={address}", "azure.account_name=account", "azure.allow_http=true"],
        "http": [],
    }[location.split(":")[0]]
    return [part for option in [*given, "retry.max_retries=0", *further] for part in ("-o", option)]


ANONYMOUS = {"s3": "aws.skip_signature=true", "gs": "gcp.skip_signature=true", "az": "azure.skip_signature=true", "http": "http.timeout=20s"}


def location(scheme, shelf):
    return f"http://127.0.0.1:{shelf.port}/box/sim.vcz.zip" if scheme == "http" else f"{scheme}://box/sim.vcz.zip"


def run(scheme, shelf, *further, before=()):
    given = [location(scheme, shelf), "--populations", POPULATIONS, *options(location(scheme, shelf), shelf, *further)]
    command = [*before, VCZ, "sql", *given, "-q", "--format", "json", "-c", SFS.format("sim")]
    return subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, timeout=60)


def is_right(done):
    return done.returncode == 0 and json.loads(done.stdout) == [{"sfs": EXPECTED["first"]["sfs"]}]


@pytest.mark.parametrize("scheme", ["s3", "gs", "az"])
def test_it_is_asked_for_credentials(scheme, variables, metadata, shelf):
    """Otherwise the next test would show nothing."""
    run(scheme, shelf)
    assert metadata.asked


@pytest.mark.parametrize("scheme", ANONYMOUS)
def test_it_is_not_asked(scheme, variables, metadata, shelf):
    done = run(scheme, shelf, ANONYMOUS[scheme])
    assert is_right(done), done.stderr
    given = [location(scheme, shelf), "--populations", POPULATIONS, *options(location(scheme, shelf), shelf, ANONYMOUS[scheme])]
    with Server(*given) as server, server.adbc() as connection:
        assert value(connection, SFS.format("sim")) == EXPECTED["first"]["sfs"]
    assert not metadata.asked


def test_it_is_not_asked_where_keys_are_given(variables, metadata, shelf):
    done = run("s3", shelf, "aws.access_key_id=x", "aws.secret_access_key=y")
    assert is_right(done) and not metadata.asked, done.stderr


@pytest.mark.parametrize("scheme", ANONYMOUS)
def test_no_connection_to_its_address(scheme, variables, monkeypatch, shelf, tmp_path):
    """By what the program asks of the operating system, without the variables that name another address."""
    for name in list(os.environ):
        if name.startswith(("AWS_", "GCE_", "IDENTITY_")):
            monkeypatch.delenv(name)
    log = tmp_path / "connections"
    before = ["strace", "-f", "-qq", "-e", "trace=connect,sendto,sendmmsg", "-s", "1000", "-o", str(log)]
    if not shutil.which("strace") or subprocess.run([*before, "true"], capture_output=True).returncode:
        pytest.skip("NOT RUN: there is no strace here that may trace, so connections are not watched (metadata services of the test are)")
    done = run(scheme, shelf, ANONYMOUS[scheme], before=before)
    assert is_right(done), done.stderr
    traced = log.read_text()
    assert f"htons({shelf.port})" in traced and ADDRESS not in traced and "metadata" not in traced, traced
