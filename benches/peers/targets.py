"""Checks the speed targets of the host path: ratios to one thread that only decodes the same chunks, in the same run.

    python targets.py --vcz target/release/vcz --stores DIRECTORY [--rounds 7] [--only WORKLOAD …] [--json FILE]

The stores are simulated into DIRECTORY if they are not there (benches/simulate). In each round every measurement of a workload is
taken once, ours and the decoding in turn, so that a slow moment of the machine meets all; times are medians over the rounds.

  ours      one process of `vcz sql -f` runs the query five times; the first is left out, of the others the median counts. A time is
            that of the whole statement: planning, execution, printing
  decode    the chunks are in memory already; each is decoded into one buffer that is reused, by one thread: numcodecs' c-blosc for
            Blosc chunks, numcodecs' libzstd for plain zstd

The page cache is warm. Exit status 1 if a target is missed.
"""

import argparse
import itertools
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time

import numcodecs
import numcodecs.blosc
import numpy as np

import process
from decode_speed import Files, decoding_plan, open_array

SIMULATE = pathlib.Path(__file__).parents[1] / "simulate/simulate.py"
AG = ["--haplotypes", "2940", "--variants", "300000"]
HUMAN = ["--haplotypes", "100000", "--model", "human", "--variants"]
STORES = {
    "ag": AG,
    "ag_third": [*AG[:2], "--variants", "100000"],
    "ag_missing": [*AG, "--missing", "0.05", "--multiallelic", "0.03"],
    "ag_v3": [*AG, "--layout", "v3-zstd"],
    "human": [*HUMAN, "10000"],
    "human_third": [*HUMAN, "3000"],
    "chunks20k": ["--haplotypes", "100", "--variants", "2000000", "--variant-chunk", "100"],
}

SFS = "SELECT sfs(call_genotype, 'first') AS first, sfs(call_genotype, 'second') AS second FROM t"
# The joint spectrum of each window is computed in full; its length is printed, since 160,801 numbers a window are slow to print.
JOINT = """SELECT variant_contig, genome_bin(variant_position, 100000) AS w,
    array_length(joint_sfs(call_genotype, 'first_200', 'second_200')) AS bins,
    diversity(call_genotype, 'first_200') AS pi_1, diversity(call_genotype, 'second_200') AS pi_2,
    divergence(call_genotype, 'first_200', 'second_200') AS dxy,
    fst_hudson(call_genotype, 'first_200', 'second_200') AS fst
FROM t GROUP BY 1, 2 ORDER BY 1, 2"""
PROJECTED = "SELECT project_joint_sfs(call_genotype, 'first', 'second', 100, 100) AS s FROM t"
ONE = "SELECT sfs(call_genotype, 'first') AS s FROM t"
TEN = "SELECT " + ", ".join(f"sfs(call_genotype, 'tenth_{i}') AS s{i}" for i in range(10)) + " FROM t"
RUNS = 5  # of a query in a process

# (workload, store, query, partitions, against, at least): a ratio of `against`'s time to the query's.
TARGETS = [
    ("sfs of two populations", "ag", SFS, 1, "decode", 7.0),
    ("joint_sfs 400 + 400, windows", "ag", JOINT, 1, "decode", 6.0),
    ("sfs of two populations", "human", SFS, 1, "decode", 9.0),
    ("project_joint_sfs 100 x 100", "human", PROJECTED, 1, "decode", 6.0),
    ("sfs of two populations", "ag_missing", SFS, 1, "decode", 3.0),
    ("joint_sfs 400 + 400, windows", "ag_missing", JOINT, 1, "decode", 3.0),
    ("sfs of two populations", "ag_v3", SFS, 1, "decode", 0.85),
    ("two partitions", "ag", SFS, 2, (SFS, 1), 1.8),
    ("ten populations", "ag", TEN, 1, (ONE, 1), 1 / 1.6),
]
COUNT = "SELECT count(*) FROM '{store}'"
REGION = "SELECT sfs(call_genotype) FROM '{store}' WHERE variant_contig = '1' AND variant_position BETWEEN 10000001 AND 10010000"
OPENING_LIMIT = 0.050  # seconds: a whole process that opens the 20,000 chunks, plans and answers
MEMORY_LIMIT = 250e6  # bytes, resident, of a whole process with one query
MEMORY_GROWTH = 1.1  # of a store with three times as many variants


