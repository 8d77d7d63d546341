"""`vcz serve` as a process, and clients of it: what the tests share."""

import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

import adbc_driver_flightsql.dbapi as flight_sql
import pyarrow.flight as flight

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
FIXTURES = REPOSITORY / "tests" / "fixtures"
VCZ = os.environ["VCZ"]
SIM = [str(FIXTURES / "sim.vcz.zip"), "--populations", str(FIXTURES / "sim.populations.tsv")]


class Server:
    """A running server; `log` is what it has said."""

    ROLE, READY = [], r"Flight SQL at grpc\+t(?:cp|ls)://(\S+)"

    def __init__(self, *arguments, tls=False, start_within=60):
        bind = [] if "--bind" in arguments else ["--bind", "127.0.0.1:0"]
        command = [VCZ, "serve", *self.ROLE, *bind, "--metrics-bind", "127.0.0.1:0", *map(str, arguments)]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=REPOSITORY)
        self.log = []
        self.tls = tls
        threading.Thread(target=self._read, daemon=True).start()
        self.address = self._wait_for(self.READY, start_within)
        self.ops = "http://" + self._wait_for(r"http://(\S+)/healthz", start_within)

    def _read(self):
        for line in self.process.stderr:
            self.log.append(line.rstrip("\n"))

    def _wait_for(self, pattern, seconds):
        return self.wait_for_log(pattern, seconds).group(1)

    def wait_for_log(self, pattern, seconds=10, start=0):
        """The first match of a pattern in the log, from line `start`."""
        end = time.monotonic() + seconds
        while True:
            for line in self.log[start:]:
                if found := re.search(pattern, line):
                    return found
            if self.process.poll() is not None:
                time.sleep(0.2)
                raise AssertionError(f"the server has ended with {self.process.returncode}:\n" + "\n".join(self.log))
            if time.monotonic() > end:
                raise AssertionError(f"{pattern!r} is not in the log after {seconds} s:\n" + "\n".join(self.log))
            time.sleep(0.01)

    @property
    def uri(self):
        return f"grpc+{'tls' if self.tls else 'tcp'}://{self.address}"

    def adbc(self, **options):
        """An ADBC connection."""
        return flight_sql.connect(self.uri, db_kwargs=options, autocommit=True)

    def flight(self, **options):
        """A pyarrow client."""
        return flight.connect(self.uri, **options)

    def get(self, path):
        """Status and body of a page of the second port."""
        try:
            with urllib.request.urlopen(self.ops + path, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def metric(self, name):
        """A number of /metrics; counters with labels are summed."""
        _, text = self.get("/metrics")
        found = re.findall(rf"^{name}(?:\{{[^}}]*\}})? (\S+)$", text, re.MULTILINE)
        assert found or name.endswith("_total"), f"no {name} in\n{text}"
        return sum(map(float, found))

    def idle(self, seconds=5, tasks=True):
        """Waits until nothing of a query is left: places, memory and, unless told otherwise, tasks."""
        names = ["vcz_queries_running", "vcz_queries_waiting", "vcz_queries_sending", "vcz_memory_reserved_bytes"]
        names += ["vcz_query_tasks"] if tasks else []
        end = time.monotonic() + seconds
        while True:
            left = {name: self.metric(name) for name in names}
            if not any(left.values()):
                return
            assert time.monotonic() < end, f"after {seconds} s there is still {left}\n" + "\n".join(self.log[-20:])
            time.sleep(0.02)

    def resident(self):
        """Resident memory in bytes, now and at its highest."""
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        kilobytes = lambda name: int(re.search(rf"{name}:\s+(\d+) kB", text).group(1))
        return kilobytes("VmRSS") << 10, kilobytes("VmHWM") << 10

    def stop(self, how=signal.SIGTERM, within=20):
        """Stops it; its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            return self.process.wait(within)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError(f"the server did not stop within {within} s:\n" + "\n".join(self.log[-20:])) from None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


class Worker(Server):
    """A running worker."""

    ROLE, READY = ["--worker", "--worker-partitions", "2"], r"worker at (\S+)"

    def cpu(self):
        """Seconds of processor time that it has used."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Relay:
    """A port whose connections go on to a server from another address of this machine, such as 127.0.0.2."""

    tls = False

    def __init__(self, address, source):
        host, port = address.rsplit(":", 1)
        self.target, self.source = (host, int(port)), source
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                here, _ = self.listener.accept()
            except OSError:
                return
            there = socket.create_connection(self.target, source_address=(self.source, 0))
            for one, other in [(here, there), (there, here)]:
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self._pass_on, args=(one, other), daemon=True).start()

    @staticmethod
    def _pass_on(one, other):
        try:
            while received := one.recv(1 << 16):
                other.sendall(received)
            other.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def flight(self, **options):
        """A pyarrow client that comes from the address."""
        return flight.connect(f"grpc+tcp://{self.address}", **options)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()


def rows(connection, sql, parameters=None):
    """The rows of a query, as dicts."""
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetch_arrow_table().to_pylist()


def value(connection, sql, parameters=None):
    """The one value of a query."""
    (row,) = rows(connection, sql, parameters)
    (found,) = row.values()
    return found
