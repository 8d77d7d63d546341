"""Stores in a local S3 server, Google Cloud Storage and behind HTTP servers: `vcz sql`, `vcz inspect` and `vcz serve` give the
same values as for local stores, by options of each table."""

import functools
import http.server
import json
import os
import pathlib
import subprocess
import threading
import zipfile

import boto3
import cheroot.wsgi
import pytest
import zarr
from moto.server import ThreadedMotoServer
from wsgidav.wsgidav_app import WsgiDAVApp

from server import FIXTURES, REPOSITORY, VCZ, Server, value

EXPECTED = json.loads((FIXTURES / "expected.json").read_text())["sim.vcz"]
POPULATIONS = FIXTURES / "sim.populations.tsv"
SFS = "SELECT sfs(call_genotype, 'first') AS sfs FROM {}"
STORES = ["sim.vcz", "sim.v3.vcz"]


def vcz(*arguments, expect=0, **variables):
    """Runs the program without credentials of this machine, and returns what it prints."""
    environment = {key: text for key, text in os.environ.items() if not key.startswith(("AWS_", "GOOGLE_", "AZURE_"))}
    environment |= {"AWS_EC2_METADATA_DISABLED": "true", **variables}
    done = subprocess.run([VCZ, *map(str, arguments)], capture_output=True, text=True, env=environment, cwd=REPOSITORY, timeout=120)
    assert done.returncode == expect, done.stderr
    return done.stderr if expect else done.stdout


def spectrum(*arguments, table, **variables):
    """The spectrum of the population `first` by `vcz sql`."""
    rows = vcz("sql", *arguments, "-q", "--format", "json", "-c", SFS.format(table), **variables)
    return json.loads(rows.strip().splitlines()[-1])[0]["sfs"]


def as_arguments(options):
    return [part for key, text in options.items() for part in ("--option", f"{key}={text}")]


def as_sql(options):
    return ", ".join(f"'{key}' '{text}'" for key, text in options.items())


def unpacked(folder):
    """The fixtures as folders."""
    for name in STORES:
        with zipfile.ZipFile(FIXTURES / f"{name}.zip") as archive:
            archive.extractall(folder / name)
    return folder


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    return unpacked(tmp_path_factory.mktemp("stores"))


