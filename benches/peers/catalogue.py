"""Checks the speed targets of genotype counts, many statistics at once, individuals, haplotypes, call filters and many populations.

    python catalogue.py --vcz target/release/vcz --stores DIRECTORY [--rounds 7] [--only QUERY …]             the host, one thread
    python catalogue.py --vcz target/release/vcz --stores DIRECTORY --backend gpu [--rounds 7] [--only …]     a GPU, all cores

On the host a time is compared with one thread that only decodes the same chunks (see targets.py), with the same question for one
population, or with scikit-allel on one thread (skipped, and said so, where it is not installed). On a GPU, targets are times, or ratios to
another query; the store is W1-B of benches/gpu/run.py. Every query is first answered by host and GPU, or with one and two partitions, and
the answers compared. The stores are simulated into DIRECTORY if they are not there. Exit status 1 if an answer differs or a target is missed.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import time

import numpy as np

import process
from targets import AG, RUNS, SIMULATE, Decoding, Report, cpu_name

W1 = ["--haplotypes", "2940", "--variants", "1700000"]
STORES = {"ag": AG, "ag_calls": [*AG, "--missing", "0.05", "--calls"], "w1": W1}
POPULATIONS = 100

BINNED = "variant_contig, genome_bin(variant_position, 50000) AS w"
GROUPED = "FROM t GROUP BY 1, 2 ORDER BY 1, 2"


def windows(*columns):
    return f"SELECT {BINNED}, {', '.join(f'{column} AS s{at}' for at, column in enumerate(columns))} {GROUPED}"


def of(name, *populations):
    return f"{name}(call_genotype, {', '.join(map(repr, populations))})"


ONE, TWO, THREE = ["first"], ["first", "second"], ["tenth_0", "tenth_1", "tenth_9"]
WC = windows(of("fst_weir_cockerham", *TWO))
HUDSON = windows(of("fst_hudson", *TWO))
SPECTRUM_STATISTICS = ["theta_h", "theta_l", "fay_wu_h", "fay_wu_h_norm", "zeng_e", "singletons", "singletons_folded"]
SPECTRUM_STATISTICS += ["fu_li_d", "fu_li_f", "fu_li_d_star", "fu_li_f_star"]
PAIR_STATISTICS = ["net_divergence", "f2", "fst_nei", "jost_d", "private_alleles"]
TWENTY = windows(
    *[of(name, *ONE) for name in SPECTRUM_STATISTICS],
    *[of(name, *TWO) for name in PAIR_STATISTICS],
    *[of(name, *THREE) for name in ["f3", "f3_normalized", "pbs", "pbs_n1"]],
)
HAPLOTYPES = f"SELECT {BINNED}, {of('garud_h', *ONE)} AS h, {of('haplotype_diversity', *ONE)} AS hd, {of('haplotype_count', *ONE)} AS hc, "
NINETEEN = (
    HAPLOTYPES
    + ", ".join(
        f"{of(name, *populations)} AS s{at}"
        for at, (name, populations) in enumerate(
            [(name, ONE) for name in ["diversity", "theta_w", "theta_h", "theta_l", "segregating_sites", "singletons"]]
            + [(name, ONE) for name in ["tajimas_d", "fay_wu_h", "fay_wu_h_norm", "zeng_e"]]
            + [(name, TWO) for name in ["fst_hudson", "divergence", "net_divergence"]]
        )
    )
    + f" {GROUPED}"
)
SAMPLES = "SELECT unnest(sample_counts(call_genotype)) AS s FROM t"


def count_of(names):
    # count(*) alone would count no genotypes.
    return "SELECT " + ", ".join(f"count(allele_counts(call_genotype, '{name}')) AS n{at}" for at, name in enumerate(names)) + " FROM t"


def diversities(names):
    return "SELECT " + ", ".join(f"diversity(call_genotype, '{name}') AS d{at}" for at, name in enumerate(names)) + " FROM t"


HUNDRED = [f"p{at}" for at in range(POPULATIONS)]
UNNESTED = (
    "SELECT p['population'] AS population, diversity(p['ac']) AS pi FROM (SELECT unnest(population_counts(call_genotype)) AS p FROM t) "
    "GROUP BY 1 ORDER BY 1"
)
FILTERED = "SELECT sfs(filter_calls(call_genotype, call_GQ, 20, NULL)) AS s FROM t"
THOUSAND_SITES = (
    "SELECT variant_contig, b, garud_h(call_genotype)['h12'] AS h12 FROM (SELECT variant_contig, call_genotype, "
    "site_bin(row_number() OVER (PARTITION BY variant_contig ORDER BY variant_position), 1000) AS b FROM t) GROUP BY 1, 2 ORDER BY 1, 2"
)

# Query: (store, statement, against, at least). `against` is `decode`, `scikit-allel`, or (label, statement); a ratio of its time to ours.
HOST = {
    "wc": ("ag", WC, "decode", 5),
    "twenty": ("ag", TWENTY, "decode", 4),
    "samples": ("ag", SAMPLES, "decode", 3),
    "count_of_100": ("ag", count_of(HUNDRED), ("of 1", count_of(HUNDRED[:1])), 1 / 2),
    "diversity_of_100": ("ag", diversities(HUNDRED), ("of 1", diversities(HUNDRED[:1])), 1 / 5),
    "unnested_100": ("ag", UNNESTED, ("of 1", diversities(HUNDRED[:1])), 1 / 5),
    "filter": ("ag_calls", FILTERED, "decode both", 1.2),
    "garud": ("ag", THOUSAND_SITES, "scikit-allel", 10),
}
# Query: (store, statement, against, at most): seconds, or (label, statement) and a ratio of our time to its.
GPU = {
    "wc": ("w1", WC, ("fst_hudson", HUDSON), 1.5),
    "twenty": ("w1", TWENTY, None, 0.040),
    "nineteen": ("w1", NINETEEN, None, 0.150),
    "samples": ("w1", SAMPLES, None, 0.040),
    "count_of_100": ("w1", count_of(HUNDRED), ("of 1", count_of(HUNDRED[:1])), 2),
    "diversity_of_100": ("w1", diversities(HUNDRED), ("of 1", diversities(HUNDRED[:1])), 5),
    "unnested_100": ("w1", UNNESTED, ("of 1", diversities(HUNDRED[:1])), 5),
    "filter": ("ag_calls", FILTERED, "the host with all cores", 1 / 5),
}


def simulate(directory, name):
    """The store; beside it the populations of the simulator, and a hundred that tile the samples in `NAME.hundred.tsv`."""
    store = directory / f"{name}.vcz"
    if not store.exists():
        subprocess.run([sys.executable, str(SIMULATE), str(store), *STORES[name]], check=True, stdout=subprocess.DEVNULL)
    samples = dict.fromkeys(line.split("\t")[0] for line in store.with_suffix(".populations.tsv").read_text().splitlines()[1:])
    lines = [f"{sample}\tp{at * POPULATIONS // len(samples)}" for at, sample in enumerate(samples)]
    hundred = store.with_suffix(".hundred.tsv")
    hundred.write_text("\n".join(["sample_id\tpopulation", *lines]) + "\n")
    return store


def table(store, query, backend, partitions):
    populations = store.with_suffix(".hundred.tsv" if "'p0'" in query or "population_counts" in query else ".populations.tsv")
    return [f"SET vcz.backend = '{backend}'", *process.table("t", store, partitions, populations)]


def seconds(args, store, query, backend, partitions):
    """The median of the runs of a warm process."""
    run = process.vcz(args.vcz, [*table(store, query, backend, partitions), *[query] * RUNS])
    return statistics.median(run.seconds[-RUNS + 2 :])


def answer(args, store, query, backend, partitions):
    return process.vcz(args.vcz, [*table(store, query, backend, partitions), query], "-q", "--maxrows", "inf").rows()


def moving_garud_h(store):
    """Seconds of scikit-allel for H12 of 1,000 sites, the haplotypes in memory; `None` where it is not installed."""
    try:
        import allel
    except ImportError:
        return None
    from decode_speed import open_array

    array = open_array(store)
    haplotypes = np.asarray(array[:50_000])
    haplotypes = haplotypes.reshape(len(haplotypes), -1)
    start = time.perf_counter()
    allel.moving_garud_h(haplotypes, 1_000)
    return (time.perf_counter() - start) * array.shape[0] / len(haplotypes)


def host(args, report):
    decodings = {}
    for query, (name, statement, against, target) in HOST.items():
        if args.only and query not in args.only:
            continue
        store = simulate(args.stores, name)
        differs(args, report, query, store, statement, [("host", 1), ("host", 2)])
        if against in ("decode", "decode both") and store not in decodings:
            arrays = ["call_genotype"] if against == "decode" else ["call_genotype", "call_GQ"]
            decodings[store] = [Decoding(store, array) for array in arrays]
        ours, theirs = [], []
        for _ in range(args.rounds):
            ours.append(seconds(args, store, statement, "host", 1))
            if isinstance(against, tuple):
                theirs.append(seconds(args, store, against[1], "host", 1))
            elif against != "scikit-allel":
                theirs.append(sum(decoding.seconds() for decoding in decodings[store]))
        if against == "scikit-allel":
            taken = moving_garud_h(store)
            if taken is None:
                print(f"NOT RUN: {query} against scikit-allel, which is not installed", flush=True)
                continue
            theirs.append(taken)
        ours, theirs = statistics.median(ours), statistics.median(theirs)
        label = against[0] if isinstance(against, tuple) else against
        ratio = theirs / ours
        report.add(query, name, ours, f"{label} {theirs * 1e3:.1f} ms", f"{ratio:.2f}", f"{target:.2f}", ratio >= target)


def gpu(args, report):
    cores = os.cpu_count()
    for query, (name, statement, against, target) in GPU.items():
        if args.only and query not in args.only:
            continue
        store = simulate(args.stores, name)
        differs(args, report, query, store, statement, [("gpu", cores), ("host", cores)])
        ours, theirs = [], []
        for _ in range(args.rounds):
            ours.append(seconds(args, store, statement, args.backend, cores))
            if isinstance(against, tuple):
                theirs.append(seconds(args, store, against[1], args.backend, cores))
            else:
                theirs.append(seconds(args, store, statement, "host", cores))
        ours, theirs = statistics.median(ours), statistics.median(theirs)
        label = against[0] if isinstance(against, tuple) else "the host with all cores"
        if against is None:
            wanted, met = f"{target * 1e3:.0f} ms", ours <= target
        else:
            wanted, met = f"{target:.2f}", ours / theirs <= target
        report.add(query, name, ours, f"{label} {theirs * 1e3:.1f} ms", f"{ours / theirs:.2f}", wanted, met)


def differs(args, report, query, store, statement, ways):
    """Compares the answers of two backends, or numbers of partitions."""
    answers = [answer(args, store, statement, *way) for way in ways]
    if answers[0] != answers[1]:
        report.missed += 1
        print(f"{query}: {ways[0]} and {ways[1]} do not give the same answer", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vcz", required=True, help="the vcz binary, optimised")
    parser.add_argument("--stores", type=pathlib.Path, required=True, help="where the simulated stores are, or will be")
    parser.add_argument("--backend", choices=["host", "gpu"], default="host")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", nargs="+", choices=sorted({*HOST, *GPU}), help="only these queries")
    args = parser.parse_args()
    args.stores = args.stores.absolute()
    args.stores.mkdir(parents=True, exist_ok=True)
    report = Report()
    (host if args.backend == "host" else gpu)(args, report)
    print(f"\n{cpu_name()}, {os.cpu_count()} cores; medians of {args.rounds} rounds\n")
    report.print()
    sys.exit(report.missed > 0)


if __name__ == "__main__":
    main()
