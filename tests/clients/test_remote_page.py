"""The page of remote stores, src/scan/remote/README.md: its commands run as they stand, against a local S3 server and Azure's emulator."""

import base64
import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
import tomllib
import zipfile

import pytest
import zarr
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from faults import KEYS, Bucket, Proxy
from server import FIXTURES, REPOSITORY, VCZ, Server, value
from test_services import free_port, started

PAGE = (REPOSITORY / "src" / "scan" / "remote" / "README.md").read_text()
EXPECTED = json.loads((FIXTURES / "expected.json").read_text())["sim.vcz"]
AZURE_KEY = base64.b64encode(b"a key of the test").decode()


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def commands():
    """The commands of the page, without comments."""
    lines = "".join(blocks("sh")).replace("\\\n", "").splitlines()
    return [" ".join(re.sub(r"\s#.*", "", line).split()) for line in lines if line.strip()]


@dataclasses.dataclass(frozen=True)
class Case:
    """What a command is checked by: the service, the spectrum of a table or rows of a statement, and a header that requests have (or lack, if None)."""

    service: str
    table: str = "x"
    sql: str = ""
    rows: tuple = ()
    header: str = ""
    text: str | None = ""


CASES = {
    "vcz sql s3://bucket/path/ag.vcz --option aws.region=eu-west-1": Case("s3", "ag", header="authorization", text="/eu-west-1/s3/"),
    "vcz serve --sql tables.sql": Case("serve", header="authorization", text="/eu-west-1/s3/"),
    "vcz sql s3://bucket/x.vcz": Case("s3", header="authorization", text=f"Credential={KEYS['AWS_ACCESS_KEY_ID']}/"),
    "vcz sql s3://bucket/x.vcz -o aws.skip_signature=true -o aws.region=us-east-1": Case("s3", header="authorization", text=None),
    "vcz sql s3://bucket/x.vcz -o aws.request_payer=true": Case("s3", header="x-amz-request-payer", text="requester"),
    "AWS_ACCESS_KEY_ID=… AWS_SECRET_ACCESS_KEY=… vcz sql s3://bucket/x.vcz -o aws.endpoint=http://127.0.0.1:9000 -o aws.allow_http=true": Case(
        "none", header="authorization", text="Credential=x/"
    ),
    "vcz sql gs://bucket/x.vcz": Case("gcs", header="authorization", text="Bearer "),
    "vcz sql gs://bucket/x.vcz -o gcp.service_account_path=key.json": Case("none", header="authorization", text="Bearer "),
    "vcz sql gs://bucket/x.vcz -o gcp.skip_signature=true": Case("gcs", header="authorization", text=None),
    "vcz sql az://container/x.vcz -o azure.account_name=account": Case("azure"),
    "vcz sql az://container/x.vcz -o azure.account_name=account -o azure.skip_signature=true": Case("azure, anonymously"),
    "vcz sql https://host/path/x.vcz.zip": Case("none", header="range", text="bytes="),
    "vcz sql https://host/path/x.vcz": Case("none"),
    "vcz inspect x.vcz --consolidate": Case("consolidate"),
    "vcz sql https://host/path/x.vcz -o vcz.arrays=call_AD,variant_MQ": Case(
        "none", sql='SELECT max("variant_MQ") AS a, count("call_AD") AS b FROM x', rows=({"a": 98.0, "b": 7402},)
    ),
    "vcz sql s3://bucket/x.vcz -o vcz.cache_dir=/scratch/vcz -o vcz.cache_size=50GB": Case("s3"),
}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """The fixture `sim` as a folder, with two arrays whose names are not those of other stores."""
    path = tmp_path_factory.mktemp("store") / "x.vcz"
    with zipfile.ZipFile(FIXTURES / "sim.vcz.zip") as archive:
        archive.extractall(path)
    shutil.copytree(path / "variant_quality", path / "variant_MQ")
    shutil.copytree(path / "call_genotype_phased", path / "call_AD")
    return path


def objects(store, names):
    for path in store.rglob("*"):
        if path.is_file():
            for name in names:
                yield f"{name}/{path.relative_to(store)}", path


@pytest.fixture(scope="module")
def bucket(store):
    """The bucket `bucket`, also of Google's, and the folder `path` of the host `host`."""
    bucket = Bucket()
    bucket.client.create_bucket(Bucket="bucket")
    populations = FIXTURES / "sim.populations.tsv"
    files = [*objects(store, ["x.vcz", "path/x.vcz", "path/ag.vcz"]), ("path/x.vcz.zip", FIXTURES / "sim.vcz.zip"), ("path/ag.populations.tsv", populations)]
    for key, path in files:
        bucket.client.put_object(Bucket="bucket", Key=key, Body=path.read_bytes(), ACL="public-read")
    yield bucket
    bucket.stop()