class Decoding:
    """The encoded chunks of a store's genotypes, or of another array, in memory, and one buffer for the decoded."""

    def __init__(self, store, array="call_genotype"):
        numcodecs.blosc.use_threads = False
        numcodecs.blosc.set_nthreads(1)
        files = Files(store)
        self.shape, chunks, dtype, codecs, key = decoding_plan(files, array)
        (self.codec,) = codecs
        grid = itertools.product(*(range(-(-n // c)) for n, c in zip(self.shape, chunks)))
        chunks_or_none = (files.read(f"{array}/{key(index)}") for index in grid)
        self.encoded = [chunk for chunk in chunks_or_none if chunk is not None]
        self.buffer = np.empty(int(np.prod(chunks)) * np.dtype(dtype).itemsize, dtype=np.uint8)
        self.calls = int(np.prod(self.shape))

    def seconds(self):
        start = time.perf_counter()
        for chunk in self.encoded:
            self.codec.decode(chunk, out=self.buffer)
        return time.perf_counter() - start


def query_seconds(binary, store, query, partitions):
    run = process.vcz(binary, [*process.table("t", store, partitions), *[query] * RUNS])
    return statistics.median(run.seconds[-RUNS + 1 :])


def peak_bytes(binary, store, query):
    return process.vcz(binary, [*process.table("t", store), query], peak=True).peak_bytes


def simulate(directory, name):
    store = directory / f"{name}.vcz"
    if not store.exists():
        subprocess.run([sys.executable, str(SIMULATE), str(store), *STORES[name]], check=True)
    return store


def spectra(store):
    """sfs of `first` and `second` by numpy: complete sites by their number of derived copies."""
    array = open_array(store)
    half = array.shape[1] // 2
    out = []
    for samples in (slice(0, half), slice(half, None)):
        out.append(np.zeros(len(range(*samples.indices(array.shape[1]))) * 2 + 1, dtype=np.int64))
    for start in range(0, array.shape[0], array.chunks[0]):
        genotypes = array[start : start + array.chunks[0]]
        for spectrum, samples in zip(out, (slice(0, half), slice(half, None))):
            part = genotypes[:, samples].reshape(len(genotypes), -1)
            complete = (part >= 0).all(axis=1)
            spectrum += np.bincount(np.count_nonzero(part > 0, axis=1)[complete], minlength=len(spectrum))
    return [spectrum.tolist() for spectrum in out]


def check(binary, store):
    run = process.vcz(binary, [*process.table("t", store), SFS], "-q")
    row = run.rows()[-1][0]
    if [row["first"], row["second"]] != spectra(store):
        sys.exit(f"{store.name}: vcz and numpy do not give the same spectra")
    print(f"{store.name}: vcz and numpy give the same spectra", flush=True)


class Report:
    def __init__(self):
        self.rows, self.missed = [], 0

    def add(self, workload, store, ours, against, ratio, target, met, calls=None):
        rate = f"{calls / ours / 1e9:.1f}" if calls else ""
        self.missed += not met
        self.rows.append([workload, store, ours, rate, against, ratio, target, "yes" if met else "NO"])
        print(f"  {workload}, {store}: {self.rows[-1][2:]}", file=sys.stderr, flush=True)

    def print(self):
        print("| query | store | vcz | G calls/s | against | ratio | target | met |")
        print("| --- | --- | ---: | ---: | ---: | ---: | ---: | --- |")
        for workload, store, ours, rate, against, ratio, target, met in self.rows:
            ours = f"{ours / 1e6:.0f} MB" if isinstance(ours, int) else f"{ours * 1e3:.1f} ms"
            print(f"| {workload} | {store} | {ours} | {rate} | {against} | {ratio} | {target} | {met} |")


def ratios(args, report, stores):
    for name in stores:
        targets = [target for target in TARGETS if target[1] == name]
        if not targets:
            continue
        store = simulate(args.stores, name)
        check(args.vcz, store)
        decoding = Decoding(store)
        times = {"decode": []}
        for _, _, query, partitions, against, _ in targets:
            times[query, partitions] = []
            if against != "decode":
                times[against] = []
        for _ in range(args.rounds):
            for key, seen in times.items():
                seen.append(decoding.seconds() if key == "decode" else query_seconds(args.vcz, store, *key))
        medians = {key: statistics.median(seen) for key, seen in times.items()}
        for workload, _, query, partitions, against, target in targets:
            ours, theirs = medians[query, partitions], medians[against]
            ratio = theirs / ours
            label = "decode" if against == "decode" else "one partition" if partitions > 1 else "one population"
            report.add(
                workload, name, ours, f"{label} {theirs * 1e3:.1f} ms", f"{ratio:.2f}", f"{target:.2f}", ratio >= target, decoding.calls
            )


def opening(args, report):
    store = simulate(args.stores, "chunks20k")
    for workload, query in (("count(*), whole process", COUNT), ("sfs of 10 kb, whole process", REGION)):
        walls = [process.vcz(args.vcz, [query.format(store=store)]).wall for _ in range(3 * args.rounds)]
        wall = statistics.median(walls)
        report.add(workload, "chunks20k", wall, "", "", f"{OPENING_LIMIT * 1e3:.0f} ms", wall <= OPENING_LIMIT)


def memory(args, report, stores):
    for name, queries in (("ag", (SFS, JOINT)), ("human", (SFS, PROJECTED))):
        if name not in stores:
            continue
        large, small = simulate(args.stores, name), simulate(args.stores, f"{name}_third")
        for workload, query in zip(("sfs, peak memory", "joint, peak memory"), queries):
            peaks = [(peak_bytes(args.vcz, large, query), peak_bytes(args.vcz, small, query)) for _ in range(args.rounds)]
            peak, third = (statistics.median(of) for of in zip(*peaks))
            ratio = peak / third
            met = peak < MEMORY_LIMIT and ratio < MEMORY_GROWTH
            against = f"a third of the variants {third / 1e6:.0f} MB"
            report.add(workload, name, peak, against, f"{ratio:.2f}", f"{MEMORY_LIMIT / 1e6:.0f} MB, {MEMORY_GROWTH}", met)


def cpu_name():
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vcz", required=True, help="the vcz binary, optimised")
    parser.add_argument("--stores", type=pathlib.Path, required=True, help="where the simulated stores are, or will be")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", nargs="+", choices=sorted(STORES), help="only these stores")
    parser.add_argument("--json", type=pathlib.Path, help="keep the figures in this file")
    args = parser.parse_args()
    args.stores = args.stores.absolute()
    stores = args.only or list(STORES)
    report = Report()
    ratios(args, report, stores)
    if "chunks20k" in stores:
        opening(args, report)
    memory(args, report, stores)
    print(
        f"\n{cpu_name()}, {os.cpu_count()} cores; numcodecs {numcodecs.__version__}, Python {platform.python_version()}; "
        f"medians of {args.rounds} rounds\n"
    )
    report.print()
    if args.json:
        args.json.write_text(json.dumps(report.rows, indent=1) + "\n")
    sys.exit(report.missed > 0)


if __name__ == "__main__":
    main()
