"""Times statistics of genes by a join of positions with intervals, against the same join written with bins by hand.

    python3 benches/genes.py --vcz target/release/vcz --store gambX.vcz.zip [--genes 20000] [--rounds 7]

Random genes of 200 to 15,000 bases are made on the store's first contig. Both queries run by turns in one session; prints the medians and
their ratio. Exits with 1 if the answers differ or the join takes more than three times as long.
"""

import argparse
import json
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile

ELAPSED = re.compile(r"^Elapsed ([0-9.]+) seconds", re.MULTILINE)
GENES = "SELECT g.name, count(*) n, segregating_sites(call_genotype) s, diversity(call_genotype) pi FROM t JOIN"
INSIDE = 'variant_position > g.start AND variant_position <= g."end"'
WITHIN_BINS = (
    'SELECT *, unnest(generate_series(start / 16384, "end" / 16384)) AS bin FROM genes'
)
QUERIES = {
    "join with intervals": f"{GENES} genes g ON variant_contig = g.contig AND {INSIDE} GROUP BY g.name",
    "bins by hand": (
        f"{GENES} ({WITHIN_BINS}) g ON variant_contig = g.contig AND variant_position / 16384 = g.bin WHERE {INSIDE} GROUP BY g.name"
    ),
}


def run(vcz, statements, *options):
    command = [vcz, "sql", *options]
    for statement in statements:
        command += ["-c", statement]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vcz", required=True)
    parser.add_argument("--store", required=True)
    parser.add_argument("--genes", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    table = f"CREATE EXTERNAL TABLE t STORED AS VCZ LOCATION '{arguments.store}'"
    span = "SELECT variant_contig AS c, min(variant_position) AS a, max(variant_position) AS b FROM t GROUP BY 1 ORDER BY 1 LIMIT 1"
    span = json.loads(run(arguments.vcz, [table, span], "-q", "--format", "json"))[0]
    chance = random.Random(1)
    starts = sorted(chance.randrange(span["a"], max(span["a"] + 1, span["b"] - 15_000)) for _ in range(arguments.genes))
    with tempfile.TemporaryDirectory() as folder:
        bed = pathlib.Path(folder) / "genes.bed"
        rows = (f"{span['c']}\t{start}\t{start + chance.randrange(200, 15_000)}\tg{n}\n" for n, start in enumerate(starts))
        bed.write_text("".join(rows))
        create = [table, f"CREATE EXTERNAL TABLE genes STORED AS BED LOCATION '{bed}'"]
        totals = [f"SELECT count(*) genes, sum(n) sites, sum(s) segregating, round(sum(pi), 6) pi FROM ({query})" for query in QUERIES.values()]
        answers = [json.loads(run(arguments.vcz, [*create, total], "-q", "--format", "json")) for total in totals]
        print(answers[0])
        out = run(arguments.vcz, [*create, *(totals * arguments.rounds)])
    seconds = [float(value) for value in ELAPSED.findall(out)][-2 * arguments.rounds :]
    medians = {name: statistics.median(seconds[at::2]) for at, name in enumerate(QUERIES)}
    for name, median in medians.items():
        print(f"{name}: {median:.3f} s")
    joined, binned = medians.values()
    print(f"ratio: {joined / binned:.2f}")
    return int(answers[0] != answers[1] or joined > 3 * binned)


if __name__ == "__main__":
    sys.exit(main())
