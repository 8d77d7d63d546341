"""Simulates stores, checks that the GPU answers like the host, and times both: cold processes, first and warm queries.

    python3 benches/gpu/run.py --vcz target/release/vcz --work /tmp/vcz-gpu [--only w1,w2,w1m,w1a,regions,cold,long] [--devices 0]

Needs a GPU, nvCOMP (VCZ_NVCOMP_LIB or on the library path), and `msprime`, `numcodecs`, `zarr` (benches/peers/requirements.txt)
to simulate; stores that exist in the work folder are reused. Prints a table; `alone` is the time of copying, decoding and
counting the same chunks on the device one after the other, measured by events in a run with one batch at a time (vcz.gpu_workers = 1).
Exits with 1 if an answer differs or a target is missed.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ELAPSED = re.compile(r"^Elapsed ([0-9.]+) seconds")
UNITS = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
REPEATS = 25

STORES = {
    # name: (options of simulate.py, window)
    "w1": (["--haplotypes", "2940", "--variants", "1700000"], 50_000),
    "w2": (["--haplotypes", "200000", "--variants", "29000", "--model", "human"], 10_000),
    "w1a": (
        ["--haplotypes", "2940", "--variants", "1700000", "--layout", "v3-zstd", "--variant-chunk", "10000", "--sample-chunk", "1000"],
        50_000,
    ),
    "w1m": (["--haplotypes", "2940", "--variants", "1700000", "--missing", "0.05", "--multiallelic", "0.03"], 50_000),
}


def windows(size):
    statistics_of = ", ".join(
        [
            "diversity(call_genotype, 'first') pi1",
            "diversity(call_genotype, 'second') pi2",
            "theta_w(call_genotype, 'first') tw",
            "tajimas_d(call_genotype, 'first') d",
            "divergence(call_genotype, 'first', 'second') dxy",
            "fst_hudson(call_genotype, 'first', 'second') fst",
        ]
    )
    return (
        f"SELECT variant_contig, genome_bin(variant_position, {size}) w, {statistics_of} FROM w "
        "GROUP BY variant_contig, w ORDER BY variant_contig, w"
    )


SFS = "SELECT sfs(call_genotype, 'first') a, sfs(call_genotype, 'second') b FROM w"


class Tool:
    """The program under test, and a store."""

    def __init__(self, vcz, store, populations, devices="all"):
        self.vcz, self.store, self.populations, self.devices = vcz, store, populations, devices

    def run(self, statements, quiet=False, workers=None, threads=None):
        script = [
            f"CREATE EXTERNAL TABLE w STORED AS VCZ LOCATION '{self.store}' OPTIONS ('vcz.populations' '{self.populations}')",
            f"SET vcz.gpu_devices = '{self.devices}'",
        ]
        if workers:
            script.append(f"SET vcz.gpu_workers = {workers}")
        if threads:
            script.append(f"SET datafusion.execution.target_partitions = {threads}")
        command = [self.vcz, "sql", *(["-q", "--format", "json"] if quiet else []), "--maxrows", "0" if not quiet else "inf"]
        for statement in script + statements:
            command += ["-c", statement]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        if done.returncode != 0 or "Error" in done.stderr:
            raise RuntimeError(f"{' '.join(command)}\nexit status {done.returncode}\n{done.stdout[-300:]}\n{done.stderr[-2000:]}")
        return done.stdout

    def answer(self, backend, query):
        return self.run([f"SET vcz.backend = '{backend}'", query], quiet=True)

    def warm(self, backend, query, repeats=REPEATS):
        """Median seconds of a query in a session whose device is ready, and of the first one."""
        prepare = ["SET vcz.backend = 'gpu'", "SELECT sum(allele_number(allele_counts(call_genotype))) FROM (SELECT * FROM w LIMIT 1000)"]
        out = self.run(prepare + [f"SET vcz.backend = '{backend}'"] + [query] * repeats)
        elapsed = [float(match[1]) for line in out.splitlines() if (match := ELAPSED.match(line))][-repeats:]
        return statistics.median(elapsed[2:] or elapsed), elapsed[0]

    def alone(self, query):
        """Seconds on the device for copying, decoding and counting, batches one after the other."""
        statements = ["SET vcz.backend = 'gpu'", query, query, *[f"EXPLAIN ANALYZE {query}"] * 5]
        out = self.run(statements, quiet=True, workers=1)
        found = {}
        for name in ("copy_time", "gpu_decode_time", "gpu_count_time"):
            seconds = [float(value) * UNITS[unit] for value, unit in re.findall(rf"\b{name}=([0-9.]+)(ns|µs|ms|s)\b", out)]
            found[name] = statistics.median(seconds) if len(seconds) == 5 else float("nan")
        return found

    def cold(self, backend, query):
        times = []
        for _ in range(5):
            start = time.perf_counter()
            self.run([f"SET vcz.backend = '{backend}'", query], quiet=True)
            times.append(time.perf_counter() - start)
        return statistics.median(times)


def simulate(work, name, options):
    store = work / f"{name}.vcz"
    if not store.exists():
        script = HERE.parent / "simulate" / "simulate.py"
        subprocess.run([sys.executable, script, store, *options], check=True, stdout=subprocess.DEVNULL)
    return store, work / f"{name}.populations.tsv"


def repeat(store, target, times, link):
    """The same variants `times` times: chunk files linked (or copied), metadata with that many more variants."""
    if target.exists():
        return target
    place = os.link if link else shutil.copyfile
    target.mkdir(parents=True)
    metadata = {}
    for entry in sorted(store.iterdir()):
        if not entry.is_dir():
            continue
        array = json.loads((entry / ".zarray").read_text())
        attributes = json.loads((entry / ".zattrs").read_text()) if (entry / ".zattrs").exists() else {}
        over_variants = attributes.get("_ARRAY_DIMENSIONS", [""])[0] == "variants"
        if entry.name == "region_index" or (over_variants and entry.name not in ("call_genotype", "variant_position", "variant_contig", "variant_allele")):
            continue
        (target / entry.name).mkdir()
        chunks = -(-array["shape"][0] // array["chunks"][0])
        if over_variants:
            # Whole chunks only, so that each starts where one ended.
            whole = array["shape"][0] // array["chunks"][0]
            array["shape"][0] = whole * array["chunks"][0] * times
        for file in entry.iterdir():
            if file.name.startswith(".z"):
                continue
            first, *rest = file.name.split(".")
            if not over_variants:
                place(file, target / entry.name / file.name)
                continue
            if int(first) >= whole:
                continue
            for copy in range(times):
                place(file, target / entry.name / ".".join([str(int(first) + copy * whole), *rest]))
        (target / entry.name / ".zarray").write_text(json.dumps(array))
        (target / entry.name / ".zattrs").write_text(json.dumps(attributes))
        metadata[f"{entry.name}/.zarray"], metadata[f"{entry.name}/.zattrs"] = array, attributes
    for name in (".zgroup", ".zattrs"):
        shutil.copyfile(store / name, target / name)
        metadata[name] = json.loads((store / name).read_text())
    (target / ".zmetadata").write_text(json.dumps({"zarr_consolidated_format": 1, "metadata": metadata}))
    return target


class Report:
    def __init__(self):
        self.failed = 0

    def row(self, store, query, **values):
        target = values.pop("target", None)
        met = values.pop("met", None)
        cells = "; ".join(f"{key} {value}" for key, value in values.items())
        verdict = "" if met is None else (" **PASS**" if met else " **MISSED**")
        self.failed += met is False
        print(f"| {store} | {query} | {cells} | {target or ''}{verdict} |", flush=True)


def ms(seconds):
    return f"{seconds * 1e3:.1f} ms"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vcz", required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--only", default="", help="names of parts, separated by commas")
    parser.add_argument("--devices", default="all")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    parts = set(filter(None, arguments.only.split(",")))
    wanted = lambda part: not parts or part in parts  # noqa: E731
    report = Report()
    tools, seconds = {}, {}
    for name, (options, _) in STORES.items():
        if wanted(name) or (name in ("w1", "w2") and (wanted("regions") or wanted("long") or wanted("cold"))):
            store, populations = simulate(arguments.work, name, options)
            tools[name] = Tool(arguments.vcz, store, populations, arguments.devices)
    print("| store | query | seconds | target |\n| --- | --- | --- | --- |")
    for name in ("w1", "w2", "w1m", "w1a"):
        if not wanted(name):
            continue
        tool, window = tools[name], STORES[name][1]
        queries = {"six windowed statistics": windows(window), "both SFS": SFS}
        if name == "w2":
            queries["project_joint_sfs 200 × 200"] = "SELECT project_joint_sfs(call_genotype, 'first', 'second', 200, 200) FROM w"
        for label, query in queries.items():
            if tool.answer("gpu", query) != tool.answer("host", query):
                print(f"{name}: {label}: the GPU's answer differs from the host's", file=sys.stderr)
                report.failed += 1
            gpu, first = tool.warm("gpu", query)
            host, _ = tool.warm("host", query, 5)
            auto, _ = tool.warm("auto", query)
            if name == "w1":
                seconds[label] = gpu
            values = dict(gpu=ms(gpu), first=ms(first), host=ms(host), auto=ms(auto))
            alone = tool.alone(query)
            total = sum(alone.values())
            values["alone"] = f"{ms(total)} (" + " + ".join(ms(part) for part in alone.values()) + ")"
            values["ratio"] = f"{gpu / total:.2f}"
            if name == "w1a":
                report.row(name, label, **values, target="auto ≤ 1.2 × the better, ≤ 200 ms", met=auto <= 1.2 * min(gpu, host) and auto <= 0.2)
            elif label.startswith("project"):
                report.row(name, label, **values, target="≤ 40 ms", met=gpu <= 0.04)
            elif name == "w1m":
                met = gpu <= 2 * seconds[label] if label in seconds else None
                report.row(name, label, **values, target="≤ 2 × w1", met=met)
            else:
                report.row(name, label, **values, target="≤ 3.5 × alone", met=gpu <= 3.5 * total)
    if wanted("regions"):
        tool = tools["w1"]
        region = "EXPLAIN ANALYZE SELECT call_genotype FROM w WHERE variant_position BETWEEN 1000001 AND 2000000"
        # By turns: sessions differ by more than backends do.
        sessions = [{backend: tool.warm(backend, region)[0] for backend in ("gpu", "host", "auto")} for _ in range(3)]
        times = {backend: statistics.median(session[backend] for session in sessions) for backend in sessions[0]}
        best = min(times["gpu"], times["host"])
        report.row("w1", "call_genotype of 1 Mb", **{k: ms(v) for k, v in times.items()}, target="auto ≥ 0.9 × the better", met=best / times["auto"] >= 0.9)
        samples = tool.populations.read_text().split("\n")[1 : 1 + 73]
        listed = ", ".join(f"'{line.split(chr(9))[0]}'" for line in samples)
        select = f"EXPLAIN ANALYZE SELECT select_samples(call_genotype, [{listed}]) FROM w"
        times = {backend: tool.warm(backend, select, 15)[0] for backend in ("gpu", "host", "auto")}
        report.row("w1", "select_samples of 5 %", **{k: ms(v) for k, v in times.items()}, target="≥ 3 × the host", met=times["host"] / times["gpu"] >= 3)
    if wanted("cold"):
        cold = {backend: tools["w1"].cold(backend, windows(50_000)) for backend in ("auto", "host", "gpu")}
        report.row("w1", "windowed statistics, cold process", **{k: ms(v) for k, v in cold.items()}, target="auto ≤ 0.25 s", met=cold["auto"] <= 0.25)
    if wanted("long"):
        for label, times, link in (("linked", 400, True), ("copied", 40, False)):
            store = repeat(tools["w2"].store, arguments.work / f"w2x{times}.{label}.vcz", times, link)
            tool = Tool(arguments.vcz, store, tools["w2"].populations, arguments.devices)
            # The same sites again and again: no windows, which would need sorted positions.
            query = (
                "SELECT diversity(call_genotype, 'first') pi1, diversity(call_genotype, 'second') pi2, theta_w(call_genotype, 'first') tw, "
                "tajimas_d(call_genotype, 'first') d, divergence(call_genotype, 'first', 'second') dxy, fst_hudson(call_genotype, 'first', 'second') fst FROM w"
            )
            gpu, first = tool.warm("gpu", query, 4)
            report.row(f"w2 × {times}, {label}", "all statistics", gpu=ms(gpu), first=ms(first), target="≤ 2.5 s" if link else None, met=gpu <= 2.5 if link else None)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
