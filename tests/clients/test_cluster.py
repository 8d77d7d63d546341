"""A server whose queries run on workers: with TLS and a token between all of them, for many clients, and killed."""

import contextlib
import signal
import threading
import time

import pytest
import trustme

from server import SIM, Server, Worker, rows

pytestmark = pytest.mark.alone

# Small stores are divided, too.
SETTINGS = "SET vcz.distribute = 'always'; SET datafusion.optimizer.repartition_file_min_size = 1; SET datafusion.execution.target_partitions = 2;"
# With a shuffle: workers ask each other.
QUERY = "SELECT variant_position % 13 AS k, count(*) AS n, diversity(call_genotype, 'first') AS pi FROM sim GROUP BY 1 ORDER BY 1"


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    file = tmp_path_factory.mktemp("settings") / "settings.sql"
    file.write_text(SETTINGS)
    return file


@pytest.fixture(scope="module")
def wanted():
    with Server(*SIM) as server, server.adbc() as connection:
        return rows(connection, QUERY)


@pytest.fixture(scope="module")
def secret(tmp_path_factory):
    """What workers with TLS and a token are started with, and what those need who reach them."""
    folder = tmp_path_factory.mktemp("secret")
    authority = trustme.CA()
    issued = authority.issue_cert("localhost")
    for name, text in [
        ("ca.crt", authority.cert_pem.bytes()),
        ("other.crt", trustme.CA().cert_pem.bytes()),
        ("tls.crt", b"".join(blob.bytes() for blob in issued.cert_chain_pems)),
        ("tls.key", issued.private_key_pem.bytes()),
        ("token", b"0123456789abcdef-right\n"),
        ("other", b"0123456789abcdef-wrong\n"),
    ]:
        (folder / name).write_bytes(text)
    reach = ["--workers-ca", folder / "ca.crt", "--worker-token-file", folder / "token"]
    return ["--tls-cert", folder / "tls.crt", "--tls-key", folder / "tls.key", *reach], reach, folder


@contextlib.contextmanager
def workers(number, *arguments):
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(Worker(*arguments)) for _ in range(number)]


def plan(connection, sql):
    return "\n".join(row["plan"] for row in rows(connection, "EXPLAIN FORMAT INDENT " + sql))


def test_tls_and_a_token(secret, settings, wanted):
    own, reach, folder = secret
    with workers(2, *own) as all:
        # The certificate is that of a name, which workers call each other by, too.
        ports = [worker.address.rsplit(":", 1)[1] for worker in all]
        names = ",".join(f"dns:localhost:{port}" for port in ports)
        with Server(*SIM, "--sql", settings, "--workers", names, *reach) as server, server.adbc() as connection:
            assert "runs on 2 of 2 workers" in plan(connection, QUERY) and "NetworkShuffle" in plan(connection, QUERY)
            assert rows(connection, QUERY) == wanted
            for worker in all:
                assert worker.metric("vcz_worker_tasks_total") >= 2
        # Without the certificate's authority or the token, no worker is used; the certificate is not one of addresses.
        addresses = ",".join(worker.address for worker in all)
        for names, reach, reason in [
            (names, ["--workers-ca", folder / "other.crt", *reach[2:]], "certificate"),
            (names, [*reach[:2], "--worker-token-file", folder / "other"], "token"),
            (names, reach[:2], "token"),
            (addresses, reach, "certificate"),
        ]:
            with Server(*SIM, "--sql", settings, "--workers", names, *reach) as server, server.adbc() as connection:
                shown = plan(connection, QUERY)
                assert "runs on this machine alone: none of 2 workers can be used" in shown and reason in shown
                assert rows(connection, QUERY) == wanted


def test_ten_clients(settings, wanted):
    with workers(2) as all:
        addresses = ",".join(worker.address for worker in all)
        with Server(*SIM, "--sql", settings, "--workers", addresses) as server:
            failures = []

            def client():
                try:
                    with server.adbc() as connection:
                        for _ in range(5):
                            assert rows(connection, QUERY) == wanted
                except BaseException as error:
                    failures.append(error)

            clients = [threading.Thread(target=client) for _ in range(10)]
            for thread in clients:
                thread.start()
            for thread in clients:
                thread.join(120)
            assert not failures and not any(thread.is_alive() for thread in clients), failures
            server.idle()
            assert sum(worker.metric("vcz_worker_tasks_total") for worker in all) >= 200


def test_workers_stop_when_the_server_is_killed(settings):
    # 7402³ rows, which take minutes.
    slow = (
        "SELECT a.variant_position % 7 AS k, sum(abs(a.variant_position - b.p + c.q) % 5) AS n "
        "FROM sim a JOIN (SELECT variant_position AS p FROM sim) b ON a.variant_position + b.p > 5 "
        "JOIN (SELECT variant_position AS q FROM sim) c ON a.variant_position + c.q > 5 "
        "GROUP BY 1"
    )
    with workers(2) as all:
        addresses = ",".join(worker.address for worker in all)
        with Server(*SIM, "--sql", settings, "--workers", addresses) as server, server.adbc() as connection:
            assert "runs on 2 of 2 workers" in plan(connection, slow)
            ended = []

            def client():
                try:
                    ended.append(rows(connection, slow))
                except Exception as error:
                    ended.append(error)

            thread = threading.Thread(target=client)
            before = sum(worker.cpu() for worker in all)
            thread.start()
            end = time.monotonic() + 20
            while sum(worker.cpu() for worker in all) < before + 0.5:
                assert time.monotonic() < end and not ended, f"the workers have nothing to do: {ended}"
                time.sleep(0.02)
            server.process.send_signal(signal.SIGKILL)
            thread.join(30)
            assert isinstance(ended[0], Exception)
            time.sleep(2)
            before = sum(worker.cpu() for worker in all)
            time.sleep(1)
            assert sum(worker.cpu() for worker in all) < before + 0.2
