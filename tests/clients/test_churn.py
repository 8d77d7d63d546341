"""A server whose stores are behind a failing HTTP server, and whose clients come, go and are cut off: every answer is right or an error, and
memory does not grow. VCZ_CHURN_SECONDS is how long (20 unless set)."""

import os
import random
import re
import socket
import struct
import threading
import time
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from protocol import query as statement
from server import FIXTURES, Server, value

SECONDS = float(os.environ.get("VCZ_CHURN_SECONDS", "20"))
CLIENTS = 6
QUERIES = [
    "SELECT sfs(call_genotype, 'first') AS x FROM {}",
    "SELECT sum(variant_position) AS x FROM {}",
    "SELECT count(*) AS x FROM {} WHERE variant_position > 20000",
    "SELECT diversity(call_genotype, 'second') AS x FROM {}",
    "SELECT max(pi) AS x FROM (SELECT genome_bin(variant_position, 10000) w, diversity(call_genotype) pi FROM {} GROUP BY 1)",
]


class Failing(BaseHTTPRequestHandler):
    """Files of `files`; every tenth request or so fails in one way or another."""

    protocol_version = "HTTP/1.1"
    files: dict = {}
    fails = False
    failed: dict = {}

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        fault = random.choice(["unavailable", "reset", "short", "slow"]) if self.fails and random.random() < 0.1 else None
        if fault:
            self.failed[fault] = self.failed.get(fault, 0) + 1
        if fault == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            return
        if fault == "slow":
            time.sleep(0.3)
        body, status = self.files.get(self.path), 200
        headers = {"Last-Modified": "Tue, 03 Jun 2025 10:00:00 GMT"}
        if fault == "unavailable":
            body, status = b"try again", 503
        elif body is None:
            body, status = b"there is no such file", 404
        elif asked := re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", "")):
            size, (first, last) = len(body), asked.groups()
            start, end = (int(first), min(int(last or size) + 1, size)) if first else (max(size - int(last), 0), size)
            body, status = body[start:end], 206
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
        self.send_response(status)
        for key, text in headers.items():
            self.send_header(key, text)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        if fault == "short":
            self.close_connection = True
            body = body[: len(body) // 2]
        self.wfile.write(body)


class Web(ThreadingHTTPServer):
    """Many connections at once, and no word about those that are cut off."""

    request_queue_size = 128

    def handle_error(self, *_):
        pass


def test_churn_with_faults(tmp_path):
    archive = FIXTURES / "sim.vcz.zip"
    Failing.files = {"/sim.vcz.zip": archive.read_bytes()}
    with zipfile.ZipFile(archive) as entries:
        Failing.files |= {f"/folder.vcz/{name}": entries.read(name) for name in entries.namelist()}
    web = Web(("127.0.0.1", 0), Failing)
    threading.Thread(target=web.serve_forever, daemon=True).start()
    sql = tmp_path / "tables.sql"
    names = {"archive": "sim.vcz.zip", "folder": "folder.vcz"}
    sql.write_text("".join(
        f"CREATE EXTERNAL TABLE {name} STORED AS VCZ LOCATION 'http://127.0.0.1:{web.server_address[1]}/{path}' "
        f"OPTIONS ('vcz.populations' '{FIXTURES}/sim.populations.tsv', 'retry.max_retries' '3', 'http.timeout' '10s');\n"
        for name, path in names.items()
    ))
    with Server("--sql", sql, "--memory-limit", "500m", "--queue-timeout", "60s", "--query-timeout", "30s") as server:
        queries = [query.format(table) for query in QUERIES for table in names]
        with server.adbc() as one:
            wanted = {query: value(one, query) for query in queries}
        Failing.fails = True
        stop, right, errors, wrong = time.monotonic() + SECONDS, [], [], []

        def client(number):
            chance = random.Random(number)
            while time.monotonic() < stop:
                query = chance.choice(queries)
                try:
                    if chance.random() < 0.2:
                        # It asks, and goes.
                        with server.flight() as flights:
                            ticket = flights.get_flight_info(statement(query)).endpoints[0].ticket
                            flights.do_get(ticket).cancel()
                        continue
                    with server.adbc() as connection:
                        for _ in range(chance.randrange(1, 4)):
                            query = chance.choice(queries)
                            found = value(connection, query)
                            (right if found == wanted[query] else wrong).append((query, found))
                except Exception as error:
                    errors.append((query, str(error)))

        threads = [threading.Thread(target=client, args=(number,)) for number in range(CLIENTS)]
        for thread in threads:
            thread.start()
        resident = []
        while time.monotonic() < stop:
            resident.append(server.resident()[0])
            time.sleep(0.2)
        for thread in threads:
            thread.join(120)
        # What is kept for the next query is there after a third of the time.
        third = len(resident) // 3
        early, late = max(resident[third : 2 * third]), max(resident[2 * third :])
        memory = f"at most {early >> 20} MiB in the second third of the time, {late >> 20} MiB in the last"
        print(f"{len(right)} right, {len(errors)} errors; faults: {Failing.failed}; {memory}")
        assert not wrong, wrong[:3]
        assert len(right) >= 10 and set(Failing.failed) == {"unavailable", "reset", "short", "slow"}
        # An error says which store it is about.
        unnamed = [(query, error) for query, error in errors if not any(name in error for name in ("127.0.0.1", *names))]
        assert not unnamed, unnamed[:3]
        assert late < early * 1.1, (early, late)
        Failing.fails = False
        with server.adbc() as one:
            assert {query: value(one, query) for query in queries} == wanted
        # Connections to the HTTP server stay open for the next query, and each is a task.
        server.idle(tasks=False)
    web.shutdown()
