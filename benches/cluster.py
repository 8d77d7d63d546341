"""What workers cost and gain: the time of a small query here and on two local workers, of planning, and of a large query on one and two workers
that have the same number of cores each, or one GPU each.

    python3 benches/cluster.py --vcz target/release/vcz --store STORE [--cores 4] [--gpus] [--repeats 9]

STORE is a store to scan, long enough that two workers pay: seconds on one. With --gpus one of benches/gpu/run.py, `long`. Planning is timed by EXPLAIN of a store
of 100,000 chunks, and of one of 78,195 samples and 722 million variants, of which there is only the metadata. Prints medians and what they must be;
exits with 1 if an answer differs or a target is missed.
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import struct
import subprocess
import sys
import tempfile
import time

ELAPSED = re.compile(r"^Elapsed ([0-9.]+) seconds")


class Worker:
    """A worker with some of the cores, or one of the GPUs."""

    def __init__(self, vcz, cores, gpu):
        environment = dict(os.environ, RUST_LOG="error,datafusion_vcz=info")
        if gpu is not None:
            environment["CUDA_VISIBLE_DEVICES"] = str(gpu)
        pinned = ["taskset", "-c", ",".join(map(str, cores))] if cores else []
        partitions = ["--worker-partitions", str(len(cores))] if cores else []
        command = [*pinned, vcz, "serve", "--worker", "--bind", "127.0.0.1:0", *partitions]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
        line = self.process.stderr.readline()
        self.address = re.search(r"worker at ([0-9.:]+)", line)[1]

    def stop(self):
        self.process.kill()
        self.process.wait()


def times_of(arguments, workers, distribute, query, repeats, backend, store=None):
    """The seconds of each run of a query in one session, and its answer."""
    command = [arguments.vcz, "sql", f"w={store or arguments.store}", "--format", "json"]
    if workers:
        command += ["--workers", ",".join(worker.address for worker in workers)]
    statements = [f"SET vcz.distribute = '{distribute}'", f"SET vcz.backend = '{backend}'", *[query] * repeats]
    for statement in statements:
        command += ["-c", statement]
    # The coordinator's own GPU is not used.
    environment = dict(os.environ, CUDA_VISIBLE_DEVICES="") if workers else None
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    # Rows are on standard output, times on standard error.
    elapsed = [float(match[1]) for line in done.stderr.splitlines() if (match := ELAPSED.match(line))][-repeats:]
    answers = {line for line in done.stdout.splitlines() if line.startswith("[{")}
    assert len(elapsed) == repeats and answers, f"{done.stdout[-300:]}{done.stderr[-1000:]}"
    return elapsed, answers


def by_turns(arguments, workers, query, backend, rounds=3):
    """Medians of the seconds on one worker and on two, by turns, since machines are not equally fast all the time; and whether the answers agree."""
    seconds, answers = ([], []), []
    for _ in range(rounds):
        for some, of_these in zip((workers[:1], workers), seconds):
            times, answer = times_of(arguments, some, "always", query, arguments.repeats, backend)
            of_these.extend(times[1:])
            answers.append(answer)
    return *map(statistics.median, seconds), all(answer == answers[0] for answer in answers)


def array(folder, name, dimensions, shape, chunks, dtype, strings=None):
    """Metadata of an array; and its only chunk, if it has strings."""
    (folder / name).mkdir()
    filters = [{"id": "vlen-utf8"}] if dtype == "|O" else None
    document = {"zarr_format": 2, "shape": shape, "chunks": chunks, "dtype": dtype, "compressor": None, "fill_value": None, "filters": filters, "order": "C"}
    if strings is not None:
        encoded = [struct.pack("<I", len(text)) + text.encode() for text in strings]
        (folder / name / "0").write_bytes(struct.pack("<I", len(strings)) + b"".join(encoded))
    (folder / name / ".zarray").write_text(json.dumps(document))
    (folder / name / ".zattrs").write_text(json.dumps({"_ARRAY_DIMENSIONS": dimensions}))


def planned(folder, variants, samples, chunk):
    """A store without chunks of variants."""
    folder.mkdir()
    (folder / ".zgroup").write_text('{"zarr_format": 2}')
    (folder / ".zattrs").write_text('{"vcf_zarr_version": "0.4"}')
    array(folder, "sample_id", ["samples"], [samples], [samples], "|O", [f"s{at}" for at in range(samples)])
    array(folder, "contig_id", ["contigs"], [1], [1], "|O", ["chr1"])
    for name, dtype in (("variant_contig", "|i1"), ("variant_position", "<i4")):
        array(folder, name, ["variants"], [variants], [chunk[0]], dtype)
    array(folder, "variant_allele", ["variants", "alleles"], [variants, 2], [chunk[0], 2], "|O")
    array(folder, "call_genotype", ["variants", "samples", "ploidy"], [variants, samples, 2], [*chunk, 2], "|i1")
    return folder


def planning(arguments, workers, store, repeats=30):
    """Seconds in which a statement is planned here, and for workers. EXPLAIN of a distributed plan plans the query twice."""
    explain = ["EXPLAIN SELECT variant_contig, sfs(call_genotype) FROM w GROUP BY 1"]
    own, _ = times_of(arguments, [], "never", explain[0], repeats, "host", store)
    distributed, _ = times_of(arguments, workers, "always", explain[0], repeats, "host", store)
    return statistics.median(own[5:]), statistics.median(distributed[5:])


def both_gpus(arguments, query):
    """Seconds of a query in one process that uses all GPUs, and its answer."""
    times, answer = times_of(arguments, [], "never", query, arguments.repeats, "gpu")
    return statistics.median(times[1:]), answer


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vcz", required=True)
    parser.add_argument("--store", required=True)
    parser.add_argument("--cores", type=int, default=0, help="cores of each worker; 0 for half of the machine's")
    parser.add_argument("--gpus", action="store_true", help="workers have a GPU each")
    parser.add_argument("--repeats", type=int, default=9)
    arguments = parser.parse_args()
    cores = arguments.cores or max(1, os.cpu_count() // 2)
    backend = "gpu" if arguments.gpus else "host"
    pinned = [[], []] if arguments.gpus else [list(range(at * cores, (at + 1) * cores)) for at in range(2)]
    small = "SELECT variant_contig, sfs(call_genotype) FROM w WHERE variant_position < 50000 GROUP BY 1 ORDER BY 1"
    queries = {"SFS": "SELECT sfs(call_genotype) FROM w"}
    if not arguments.gpus:
        # The long store of GPUs has the same sites again and again, so no windows.
        statistics_of = "diversity(call_genotype) pi, theta_w(call_genotype) tw, tajimas_d(call_genotype) d"
        queries["windows"] = f"SELECT variant_contig, genome_bin(variant_position, 50000) AS w, {statistics_of} FROM w GROUP BY 1, 2 ORDER BY 1, 2"
    failed = 0

    def row(text, is_met):
        nonlocal failed
        failed += not is_met
        print(f"{text} {'PASS' if is_met else 'MISSED'}", flush=True)

    workers = [Worker(arguments.vcz, pinned[at], at if arguments.gpus else None) for at in range(2)]
    try:
        time.sleep(2)
        if not arguments.gpus:
            alone, answer = times_of(arguments, [], "never", small, 35, "host")
            spread, other = times_of(arguments, workers, "always", small, 35, "host")
            here, there = statistics.median(alone[5:]) * 1e3, statistics.median(spread[5:]) * 1e3
            row(f"small query: {here:.1f} ms here, {there:.1f} ms on two workers; must cost at most 15 ms more:", there - here <= 15)
            row("its answers are the same:", answer == other)
            with tempfile.TemporaryDirectory() as folder:
                store = planned(pathlib.Path(folder) / "long.vcz", 100_000_000, 10, (1000, 10))
                own, distributed = planning(arguments, workers, store)
                more = (distributed - own) * 1e3
                row(f"EXPLAIN of 100,000 chunks: {own * 1e3:.1f} ms, and {more:.1f} ms more for workers; must be at most 10 ms more:", more <= 10)
                store = planned(pathlib.Path(folder) / "large.vcz", 722_000_000, 78_195, (1000, 10_000))
                own, distributed = planning(arguments, workers, store, 15)
                print(f"EXPLAIN of 78,195 samples × 722,000,000 variants: {own * 1e3:.1f} ms, and {(distributed - own) * 1e3:.1f} ms more for workers")
        must = 1.7 if arguments.gpus else 1.8
        for name, query in queries.items():
            slow, fast, is_same = by_turns(arguments, workers, query, backend)
            row(f"{name}: {slow * 1e3:.0f} ms on one worker, {fast * 1e3:.0f} ms on two: {slow / fast:.2f}×; must be {must}×:", slow / fast >= must)
            row("its answers are the same:", is_same)
        if arguments.gpus:
            one, here = both_gpus(arguments, queries["SFS"])
            _, there = times_of(arguments, workers, "always", queries["SFS"], 1, backend)
            row(f"SFS: {one * 1e3:.0f} ms in one process with both GPUs; its answer is the same:", here == there)
    finally:
        for worker in workers:
            worker.stop()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
