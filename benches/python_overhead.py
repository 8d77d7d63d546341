"""Times the same queries by the Python module and by `vcz sql`.

    python benches/python_overhead.py --store ag.vcz [--vcz VCZ] [--query SQL] [--threads 8] [--rounds 9] [--repeats 5] [--most 1.05]

Python is one in which the package is installed. `vcz` is the command of that package unless `--vcz` names a program, which should be built with the same
profile. The store is the table `t`. By turns, a process of each opens it and runs a query once untimed and then `--repeats` times: the module until
its rows are Python's objects (`to_pylist`), the command until they are printed as JSON. The command tells milliseconds, so that a query should
take some hundred.

Prints the medians and the least times of queries and of whole processes (with the start of Python, and opening the store) and their ratios. Exits with 1 if an
answer differs, or, with `--most`, if the module's least time of a query is more than so many times that of the command: other work of the machine only adds.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "peers"))
import process  # noqa: E402

QUERIES = {
    "spectrum": "SELECT sfs(call_genotype) AS s FROM t",
    "windows": (
        "SELECT variant_contig AS c, genome_bin(variant_position, 100000) AS w, count(*) AS n, diversity(call_genotype) AS pi, "
        "tajimas_d(call_genotype) AS d FROM t GROUP BY 1, 2 ORDER BY 1, 2"
    ),
}
MODULE = """
import json, sys, time
import vcz

store, threads, query, times = json.loads(sys.argv[1])
db = vcz.connect(f"t={store}", settings={"datafusion.execution.target_partitions": threads}, progress=False)
seconds = []
for _ in range(times):
    start = time.perf_counter()
    rows = db.sql(query).to_pylist()
    seconds.append(time.perf_counter() - start)
print(json.dumps([seconds, rows]))
"""


def by_module(arguments, query):
    """Seconds of each query but the first, those of the process, and the rows."""
    given = json.dumps([str(arguments.store), arguments.threads, query, arguments.repeats + 1])
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", MODULE, given], capture_output=True, text=True)
    wall = time.perf_counter() - start
    if done.returncode:
        sys.exit(f"the module failed on {query}\n{done.stderr}")
    seconds, rows = json.loads(done.stdout)
    return seconds[1:], wall, rows


def by_command(arguments, query):
    """The same of `vcz sql`."""
    settings = f"SET datafusion.execution.target_partitions = {arguments.threads}"
    run = process.vcz(arguments.vcz, [settings, *[query] * (arguments.repeats + 1)], f"t={arguments.store}")
    return run.seconds[-arguments.repeats :], run.wall, run.rows()[-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=pathlib.Path, required=True)
    parser.add_argument("--vcz", type=pathlib.Path, default=pathlib.Path(sys.executable).parent / "vcz")
    parser.add_argument("--query")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--most", type=float)
    arguments = parser.parse_args()
    failed = False
    for name, query in ({"query": arguments.query} if arguments.query else QUERIES).items():
        ways = {"module": by_module, "vcz sql": by_command}
        queries, processes, answers = {way: [] for way in ways}, {way: [] for way in ways}, []
        for turn in range(arguments.rounds):
            # Neither is always the first.
            for way in sorted(ways, reverse=turn % 2 == 1):
                seconds, wall, rows = ways[way](arguments, query)
                queries[way] += seconds
                processes[way].append(wall)
                answers.append(rows)
        for what, times in (("a query", queries), ("a process", processes)):
            for of, kind in ((statistics.median, "median"), (min, "least")):
                ours, theirs = (of(times[way]) for way in ways)
                ratio = ours / theirs if theirs else float("inf")
                print(f"{name}, {what}, {kind}: module {ours:.4f} s, vcz sql {theirs:.4f} s, ratio {ratio:.3f}")
            if what == "a query" and arguments.most is not None and ratio > arguments.most:
                print(f"TOO SLOW: more than {arguments.most} times as long")
                failed = True
        if any(rows != answers[0] for rows in answers):
            print(f"OTHER ANSWERS: {query}")
            failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
