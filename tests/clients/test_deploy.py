"""The files of src/cluster/deploy: valid, and the commands in them run, with ports, folders and names of this machine in place of theirs."""

import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import kubernetes_validate
import pytest
import trustme
import yaml

from server import FIXTURES, REPOSITORY, Server, Worker, rows

DEPLOY = REPOSITORY / "src" / "cluster" / "deploy"
QUERY = "SELECT variant_contig, count(*) AS n, diversity(call_genotype) AS pi FROM genome GROUP BY 1 ORDER BY 1"
FORCED = "SET vcz.distribute = 'always'; SET datafusion.optimizer.repartition_file_min_size = 1; SET datafusion.execution.target_partitions = 2;"


def test_the_image_is_built_as_hadolint_advises():
    hadolint = Path(sysconfig.get_path("scripts")) / "hadolint"
    if not hadolint.exists():
        print("NOT RUN: there is no hadolint for this platform", file=sys.stderr)
        pytest.skip("NOT RUN: there is no hadolint for this platform")
    # Versions of Debian's packages are those of the image's release.
    done = subprocess.run([hadolint, "--ignore", "DL3008", DEPLOY / "Dockerfile"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def documents():
    return [part for part in yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()) if part]


def test_kubernetes_knows_the_manifest():
    kinds = []
    for document in documents():
        kubernetes_validate.validate(document, "1.33", strict=True)
        kinds.append(document["kind"])
    assert kinds == ["Service", "Deployment", "Deployment", "Service"]
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(documents()[0] | {"specification": {}}, "1.33", strict=True)
    # Services select pods by their labels, and ports by their names.
    pods = {document["spec"]["template"]["metadata"]["labels"]["app"]: document for document in documents() if document["kind"] == "Deployment"}
    for service in (document for document in documents() if document["kind"] == "Service"):
        (container,) = pods[service["spec"]["selector"]["app"]]["spec"]["template"]["spec"]["containers"]
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        assert [ports[port["name"]] for port in service["spec"]["ports"]] == [port["port"] for port in service["spec"]["ports"]]
        assert container["readinessProbe"]["httpGet"]["port"] in ports


def on_this_machine(command, *without, **replaced):
    """The arguments of a command: `--flag=value` in two, some flags and their values left out, texts replaced."""
    assert command[0] == "serve"
    arguments = [part for argument in command[1:] for part in (argument.split("=", 1) if argument.startswith("--") else [argument])]
    kept = []
    while arguments:
        argument = arguments.pop(0)
        has_value = argument.startswith("--") and arguments and not arguments[0].startswith("--")
        value = [arguments.pop(0)] if has_value and argument not in ("--insecure", "--worker") else []
        if argument not in ("--worker", "--metrics-bind", *without):
            kept += [argument, *value]
    for before, after in replaced.items():
        kept = [argument.replace(before, str(after)) for argument in kept]
    return [re.sub(r"^0\.0\.0\.0:\d+$", "0.0.0.0:0", argument) for argument in kept]


def answered(worker_arguments, server_arguments, of_worker, settings, **client):
    """The answer of a server with two workers, which ran it."""
    with Worker(*worker_arguments) as first, Worker(*worker_arguments) as second:
        ports = [worker.address.rsplit(":", 1)[1] for worker in (first, second)]
        names = ",".join(f"dns:localhost:{port}" for port in ports)
        assert of_worker in server_arguments
        arguments = [names if argument == of_worker else argument for argument in server_arguments]
        tls = bool(client)
        with Server(*arguments, "--sql", settings, tls=tls) as server:
            server.address = "localhost:" + server.address.rsplit(":", 1)[1]
            with server.adbc(**client) as connection:
                plan = "\n".join(row["plan"] for row in rows(connection, "EXPLAIN FORMAT INDENT " + QUERY))
                assert "runs on 2 of 2 workers" in plan, plan
                return rows(connection, QUERY)


@pytest.fixture
def settings(tmp_path):
    file = tmp_path / "settings.sql"
    file.write_text(FORCED)
    return file


@pytest.fixture
def wanted():
    with Server(f"genome={FIXTURES}/c*r.vcz.zip") as server, server.adbc() as connection:
        return rows(connection, QUERY)


def test_the_commands_of_compose(settings, wanted):
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    assert services.keys() == {"worker", "server"} and services["server"]["depends_on"] == ["worker"]
    assert {service["image"] for service in services.values()} == {"datafusion-vcz"}
    worker = on_this_machine(services["worker"]["command"])
    server = on_this_machine(services["server"]["command"], **{"/data/*.vcz.zip": FIXTURES / "c*r.vcz.zip"})
    assert answered(worker, server, "dns:worker:50052", settings) == wanted


def test_the_commands_of_kubernetes(tmp_path, settings, wanted):
    authority = trustme.CA()
    issued = authority.issue_cert("localhost")
    (tmp_path / "ca.crt").write_bytes(authority.cert_pem.bytes())
    (tmp_path / "tls.crt").write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    (tmp_path / "tls.key").write_bytes(issued.private_key_pem.bytes())
    (tmp_path / "token").write_text("0123456789abcdef-right\n")
    (tmp_path / "users").write_text("token ada 0123456789abcdef0123456789abcdef\n")
    commands = {}
    for document in documents():
        if document["kind"] == "Deployment":
            (container,) = document["spec"]["template"]["spec"]["containers"]
            assert container["image"] == "datafusion-vcz"
            commands[container["name"]] = container["args"]
    worker = on_this_machine(commands["worker"], **{"/secret": tmp_path})
    server = on_this_machine(commands["server"], **{"/secret": tmp_path, "s3://bucket/genome/*.vcz.zip": FIXTURES / "c*r.vcz.zip"})
    client = {
        "adbc.flight.sql.client_option.tls_root_certs": authority.cert_pem.bytes().decode(),
        "adbc.flight.sql.authorization_header": "Bearer 0123456789abcdef0123456789abcdef",
    }
    assert answered(worker, server, "dns:vcz-workers:50052", settings, **client) == wanted
