"""What windows cost: a store's spectrum against statistics in windows of it, by `vcz` alone.

    python windows.py STORE.vcz.zip --vcz target/release/vcz [--processes 3]

Each process runs each query twelve times with one partition, and the first is left out; medians over all. `vcz` prints whole
milliseconds. The store is read before, so that the page cache is warm.
"""

import argparse
import pathlib
import statistics

import process

SITES = "(SELECT variant_contig, call_genotype, unnest(genome_bins(variant_position, 100000, 10000)) AS w FROM t)"
QUERIES = {
    "sfs": "SELECT sfs(call_genotype) FROM t",
    "sfs in ten overlapping windows a site": f"SELECT variant_contig, w, sfs(call_genotype) FROM {SITES} GROUP BY 1, 2 ORDER BY 1, 2",
    "diversity in such windows": f"SELECT variant_contig, w, diversity(call_genotype) FROM {SITES} GROUP BY 1, 2 ORDER BY 1, 2",
    "diversity in windows that do not overlap": (
        "SELECT variant_contig, genome_bin(variant_position, 10000) AS w, diversity(call_genotype) FROM t GROUP BY 1, 2 ORDER BY 1, 2"
    ),
}
RUNS = 12


def seconds(vcz, store, query):
    statements = ["SET datafusion.execution.target_partitions = 1", f"CREATE EXTERNAL TABLE t STORED AS VCZ LOCATION '{store}'"]
    return process.vcz(vcz, [*statements, *[query] * RUNS], "--maxrows", "0").seconds[-RUNS + 1 :]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=pathlib.Path)
    parser.add_argument("--vcz", required=True)
    parser.add_argument("--processes", type=int, default=3)
    arguments = parser.parse_args()
    seen = {name: [] for name in QUERIES}
    for _ in range(arguments.processes):
        for name, query in QUERIES.items():
            seen[name] += seconds(arguments.vcz, arguments.store, query)
    medians = {name: statistics.median(times) for name, times in seen.items()}
    for name, median in medians.items():
        print(f"{name}: {median * 1e3:.0f} ms, {median / medians['sfs']:.2f} times sfs")


if __name__ == "__main__":
    main()
