"""Asks every tool the same four questions of the same simulated genotypes, checks that they agree, prints times and ratios.

    python compare.py --vcz target/release/vcz --stores DIRECTORY --sgkit-python venv-sgkit/bin/python [--rounds 5] [--json FILE]

Questions, of 2,940 haplotypes x 100,000 variants (`--store` takes another store of targets.py, biallelic ones only):

  sfs          the spectra of `first` and `second`, half of the samples each
  joint_sfs    the joint spectrum of 400 and 400 haplotypes
  windows      diversity of both, divergence and Hudson's FST of those in windows of 100 kb
  frequencies  the frequency of the derived allele of each variant in `first` and `second`

vcz, bcftools and plink2 are timed as whole processes, the Python tools without importing and compiling: each has asked itself every
question once before. All run on one thread. bcftools reads a BCF and plink2 a PGEN of the same genotypes, converted beforehand.
Where a tool is not installed, or has no answer to a question, the table says so.
"""

import argparse
import json
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

import process
from decode_speed import open_array
from python_peers import members
from targets import STORES, cpu_name, simulate

QUESTIONS = ("sfs", "joint_sfs", "windows", "frequencies")
SQL = {
    "sfs": "SELECT sfs(call_genotype, 'first') AS a, sfs(call_genotype, 'second') AS b FROM t",
    "joint_sfs": "SELECT joint_sfs(call_genotype, 'first_200', 'second_200') AS a FROM t",
    "windows": """SELECT diversity(call_genotype, 'first_200') AS pi_1, diversity(call_genotype, 'second_200') AS pi_2,
        divergence(call_genotype, 'first_200', 'second_200') AS dxy, fst_hudson(call_genotype, 'first_200', 'second_200') AS fst
        FROM t GROUP BY genome_bin(variant_position, 100000) ORDER BY genome_bin(variant_position, 100000)""",
    "frequencies": """COPY (SELECT allele_frequencies(allele_counts(call_genotype, 'first'))[2] AS a,
        allele_frequencies(allele_counts(call_genotype, 'second'))[2] AS b FROM t) TO '{out}' OPTIONS ('format.has_header' 'false')""",
}


class Vcz:
    def __init__(self, binary, store, directory):
        self.binary, self.store = binary, store
        self.out = directory / "vcz.csv"

    def ask(self, question):
        self.out.unlink(missing_ok=True)
        statements = [*process.table("t", self.store), SQL[question].format(out=self.out)]
        run = process.vcz(self.binary, statements, "-q")
        if question == "frequencies":
            return run.wall, [np.loadtxt(self.out, delimiter=",")]
        rows = run.rows()[-1]
        if question == "windows":
            return run.wall, [np.array([list(row.values()) for row in rows])]
        return run.wall, [np.array(value) for value in rows[0].values()]