@pytest.fixture(scope="module")
def azure(store):
    program = os.environ.get("AZURITE", "")
    if not pathlib.Path(program).is_file():
        pytest.skip("NOT RUN: there is no Azurite, which needs npm")
    blob = pytest.importorskip("azure.storage.blob")
    port = free_port()
    os.environ["AZURITE_ACCOUNTS"] = f"account:{AZURE_KEY}"
    process = started([program, "--inMemoryPersistence", "--skipApiVersionCheck", "--blobHost", "127.0.0.1", "--blobPort", str(port)], port)
    address = f"http://127.0.0.1:{port}/account"
    container = blob.BlobServiceClient(address, credential=AZURE_KEY).create_container("container", public_access="container")
    for key, path in objects(store, ["x.vcz"]):
        container.upload_blob(key, path.read_bytes())
    yield {"AZURE_ENDPOINT": address, "AZURE_ALLOW_HTTP": "true"}
    process.kill()
    process.wait()
    del os.environ["AZURITE_ACCOUNTS"]


@pytest.fixture(scope="module")
def account():
    """The key of a service account, as a file's content that lacks the address of the service."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return {"type": "service_account", "private_key": pem.decode(), "private_key_id": "1", "client_email": "a@example.org", "client_id": "1"}


def test_no_other_commands():
    assert sorted(commands()) == sorted(CASES)
    # Others would not be run.
    assert len(re.findall("^```", PAGE, re.MULTILINE)) == 2 * (len(blocks("sh")) + len(blocks("sql"))) and len(blocks("sql")) == 1


def test_features():
    """Those of object_store that the page names are those that the feature `cloud` enables."""
    enabled = tomllib.loads((REPOSITORY / "Cargo.toml").read_text())["features"]["cloud"]
    named = re.findall(r"^\|.*\| `(\w+)` \| `\w+Builder` \|$", PAGE, re.MULTILINE)
    assert sorted(f"object_store/{feature}" for feature in named) == sorted(enabled)


@pytest.mark.parametrize("command", CASES)
def test_command(command, request, bucket, account, store, tmp_path, monkeypatch):
    case = CASES[command]
    for name in list(os.environ):
        if name.startswith(("AWS_", "GOOGLE_", "AZURE_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (tmp_path / "vcz").symlink_to(VCZ)
    with Proxy(bucket.host, bucket.port, lambda *_: None) as proxy:
        address = f"http://127.0.0.1:{proxy.port}"
        (tmp_path / "key.json").write_text(json.dumps(account | {"gcs_base_url": address}))
        variables = {"s3": KEYS | {"AWS_ENDPOINT": address}, "gcs": {"GOOGLE_BASE_URL": address, "GOOGLE_APPLICATION_CREDENTIALS": str(tmp_path / "key.json")}}
        variables["serve"] = variables["s3"]
        if case.service.startswith("azure"):
            variables[case.service] = request.getfixturevalue("azure") | ({"AZURE_STORAGE_ACCOUNT_KEY": AZURE_KEY} if case.service == "azure" else {})
        for name, text in variables.get(case.service, {}).items():
            monkeypatch.setenv(name, text)
        if case.service == "serve":
            (tmp_path / "tables.sql").write_text(blocks("sql")[0])
            with Server("--sql", tmp_path / "tables.sql") as server, server.adbc() as connection:
                assert value(connection, "SELECT sfs(call_genotype, 'first') FROM ag") == EXPECTED["first"]["sfs"]
        elif case.service == "consolidate":
            shutil.copytree(store, tmp_path / "x.vcz")
            subprocess.run(["bash", "-c", command], cwd=tmp_path, check=True)
            assert "call_AD" in zarr.open_consolidated(str(tmp_path / "x.vcz"), mode="r")
            return
        else:
            run = command.replace("http://127.0.0.1:9000", address).replace("https://host", f"{address}/bucket").replace("=…", "=x")
            run = run.replace("/scratch/", f"{tmp_path}/scratch/")
            sql = case.sql or f"SELECT sfs(call_genotype) AS sfs FROM {case.table}"
            done = subprocess.run(["bash", "-c", f"{run} -q --format json"], input=sql + ";\n", capture_output=True, text=True, cwd=tmp_path, timeout=60)
            assert done.returncode == 0, done.stderr
            assert json.loads(done.stdout) == (list(case.rows) or [{"sfs": EXPECTED["all"]["sfs"]}]), done.stderr
        if case.header:
            texts = [headers.get(case.header) for headers in proxy.headers]
            assert texts and (texts == [None] * len(texts) if case.text is None else any(case.text in (text or "") for text in texts)), texts
        assert proxy.requests or case.service.startswith("azure")
        assert ("cache_dir" in command) == (tmp_path / "scratch" / "vcz").exists()