@pytest.fixture(scope="module")
def s3(stores):
    """An S3 server with the stores in the bucket `box`, as folders and as archives; the options that reach it."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    client = boto3.client(
        "s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="AKIATESTKEYID", aws_secret_access_key="TestSecretKey"
    )
    client.create_bucket(Bucket="box", ACL="public-read")
    for path in stores.rglob("*"):
        if path.is_file():
            client.put_object(Bucket="box", Key=f"data/{path.relative_to(stores)}", Body=path.read_bytes(), ACL="public-read")
    for name in STORES:
        client.put_object(Bucket="box", Key=f"data/{name}.zip", Body=(FIXTURES / f"{name}.zip").read_bytes(), ACL="public-read")
    client.put_object(Bucket="box", Key="data/pops.tsv", Body=POPULATIONS.read_bytes(), ACL="public-read")
    yield {
        "aws.endpoint": endpoint,
        "aws.allow_http": "true",
        "aws.access_key_id": "AKIATESTKEYID",
        "aws.secret_access_key": "TestSecretKey",
    }
    server.stop()


LOCATIONS = [f"s3://box/data/{name}{ending}" for name in STORES for ending in ("", ".zip")]


@pytest.mark.parametrize("location", LOCATIONS)
def test_s3(s3, location):
    table = '"' + location.rsplit("/", 1)[1].removesuffix(".zip").removesuffix(".vcz") + '"'
    given = [location, "--populations", POPULATIONS]
    assert spectrum(*given, *as_arguments(s3), table=table) == EXPECTED["first"]["sfs"]
    # Populations beside the store are reached by the store's options.
    beside = s3 | {"vcz.populations": "s3://box/data/pops.tsv"}
    assert spectrum(location, *as_arguments(beside), table=table) == EXPECTED["first"]["sfs"]
    # In SQL, and by variables of the environment.
    create = f"CREATE EXTERNAL TABLE t STORED AS VCZ LOCATION '{location}' OPTIONS ({as_sql(beside)})"
    assert spectrum("-c", create, table="t") == EXPECTED["first"]["sfs"]
    variables = {
        "AWS_ENDPOINT": s3["aws.endpoint"], "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": s3["aws.access_key_id"], "AWS_SECRET_ACCESS_KEY": s3["aws.secret_access_key"],
    }
    assert spectrum(*given, table=table, **variables) == EXPECTED["first"]["sfs"]
    # Without credentials.
    anonymous = {"aws.endpoint": s3["aws.endpoint"], "aws.allow_http": "true", "aws.skip_signature": "true"}
    assert spectrum(*given, *as_arguments(anonymous), table=table) == EXPECTED["first"]["sfs"]
    report = json.loads(vcz("inspect", location, "--format", "json", *as_arguments(s3)))
    assert report["variants"] > 0 and report["location"] == location


@pytest.mark.parametrize("location", LOCATIONS)
def test_cache_over_s3(s3, location, tmp_path):
    """With a cache the values are the same, the first time and from the cache."""
    table = '"' + location.rsplit("/", 1)[1].removesuffix(".zip").removesuffix(".vcz") + '"'
    given = [location, "--populations", POPULATIONS, *as_arguments(s3 | {"vcz.cache_dir": tmp_path / "cache", "vcz.cache_size": "50MB"})]
    kept = []
    for _ in range(3):
        assert spectrum(*given, table=table) == EXPECTED["first"]["sfs"]
        kept.append({path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()})
    assert kept[0] and kept[0] == kept[1] == kept[2]


def test_two_tables_on_one_bucket(s3):
    """A table with wrong options changes nothing for others, whichever is created last."""
    location, beside = LOCATIONS[0], s3 | {"vcz.populations": "s3://box/data/pops.tsv"}
    wrong = beside | {"aws.endpoint": "http://127.0.0.1:9", "retry.max_retries": "0", "http.connect_timeout": "1s"}
    good = f"CREATE EXTERNAL TABLE good STORED AS VCZ LOCATION '{location}' OPTIONS ({as_sql(beside)})"
    bad = f"CREATE EXTERNAL TABLE bad STORED AS VCZ LOCATION '{location}' OPTIONS ({as_sql(wrong)})"
    message = vcz("sql", "-c", bad, expect=1)
    assert location in message and "TestSecretKey" not in message and "AKIATESTKEYID" not in message
    other = f"CREATE EXTERNAL TABLE other STORED AS VCZ LOCATION '{LOCATIONS[1]}' OPTIONS ({as_sql(beside | {'aws.region': 'eu-west-1'})})"
    assert spectrum("-c", good, "-c", other, table="good") == EXPECTED["first"]["sfs"]
    assert spectrum("-c", good, "-c", other, table="other") == EXPECTED["first"]["sfs"]


def test_messages_of_s3(s3):
    """What to set is said, and credentials are not."""
    plain = {key: text for key, text in s3.items() if key != "aws.allow_http"}
    cases = [
        (plain, "aws.allow_http"),
        (s3 | {"aws.reigon": "x"}, "aws.region"),
        (s3 | {"gcp.skip_signature": "true"}, "begin with 'aws.'"),
    ]
    for options, expected in cases:
        message = vcz("inspect", LOCATIONS[0], *as_arguments(options), expect=1)
        assert expected in message and "TestSecretKey" not in message and "AKIATESTKEYID" not in message, message
    message = vcz("sql", "-c", f"CREATE EXTERNAL TABLE t STORED AS VCZ LOCATION '{LOCATIONS[0]}' OPTIONS ({as_sql(plain)})", expect=1)
    assert "aws.allow_http" in message and "TestSecretKey" not in message
    message = vcz("inspect", "s3://box/nothing.vcz", *as_arguments(s3), expect=1)
    assert "is not a VCZ store" in message
    message = vcz("inspect", "az://box/x.vcz", expect=1)
    assert "AZURE_STORAGE_ACCOUNT_NAME" in message
    message = vcz("sql", "-c", "CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION 'az://box/x.parquet'", expect=1)
    assert "AZURE_STORAGE_ACCOUNT_NAME" in message
    # Options of tables of other kinds are still checked.
    csv = "CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION 's3://box/x.parquet' OPTIONS ({})"
    for key in ["aws.request_payer", "http.timeout"]:
        assert "not found" in (text := vcz("sql", "-c", csv.format(as_sql(s3 | {key: "1"})), expect=1)) or "STORED AS VCZ only" in text


def test_server_over_s3(s3, tmp_path):
    """`vcz serve` by arguments and by --sql; clients see no credentials."""
    sql = tmp_path / "tables.sql"
    beside = s3 | {"vcz.populations": "s3://box/data/pops.tsv"}
    sql.write_text(f"CREATE EXTERNAL TABLE t STORED AS VCZ LOCATION '{LOCATIONS[1]}' OPTIONS ({as_sql(beside)});")
    with Server(LOCATIONS[0], *as_arguments(beside), "--sql", sql) as server, server.adbc() as connection:
        for table in ("sim", "t"):
            assert value(connection, SFS.format(table)) == EXPECTED["first"]["sfs"]
            with connection.cursor() as cursor:
                for query in (f"EXPLAIN VERBOSE SELECT * FROM {table}", "SELECT * FROM information_schema.tables", "SHOW ALL"):
                    cursor.execute(query)
                    shown = str(cursor.fetch_arrow_table().to_pylist())
                    assert "TestSecretKey" not in shown and "AKIATESTKEYID" not in shown
        assert "TestSecretKey" not in "\n".join(server.log)


@pytest.mark.parametrize("location", LOCATIONS)
def test_gcs(s3, location):
    """The API of Google Cloud Storage that is used is that of S3 (its XML API), anonymously. An emulator of it is in test_services.py."""
    table = '"' + location.rsplit("/", 1)[1].removesuffix(".zip").removesuffix(".vcz") + '"'
    options = {"gcp.base_url": s3["aws.endpoint"], "gcp.skip_signature": "true"}
    given = [location.replace("s3://", "gs://"), "--populations", POPULATIONS]
    assert spectrum(*given, *as_arguments(options), table=table) == EXPECTED["first"]["sfs"]
    create = f"CREATE EXTERNAL TABLE t STORED AS VCZ LOCATION '{given[0]}' OPTIONS ({as_sql(options)}, 'vcz.populations' '{POPULATIONS}')"
    assert spectrum("-c", create, table="t") == EXPECTED["first"]["sfs"]


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Files without listings."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def list_directory(self, _):
        self.send_error(403)


class Web(http.server.ThreadingHTTPServer):
    """Many connections at once, as other servers take."""

    request_queue_size = 128


@pytest.fixture(scope="module")
def web(stores):
    """An HTTP server of the stores that cannot list."""
    server = Web(("127.0.0.1", 0), functools.partial(Quiet, directory=stores))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()


@pytest.mark.parametrize("name", STORES)
def test_http(web, name):
    table = '"' + name.removesuffix(".vcz") + '"'
    given = [f"{web}/{name}", "--populations", POPULATIONS]
    assert spectrum(*given, table=table) == EXPECTED["first"]["sfs"]
    assert spectrum(*given, "-o", "http.timeout=20s", "-o", "retry.max_retries=2", table=table) == EXPECTED["first"]["sfs"]


@pytest.fixture(scope="module")
def web_dav(tmp_path_factory):
    """An HTTP server that lists, by WebDAV (PROPFIND): the folder `genome` of two stores that are one table, as archives and as folders."""
    folder = tmp_path_factory.mktemp("dav")
    for name in GENOME:
        (folder / "genome").mkdir(exist_ok=True)
        (folder / "genome" / f"{name}.zip").write_bytes((FIXTURES / f"{name}.zip").read_bytes())
        with zipfile.ZipFile(FIXTURES / f"{name}.zip") as archive:
            archive.extractall(folder / "unpacked" / name)
    application = WsgiDAVApp({"provider_mapping": {"/": str(folder)}, "simple_dc": {"user_mapping": {"*": True}}, "verbose": 0})
    server = cheroot.wsgi.Server(("127.0.0.1", 0), application)
    server.prepare()
    threading.Thread(target=server.serve, daemon=True).start()
    yield f"http://127.0.0.1:{server.bind_addr[1]}"
    server.stop()


GENOME = ["chunks_differ.vcz", "contigs_order.vcz"]
BY_CONTIG = "SELECT variant_contig, count(*) AS variants, diversity(call_genotype) AS pi FROM {} GROUP BY 1 ORDER BY 1"


def by_contig(*arguments, table="genome"):
    rows = vcz("sql", *arguments, "-q", "--format", "json", "-c", BY_CONTIG.format(table))
    return json.loads(rows.strip().splitlines()[-1])


@pytest.mark.parametrize("location", ["genome/c*r.vcz.zip", "genome", "genome/", "unpacked/c*r.vcz", "unpacked"])
def test_patterns_and_folders_by_webdav(web_dav, location):
    local = by_contig("genome=" + str(FIXTURES / "c*r.vcz.zip"))
    assert len(local) > 3
    assert by_contig(f"genome={web_dav}/{location}") == local
    create = f"CREATE EXTERNAL TABLE t STORED AS VCZ LOCATION '{web_dav}/{location}'"
    assert by_contig("-c", create, table="t") == local


def test_patterns_without_listing_are_errors(web):
    # In the URL of an HTTP server, ? begins a query, and so is no pattern.
    for location in (f"{web}/*.vcz", f"{web}/s[a-i]m.vcz"):
        message = vcz("sql", f"genome={location}", "-c", "SELECT 1", expect=1)
        assert "cannot be listed" in message and "a list of stores needs no listing" in message, message
    message = vcz("sql", f"genome={web}/", "-c", "SELECT 1", expect=1)
    assert "is not a VCZ store" in message, message


@pytest.mark.parametrize("name", STORES)
def test_consolidated_metadata_is_read_by_zarr(name, tmp_path):
    """What `vcz inspect --consolidate` writes is what zarr-python reads, and finds behind a server that cannot list."""
    folder = unpacked(tmp_path) / name
    before = {key: (array.shape, array.dtype, dict(array.attrs)) for key, array in zarr.open_group(folder, mode="r").arrays()}
    for _ in range(2):
        vcz("inspect", folder, "--consolidate")
    consolidated = zarr.open_consolidated(str(folder), mode="r")
    assert consolidated.metadata.consolidated_metadata is not None
    after = {key: (array.shape, array.dtype, dict(array.attrs)) for key, array in consolidated.arrays()}
    assert after == before and "call_genotype" in after
    assert dict(consolidated.attrs) == dict(zarr.open_group(folder, mode="r", use_consolidated=False).attrs)
    assert not list(folder.glob("*.tmp"))
    assert "is a zip archive, which is not changed" in vcz("inspect", FIXTURES / f"{name}.zip", "--consolidate", expect=1)
