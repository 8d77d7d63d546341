"""What workers cost and gain: the time of a small query here and on two local workers, of planning, and of a large query on one and two workers
that have the same number of cores each, or one GPU each.

    python3 benches/cluster.py --vcz target/release/vcz --store STORE [--cores 4] [--gpus] [--repeats 9]

STORE is a store to scan. Prints a table
of medians; exits with 1 if an answer differs.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
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


def times_of(arguments, workers, distribute, query, repeats, backend):
    """The seconds of each run of a query in one session, and its answer."""
    command = [arguments.vcz, "sql", f"w={arguments.store}", "--format", "json"]
    if workers:
        command += ["--workers", ",".join(worker.address for worker in workers)]
    statements = [f"SET vcz.distribute = '{distribute}'", f"SET vcz.backend = '{backend}'", *[query] * repeats]
    for statement in statements:
        command += ["-c", statement]
    # The coordinator's own GPU is not used.
    environment = dict(os.environ, CUDA_VISIBLE_DEVICES="") if workers else None
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    lines = done.stdout.splitlines()
    elapsed = [float(match[1]) for line in lines if (match := ELAPSED.match(line))][-repeats:]
    answers = {line for line in lines if line.startswith("[{")}
    return elapsed, answers


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
    large = "SELECT sfs(call_genotype) FROM w"
    windows = "SELECT variant_contig, genome_bin(variant_position, 50000) AS w, diversity(call_genotype), tajimas_d(call_genotype) FROM w GROUP BY 1, 2 ORDER BY 1, 2"
    wrong = False
    workers = [Worker(arguments.vcz, pinned[at], at if arguments.gpus else None) for at in range(2)]
    try:
        time.sleep(2)
        alone, answer = times_of(arguments, [], "never", small, 30, "host")
        spread, other = times_of(arguments, workers, "always", small, 30, "host")
        wrong |= answer != other
        here, there = statistics.median(alone[5:]) * 1e3, statistics.median(spread[5:]) * 1e3
        print(f"small query: {here:.1f} ms here, {there:.1f} ms on two workers: {there - here:+.1f} ms")
        for name, query in (("SFS", large), ("windows", windows)):
            one, first = times_of(arguments, workers[:1], "always", query, arguments.repeats, backend)
            two, second = times_of(arguments, workers, "always", query, arguments.repeats, backend)
            wrong |= first != second
            slow, fast = statistics.median(one[1:]), statistics.median(two[1:])
            print(f"{name}: {slow * 1e3:.0f} ms on one worker, {fast * 1e3:.0f} ms on two: {slow / fast:.2f}x")
    finally:
        for worker in workers:
            worker.stop()
    if wrong:
        print("FAILED: answers differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
