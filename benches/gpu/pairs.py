"""Checks that a GPU counts samples, and compares pairs of samples and of sites, like the host, and times both.

    python3 benches/gpu/pairs.py --vcz target/release/vcz --store STORE [--rounds 7] [--partitions 16] [--devices all] [--bases 3300] [--before OLD/vcz] [--only NAME ...]

Sites are compared up to `--bases` apart, by ten bins of distance, and in windows of as many.

STORE has diploid genotypes, such as those of benches/simulate. Needs a GPU. Prints for each statement the median of its times in a
warm process on the host and on the GPU, and the mean time of the kernels that count or compare (from the log, by events of the device), on
the GPU that took longest if there are several.
Exits with 1 if an answer differs. With `--before` an older build is timed on the GPU, too, in turns with the other one, and
answers that it gives otherwise are named.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys

ELAPSED = re.compile(r"^Elapsed ([0-9.]+) seconds", re.M)
KERNELS = re.compile(r"GPU (\d+): the kernels of [\w ]+ took ([0-9.]+) ms")
# Of each, a statement with sums that depend on every count and its place, and the statement to time.
PAIRS = "(SELECT p, row_number() OVER () AS r FROM (SELECT unnest({call}) AS p FROM t))"
COUNTS = ["sites", "ibs0", "ibs1", "ibs2", "het1", "het2", "distance_sites", "distance"]


def aggregate(call, sums):
    return f"SELECT count(*), {sums} FROM {PAIRS.format(call=call)}", f"SELECT count(*) FROM (SELECT unnest({call}) AS p FROM t)"


QUERIES = {
    "haplotype_pairs": aggregate(
        "haplotype_pairs(call_genotype)",
        "sum(p['differences']), sum(p['differences'] * (p['copy1'] * 7919 + p['copy2'])), sum(p['sites'] * (p['copy1'] + 31 * p['copy2']))",
    ),
    "sample_pairs": aggregate(
        "sample_pairs(call_genotype)",
        ", ".join(f"sum(p['{name}'])" for name in COUNTS) + ", sum(p['het_het'] * r), sum(p['opposite'] * r)",
    ),
    "grm": aggregate(
        "grm(call_genotype)",
        # As whole numbers, whose sums do not depend on their order.
        "sum(CAST(p['gcta'] * 1e12 AS BIGINT) * (r % 1009)), sum(CAST(p['vanraden'] * 1e12 AS BIGINT) * (r % 1009)), sum(p['sites'])",
    ),
    "pca": (
        "SELECT pca(call_genotype, 10) FROM t",
        "SELECT pca(call_genotype, 10)['trace'] FROM t",
    ),
    "pca, covariance": (
        "SELECT pca(call_genotype, 4, 'covariance') FROM t",
        "SELECT pca(call_genotype, 4, 'covariance')['trace'] FROM t",
    ),
    # The host finds components; the GPU reads the rows. Their bits are the same on both.
    "pca, windows": (
        "SELECT variant_contig, genome_bin(variant_position, {bases}) AS w, pca(call_genotype, 2, 'covariance') FROM t GROUP BY 1, 2 ORDER BY 1, 2",
        "SELECT sum(p['trace']) FROM (SELECT pca(call_genotype, 2, 'covariance') AS p FROM t GROUP BY variant_contig, genome_bin(variant_position, {bases}))",
    ),
    "sample_counts": (
        "SELECT sample_counts(call_genotype) FROM t",
        "SELECT array_length(sample_counts(call_genotype)) FROM t",
    ),
    "mean_r2": (
        "SELECT variant_contig, genome_bin(variant_position, {bases}) AS w, mean_r2(call_genotype) FROM t GROUP BY 1, 2 ORDER BY 1, 2",
        "SELECT sum(r) FROM (SELECT mean_r2(call_genotype) AS r FROM t GROUP BY variant_contig, genome_bin(variant_position, {bases}))",
    ),
    "ld_decay": ("SELECT ld_decay(call_genotype, variant_position, {edges}) FROM t GROUP BY variant_contig",) * 2,
    "ld_moments": ("SELECT ld_moments(call_genotype, variant_position, {edges}) FROM t GROUP BY variant_contig",) * 2,
    "vcz_sample_pairs": (
        "SELECT sample1, sample2, kinship, distance FROM vcz_sample_pairs('t') ORDER BY kinship DESC NULLS LAST, 1, 2 LIMIT 10000",
        "SELECT count(*) FROM vcz_sample_pairs('t', 0.0884)",
    ),
}


# Those of which the GPU decodes the rows alone.
HOST_COUNTS = ["pca, windows"]


def run(arguments, backend, statements, options, vcz=None):
    """The output of statements in one process, of `vcz` if that is given, and its log."""
    setup = [
        f"SET datafusion.execution.target_partitions = {arguments.partitions}",
        f"SET vcz.gpu_devices = '{arguments.devices}'",
        f"SET vcz.backend = '{backend}'",
        f"CREATE EXTERNAL TABLE t STORED AS VCZ LOCATION '{arguments.store}'",
    ]
    command = [vcz or arguments.vcz, "sql", *options]
    for statement in setup + statements:
        command += ["-c", statement]
    environment = {**os.environ, "RUST_LOG": "datafusion_vcz=debug"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{backend}: {done.stderr[-2000:]}")
    return done.stdout, done.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vcz", required=True)
    parser.add_argument("--store", required=True)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--partitions", type=int, default=16)
    parser.add_argument("--devices", default="all")
    parser.add_argument("--bases", type=int, default=3300)
    parser.add_argument("--before", help="an older build")
    parser.add_argument("--only", nargs="+", choices=QUERIES, default=list(QUERIES))
    arguments = parser.parse_args()
    failed = False
    print(f"{'statement':18} {'host':>9} {'GPU':>9} {'kernels':>9}" + (f" {'before':>9}" if arguments.before else ""))
    edges = [arguments.bases * bin // 10 for bin in range(11)]
    for name in arguments.only:
        check, timed = (statement.replace("{bases}", str(arguments.bases)).replace("{edges}", str(edges)) for statement in QUERIES[name])
        answers = {backend: run(arguments, backend, [check], ["-q", "--format", "csv"])[0] for backend in ["host", "gpu"]}
        if answers["host"] != answers["gpu"]:
            print(f"{name}: the answers differ:\n{answers['host']}\n{answers['gpu']}")
            failed = True
        if arguments.before and run(arguments, "gpu", [check], ["-q", "--format", "csv"], arguments.before)[0] != answers["gpu"]:
            print(f"{name}: the answer is not that of the older build")
        timed = [timed] * (arguments.rounds + 1)
        times, kernels, logs = {"host": [], "gpu": [], "before": []}, {}, 0
        turns = [("host", None), ("gpu", None)]
        if arguments.before:
            turns += [("before", arguments.before), ("gpu", None), ("before", arguments.before)]
        for which, vcz in turns:
            out, log = run(arguments, "host" if which == "host" else "gpu", timed, ["--maxrows", "0"], vcz)
            # The first reads files and compiles kernels.
            times[which] += [float(time) for time in ELAPSED.findall(out)[-arguments.rounds :]]
            if which == "gpu":
                logs += 1
                for device, ms in KERNELS.findall(log):
                    kernels[device] = kernels.get(device, 0) + float(ms)
        if not kernels and name not in HOST_COUNTS:
            print(f"{name}: the GPU did not count")
            failed = True
        # Of all kinds of units, a statement, on the device that took longest.
        shown = max(kernels.values()) / (arguments.rounds + 1) / logs if kernels else float("nan")
        medians = {which: f"{statistics.median(seconds) * 1e3:6.1f} ms" for which, seconds in times.items() if seconds}
        print(f"{name:18} {medians['host']} {medians['gpu']} {shown:6.2f} ms {medians.get('before', '')}".rstrip(), flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
