"""How fast `vcz serve` is: plain columns to a pyarrow client, beside what arrow-flight gives for the same batches from memory;
and small queries in a second. README.md says how to run it."""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(REPOSITORY / "tests" / "clients"))

import pyarrow as pa
import pyarrow.flight as flight

from protocol import query, read
from server import SIM, Server, value

PLAIN = """CREATE TABLE plain AS SELECT CAST(value AS INT) AS position, value AS number, value / 3.0 AS ratio, value % 7 AS class
FROM generate_series(1, {rows})"""


def megabytes_per_second(client, ticket, size, repeats=5):
    """The best rate of several."""
    best = 0
    for _ in range(repeats):
        started = time.perf_counter()
        received = sum(chunk.data.num_rows for chunk in client.do_get(ticket()))
        best = max(best, size / (time.perf_counter() - started) / 1e6)
        assert received
    return best


def memory_server():
    """The program of memory_server.rs."""
    command = ["cargo", "build", "--quiet", "--bench", "memory_server", "--message-format", "json"]
    built = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    messages = [json.loads(line) for line in built.splitlines() if line.startswith("{")]
    (program,) = [m["executable"] for m in messages if m.get("executable") and m["target"]["name"] == "memory_server"]
    return program


def throughput(rows, folder):
    sql = folder / "plain.sql"
    sql.write_text(PLAIN.format(rows=rows))
    with Server("--sql", sql) as server:
        client = server.flight()
        table, _ = read(client, "SELECT * FROM plain")
        size = table.nbytes
        served = megabytes_per_second(client, lambda: client.get_flight_info(query("SELECT * FROM plain")).endpoints[0].ticket, size)
    file = folder / "plain.arrow"
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    with subprocess.Popen([memory_server(), str(file)], stdout=subprocess.PIPE, text=True) as process:
        client = flight.connect("grpc+tcp://" + process.stdout.readline().strip())
        memory = megabytes_per_second(client, lambda: flight.Ticket(b""), size)
        process.terminate()
    print(f"plain columns ({size / 1e6:.0f} MB): {served:.0f} MB/s, arrow-flight from memory {memory:.0f} MB/s, ratio {served / memory:.2f}")
    return served / memory


def small_queries(clients, seconds):
    with Server(*SIM) as server:
        counts = [0] * clients
        end = time.monotonic() + seconds

        def client(number):
            connection = server.adbc()
            while time.monotonic() < end:
                assert value(connection, "SELECT count(*) FROM sim WHERE variant_position < 10000") > 0
                counts[number] += 1

        threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    rate = sum(counts) / seconds
    print(f"small queries: {rate:.0f} in a second, of {clients} clients")
    return rate


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=10)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ratio = throughput(arguments.rows, pathlib.Path(folder))
    rate = small_queries(arguments.clients, arguments.seconds)
    sys.exit(ratio < 0.5 or rate < 200)