class PythonPeer:
    """A server process of python_peers.py, which runs every query once."""

    def __init__(self, python, name, store):
        script = pathlib.Path(__file__).with_name("python_peers.py")
        self.process = subprocess.Popen(
            [python, str(script), name, str(store)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.read(name)
        for question in QUESTIONS:
            self.ask(question)

    def read(self, what):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"python_peers.py stopped at {what}, see above")
        return json.loads(line)

    def ask(self, question):
        print(question, file=self.process.stdin, flush=True)
        reply = self.read(question)
        with np.load(reply["result"]) as result:
            return reply["seconds"], list(result.values())


def shell(command):
    start = time.perf_counter()
    done = subprocess.run(["bash", "-c", f"set -euo pipefail; {command}"], capture_output=True)
    if done.returncode:
        sys.exit(f"{command}\n{done.stdout.decode()[-2000:]}{done.stderr.decode()[-2000:]}")
    return time.perf_counter() - start, done.stdout


def write_bcf(store, path):
    """The genotypes of a store as BCF, by way of VCF text into bcftools."""
    import zarr

    array, group = open_array(store), zarr.open_group(store, mode="r")
    position, alleles = group["variant_position"][:], group["variant_allele"][:]
    codes = np.frombuffer(b"01.", dtype=np.uint8)  # of 0, 1 and -1
    header = ["##fileformat=VCFv4.3", f"##contig=<ID=1,length={position[-1]}>", '##FORMAT=<ID=GT,Number=1,Type=String,Description="GT">']
    fixed = "#CHROM POS ID REF ALT QUAL FILTER INFO FORMAT".split()
    with subprocess.Popen(["bcftools", "view", "-Ob", "-o", str(path), "-"], stdin=subprocess.PIPE) as bcftools:
        out = bcftools.stdin
        out.write(("\n".join(header) + "\n" + "\t".join([*fixed, *group["sample_id"][:]]) + "\n").encode())
        for start in range(0, array.shape[0], array.chunks[0]):
            genotypes = array[start : start + array.chunks[0]]
            text = np.full((*genotypes.shape[:2], 4), ord("\t"), dtype=np.uint8)
            text[..., [0, 2]] = codes[genotypes]
            text[..., 1] = ord("|")
            text[:, -1, 3] = ord("\n")
            for row, calls in enumerate(text, start):
                out.write(f"1\t{position[row]}\tv{row}\t{alleles[row][0]}\t{alleles[row][1]}\t.\tPASS\t.\tGT\t".encode())
                out.write(calls.tobytes())
    if bcftools.returncode:
        sys.exit("bcftools view failed")


class Bcftools:
    """Counts by population with the plugin fill-tags, as text; the spectra are counted by awk."""

    def __init__(self, bcf, store, directory):
        self.bcf, self.groups = bcf, directory / "groups.txt"
        self.populations = members(store)
        two = [(i, name) for name in ("first", "second") for i in self.populations[name]]
        self.groups.write_text("".join(f"s{i:06}\t{name}\n" for i, name in two))

    def ask(self, question):
        tags = {"sfs": "AC,AN", "frequencies": "AF"}.get(question)
        if tags is None:
            return None
        fill = f"bcftools +fill-tags {self.bcf} -Ou -- -t {tags} -S {self.groups}"
        if question == "frequencies":
            seconds, text = shell(f"{fill} | bcftools query -f '%AF_first\\t%AF_second\\n'")
            return seconds, [np.array(text.split(), dtype=float).reshape(-1, 2)]
        seconds, text = shell(
            f"{fill} | bcftools query -f '%AC_first\\t%AN_first\\t%AC_second\\t%AN_second\\n'"
            " | awk '{a[$1,$2]++; b[$3,$4]++} END {for (k in a) print 0, k, a[k]; for (k in b) print 1, k, b[k]}' SUBSEP=' '"
        )
        sizes = [2 * len(self.populations[name]) for name in ("first", "second")]
        spectra = [np.zeros(n + 1, dtype=int) for n in sizes]
        for which, ac, an, sites in np.array(text.split(), dtype=int).reshape(-1, 4):
            if an == sizes[which]:
                spectra[which][ac] = sites
        return seconds, spectra


class Plink:
    """Counts by population with --freq, once for each of two categories."""

    def __init__(self, bcf, store, directory):
        self.prefix, self.out = directory / "plink", directory / "freq"
        self.populations = members(store)
        categories = directory / "categories.txt"
        lines = [f"s{i:06}\t{name}\n" for name in ("first", "second") for i in self.populations[name]]
        categories.write_text("#IID\tPOP\n" + "".join(lines))
        shell(f"plink2 --bcf {bcf} --make-pgen --threads 1 --out {self.prefix}")
        self.command = f"plink2 --pfile {self.prefix} --pheno {categories} --loop-cats POP --threads 1 --out {self.out} --freq"

    def ask(self, question):
        if question not in ("sfs", "frequencies"):
            return None
        counts = question == "sfs"
        seconds, _ = shell(f"{self.command} {'counts' if counts else ''} cols=altfreq,nobs")
        columns = []
        for name in ("first", "second"):
            path = f"{self.out}.{name}.{'acount' if counts else 'afreq'}"
            columns.append(np.loadtxt(path, comments="#", usecols=(-2, -1)))
        if not counts:
            return seconds, [np.stack([table[:, 0] for table in columns], axis=1)]
        out = []
        for name, table in zip(("first", "second"), columns):
            n = 2 * len(self.populations[name])
            out.append(np.bincount(table[table[:, 1] == n, 0].astype(int), minlength=n + 1))
        return seconds, out


def agree(question, mine, theirs):
    """Counts must be equal; bcftools and plink2 print frequencies with six digits."""
    for a, b in zip(mine, theirs, strict=True):
        exact = question in ("sfs", "joint_sfs")
        if a.shape != b.shape or not (np.array_equal(a, b) if exact else np.allclose(a, b, rtol=1e-5, atol=1e-9)):
            return False
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vcz", required=True, help="the vcz binary, optimised")
    parser.add_argument("--stores", type=pathlib.Path, required=True, help="where the simulated stores are, or will be")
    parser.add_argument("--store", choices=[s for s in STORES if s not in ("ag_missing", "ag_v3")], default="ag_third")
    parser.add_argument("--sgkit-python", help="the Python of an environment with requirements-sgkit.txt")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=pathlib.Path, help="keep the figures in this file")
    args = parser.parse_args()
    store = simulate(args.stores.absolute(), args.store)
    array = open_array(store)
    with tempfile.TemporaryDirectory() as directory:
        directory = pathlib.Path(directory)
        tools = {"vcz": Vcz(args.vcz, store, directory)}
        for name in ("numpy", "scikit-allel"):
            tools[name] = PythonPeer(sys.executable, name, store)
        skipped = []
        if args.sgkit_python:
            tools["sgkit"] = PythonPeer(args.sgkit_python, "sgkit", store)
        else:
            skipped.append("sgkit: no --sgkit-python")
        if shutil.which("bcftools"):
            bcf = directory / "store.bcf"
            write_bcf(store, bcf)
            tools["bcftools"] = Bcftools(bcf, store, directory)
            if shutil.which("plink2"):
                tools["plink2"] = Plink(bcf, store, directory)
            else:
                skipped.append("plink2: not installed")
        else:
            skipped.append("bcftools: not installed; plink2: needs bcftools, for the conversion")
        for line in skipped:
            print(f"SKIPPED {line}", file=sys.stderr)
        times = {}
        for question in QUESTIONS:
            for number in range(args.rounds):
                for name, tool in tools.items():
                    if (reply := tool.ask(question)) is None:
                        continue
                    seconds, result = reply
                    times.setdefault((question, name), []).append(seconds)
                    if name == "vcz":
                        mine = result
                    elif not agree(question, mine, result):
                        sys.exit(f"{question}: vcz and {name} do not agree")
            print(f"{question}: all agree", file=sys.stderr, flush=True)
    calls = int(np.prod(array.shape))
    print(
        f"{store.name}: {array.shape[0]:,} variants x {array.shape[1] * array.shape[2]:,} haplotypes; {cpu_name()}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}; one thread each; medians of {args.rounds} rounds; all answers agree\n"
    )
    print("| question | tool | seconds | G calls/s | times vcz |\n| --- | --- | ---: | ---: | ---: |")
    for question in QUESTIONS:
        for name in tools:
            if (question, name) not in times:
                print(f"| {question} | {name} | does not answer it | | |")
                continue
            seconds = statistics.median(times[question, name])
            ratio = seconds / statistics.median(times[question, "vcz"])
            print(f"| {question} | {name} | {seconds:.3f} | {calls / seconds / 1e9:.2f} | {ratio:.1f} |")
    for line in skipped:
        print(f"\nSKIPPED {line}")
    if args.json:
        figures = {f"{question}, {name}": statistics.median(seen) for (question, name), seen in times.items()}
        args.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
