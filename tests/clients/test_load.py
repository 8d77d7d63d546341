"""Many clients at once: all are answered, none wrongly; clients that are killed leave nothing behind."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from protocol import read
from server import HERE, SIM, Server, rows, value

pytestmark = pytest.mark.alone

CLIENTS, QUERIES = 64, 20


def test_many_clients(tmp_path):
    with Server(*SIM, "--memory-limit", "1g", "--queue-timeout", "120s") as server:
        one = server.adbc()
        kinds = [
            "SELECT sfs(call_genotype, 'first') AS x FROM sim",
            "SELECT count(*) AS x FROM sim WHERE variant_position > {n}",
            "SELECT sum(variant_position) AS x FROM sim WHERE variant_contig = 'chr1' AND variant_position < {n}",
            "SELECT diversity(call_genotype) AS x FROM sim WHERE variant_position < {n}",
        ]
        queries = [kinds[i % len(kinds)].format(n=1000 * (i + 1)) for i in range(QUERIES)]
        wanted = [value(one, sql) for sql in queries]
        wrong, answered = [], []

        def client(number):
            try:
                connection = server.adbc()
                for at in range(QUERIES):
                    at = (at + number) % QUERIES
                    if (found := value(connection, queries[at])) != wanted[at]:
                        wrong.append((number, queries[at], found))
                    answered.append(at)
                connection.close()
            except Exception as error:
                wrong.append((number, error))

        started = time.monotonic()
        threads = [threading.Thread(target=client, args=(number,)) for number in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(300)
        assert not wrong, wrong[:3]
        assert len(answered) == CLIENTS * QUERIES
        peak = server.resident()[1]
        print(f"{len(answered)} queries of {CLIENTS} clients in {time.monotonic() - started:.1f} s, {peak >> 20} MiB at most")
        assert peak < 600 << 20
        server.idle()
        assert server.metric("vcz_queries_total") >= CLIENTS * QUERIES
        assert server.metric("vcz_tickets") == 0 and server.metric("vcz_prepared_statements") == 0


def test_killed_clients_leave_nothing(wide):
    with Server(wide, "--max-queries", "8", "--queue-timeout", "60s") as server:
        code = "import sys, server as s, adbc_driver_flightsql.dbapi as f\n" \
               "c = f.connect(sys.argv[1], autocommit=True).cursor()\n" \
               "c.execute(sys.argv[2])\n" \
               "r = c.fetch_record_batch(); r.read_next_batch(); print('reading', flush=True); sys.stdin.read()"
        sql = "SELECT call_genotype FROM wide"
        processes = [
            subprocess.Popen([sys.executable, "-c", code, server.uri, sql], cwd=HERE, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            for _ in range(6)
        ]
        for process in processes:
            assert process.stdout.readline() == b"reading\n"
        assert server.metric("vcz_queries_running") == 6
        for process in processes:
            process.send_signal(signal.SIGKILL)
            process.wait()
        server.idle(5)
        assert server.metric("vcz_queries_total") == 6
        # Killed while they wait for their turn, too.
        hold = [server.flight() for _ in range(8)]
        assert read(hold[0], "SELECT count(*) AS n FROM wide")[0].num_rows == 1
        server.idle()
