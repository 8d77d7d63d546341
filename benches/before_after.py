"""Compares two builds of vcz on the same stores in one run: the same queries by turns, medians, and the same answers.

    python3 benches/before_after.py --before OLD/vcz --after NEW/vcz --work /tmp/vcz-bench [--backend host,gpu] [--rounds 15] [--only w1,many]

Stores are simulated into the work folder once (msprime, numcodecs, zarr: benches/peers/requirements.txt). A round runs each query in a
session of each build, the older first in every other round; a session runs the query five times, and its fastest run counts. The
builds may differ by as much as the older one differs from itself: it is timed a second time, as `again`. Exits with 1 if an answer
differs.
"""

import argparse
import os
import pathlib
import re
import resource
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ELAPSED = re.compile(r"^Elapsed ([0-9.]+) seconds")

STORES = {
    # As Anopheles gambiae: 1,470 diploids.
    "w1": ["--haplotypes", "2940", "--variants", "600000"],
    # The same with missing calls and a third allele.
    "missing": ["--haplotypes", "2940", "--variants", "300000", "--missing", "0.05", "--multiallelic", "0.03"],
    # Zarr v3, one zstd frame a chunk.
    "frames": ["--haplotypes", "2940", "--variants", "300000", "--layout", "v3-zstd", "--variant-chunk", "10000", "--sample-chunk", "1000"],
    "human": ["--haplotypes", "200000", "--variants", "10000", "--model", "human"],
    # 20,000 chunks.
    "many": ["--haplotypes", "100", "--variants", "2000000", "--variant-chunk", "100"],
}
SFS = "SELECT sfs(call_genotype, 'first') a, sfs(call_genotype, 'second') b FROM w"
TEN = "SELECT " + ", ".join(f"diversity(call_genotype, 'tenth_{i}') p{i}" for i in range(10)) + " FROM w"
WINDOWS = (
    "SELECT variant_contig, genome_bin(variant_position, 50000) s, diversity(call_genotype, 'first') pi, theta_w(call_genotype, 'first') tw, "
    "tajimas_d(call_genotype, 'first') d, divergence(call_genotype, 'first', 'second') dxy, fst_hudson(call_genotype, 'first', 'second') fst "
    "FROM w GROUP BY 1, 2 ORDER BY 1, 2"
)
EARLY = "SELECT variant_position, allele_counts(call_genotype, 'first') ac FROM w LIMIT 10"
REGION = "SELECT sfs(call_genotype) FROM w WHERE variant_position BETWEEN 500001 AND 510000"
COUNT = "SELECT count(*) FROM w"
# Store, label, query, settings, and whether whole processes are timed.
CASES = [
    ("w1", "SFS", SFS, [], False),
    ("w1", "SFS, two partitions", SFS, ["SET datafusion.execution.target_partitions = 2"], False),
    ("w1", "ten populations", TEN, [], False),
    ("w1", "windows", WINDOWS, [], False),
    ("w1", "early LIMIT", EARLY, [], False),
    ("missing", "SFS", SFS, [], False),
    ("missing", "windows", WINDOWS, [], False),
    ("frames", "SFS", SFS, [], False),
    ("human", "SFS", SFS, [], False),
    ("many", "count(*), cold", COUNT, [], True),
    ("many", "10 kb region, cold", REGION, [], True),
    ("many", "SFS", SFS, [], False),
]


def simulate(work, name):
    store = work / f"{name}.vcz"
    script = HERE / "simulate" / "simulate.py"
    if not store.exists():
        subprocess.run([sys.executable, script, store, *STORES[name]], check=True, stdout=subprocess.DEVNULL)
    return store, work / f"{name}.populations.tsv"


def run(vcz, store, populations, statements, quiet):
    """Standard output, seconds of the whole process, and its peak memory in bytes."""
    table = f"CREATE EXTERNAL TABLE w STORED AS VCZ LOCATION '{store}' OPTIONS ('vcz.populations' '{populations}')"
    command = [vcz, "sql", *(["-q", "--format", "json", "--maxrows", "inf"] if quiet else ["--maxrows", "0"])]
    for statement in [table, *statements]:
        command += ["-c", statement]
    read, write = os.pipe()
    begun = os.times().elapsed
    process = subprocess.Popen(command, stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    with os.fdopen(read) as output:
        out = output.read()
    errors = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = os.times().elapsed - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0 or "Error" in errors:
        raise RuntimeError(f"{' '.join(map(str, command))}\nexit status {process.returncode}\n{errors[-2000:]}")
    return out, seconds, usage.ru_maxrss * 1024


def seconds_of(vcz, store, populations, backend, settings, query, cold):
    statements = [f"SET vcz.backend = '{backend}'", *settings]
    if cold:
        _, seconds, memory = run(vcz, store, populations, [*statements, query], True)
        return seconds, memory
    out, _, memory = run(vcz, store, populations, [*statements, *[query] * 6], False)
    elapsed = [float(match[1]) for line in out.splitlines() if (match := ELAPSED.match(line))][-5:]
    return min(elapsed), memory


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", required=True)
    parser.add_argument("--after", required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--backend", default="host")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", default="", help="names of stores, separated by commas")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    only = set(filter(None, arguments.only.split(",")))
    builds = {"before": arguments.before, "after": arguments.after, "again": arguments.before}
    failed = 0
    print("| store | query | backend | before | again | after | after / before | peak memory, before → after |\n| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, label, query, settings, cold in CASES:
        if only and name not in only:
            continue
        store, populations = simulate(arguments.work, name)
        for backend in arguments.backend.split(","):
            statements = [f"SET vcz.backend = '{backend}'", *settings, query]
            answers = {build: run(vcz, store, populations, statements, True)[0] for build, vcz in builds.items()}
            if answers["before"] != answers["after"]:
                print(f"{name}: {label}: the answers differ", file=sys.stderr)
                failed = 1
            times, memory = {build: [] for build in builds}, {build: [] for build in builds}
            for turn in range(arguments.rounds):
                order = list(builds) if turn % 2 == 0 else list(builds)[::-1]
                for build in order:
                    seconds, bytes_ = seconds_of(builds[build], store, populations, backend, settings, query, cold)
                    times[build].append(seconds)
                    memory[build].append(bytes_)
            medians = {build: statistics.median(values) for build, values in times.items()}
            megabytes = {build: statistics.median(values) / 1e6 for build, values in memory.items()}
            cells = [f"{medians[build] * 1e3:.1f} ms" for build in ("before", "again", "after")]
            ratio = f"{medians['after'] / medians['before']:.3f}"
            print(f"| {name} | {label} | {backend} | {' | '.join(cells)} | {ratio} | {megabytes['before']:.0f} → {megabytes['after']:.0f} MB |", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
