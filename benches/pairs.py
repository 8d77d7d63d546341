"""Pairs of samples and of sites against plink2, numpy, scikit-allel and a plain loop, on one thread: checks the answers, then prints times.

    python benches/pairs.py --vcz VCZ --work FOLDER [--rounds 5] [--only king grm …]

VCZ is an optimised binary. FOLDER keeps the stores: `ag`, 2,940 haplotypes × 100,000 sites of the simulator (benches/simulate), and `unlinked`, as many
independent sites 100 bases apart, whose rarer allele has a frequency of 1 % or more. Needs the packages of benches/peers/requirements.txt. A peer that
is not installed is named as skipped.

Times of vcz are of whole statements in a warm process, with one partition on the host; those of plink2 are of whole processes, which read
PGEN files that were converted before. All take turns in each round, and medians of the rounds count. Exit status 1 if an answer differs or a target is missed.

  king        all pairs of individuals of a kinship of 0.0884 or more: vcz_sample_pairs, and --make-king-table with that filter
  sample_pairs   the same with the aggregate, which makes a value of all pairs
  haplotypes  haplotype_pairs, and a loop over the words of two haplotypes that counts the bits that differ (cc -O3 -march=native)
  grm         grm, and --make-rel; and numpy's products (OpenBLAS) of standardised dosages in blocks, which plink2 has where it is built with OpenBLAS
  pca         pca of 10 components, and --pca 10
  local       two components of the covariance in each window of 1,000 sites, and numpy's eigenvectors of the products of a window's rows, of which there are
              fewer than individuals
  prune       vcz_ld_prune of 1,000 sites and an r² of 0.2, and --indep-pairwise 1000 1 0.2: no pair is above it, so every pair is compared
  r2          mean_r2_genotypes of 2,000 sites, and scikit-allel's rogers_huff_r
  decay       ld_decay of 1,000 sites in ten bins: no peer, in pairs a second
  threads     sample_pairs, grm and ld_decay with as many partitions as cores, against one
"""

import argparse
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}

import numpy as np  # noqa: E402
import zarr  # noqa: E402

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE / "peers"), str(HERE / "simulate")]
import layout  # noqa: E402
import process  # noqa: E402
from targets import cpu_name  # noqa: E402

SAMPLES, VARIANTS, SPACING, WINDOW = 1470, 100_000, 100, 1_000
LEAST = 0.0884
KING = f"SELECT count(*) AS n FROM vcz_sample_pairs('t', {LEAST})"
KINSHIP = "kinship_king(p['het_het'], p['opposite'], p['het1'], p['het2'])"
AGGREGATE = f"SELECT count(*) AS n FROM (SELECT unnest(sample_pairs(call_genotype)) AS p FROM t) WHERE {KINSHIP} >= {LEAST}"
HAPLOTYPES = "SELECT sum(p['differences']) AS n FROM (SELECT unnest(haplotype_pairs(call_genotype)) AS p FROM t)"
GRM = "SELECT count(*) AS n FROM (SELECT unnest(grm(call_genotype)) AS p FROM t) WHERE p['gcta'] > 0.1 AND p['sample1'] <> p['sample2']"
PCA = "SELECT pca(call_genotype, 10)['eigenvalues'] AS n FROM t"
LOCAL = "pca(call_genotype, 2, 'covariance')"
BASES = (WINDOW - 1) * SPACING
PRUNE = f"SELECT count(*) AS n FROM vcz_ld_prune('t', {BASES}, 0.2)"
R2 = f"SELECT mean_r2_genotypes(call_genotype) AS n FROM t WHERE variant_position <= {2_000 * SPACING}"
EDGES = [bin * BASES // 10 for bin in range(10)] + [BASES + 1]
DECAY = f"SELECT ld_decay(call_genotype, variant_position, {EDGES}) AS n FROM t"
PAIRS = (WINDOW - 1) * VARIANTS - (WINDOW - 1) * WINDOW // 2

LOOP = """
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
int main(int argc, char **argv) {
    size_t n = atol(argv[2]), words = atol(argv[3]);
    uint64_t *bits = malloc(n * words * 8), total = 0;
    FILE *file = fopen(argv[1], "rb");
    if (!bits || !file || fread(bits, 8, n * words, file) != n * words) return 1;
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (size_t from = 0; from < words; from += 256) {
        size_t to = from + 256 < words ? from + 256 : words;
        for (size_t i = 0; i < n; i++)
            for (size_t j = i + 1; j < n; j++) {
                uint64_t differ = 0;
                for (size_t w = from; w < to; w++) differ += __builtin_popcountll(bits[i * words + w] ^ bits[j * words + w]);
                total += differ;
            }
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("%f %lu\\n", end.tv_sec - start.tv_sec + 1e-9 * (end.tv_nsec - start.tv_nsec), total);
}
"""


def make_unlinked(path):
    """Independent sites of any frequency from 1 % to a half, like 1 / frequency."""
    rng = np.random.default_rng(1)
    ids = np.array([f"s{i:06}" for i in range(SAMPLES)], dtype=object)
    whole = path.with_suffix(".part")
    with layout.Store(whole, "default", VARIANTS, ids, 2, 1_000, 10_000) as store:
        for block in range(VARIANTS // 1_000):
            frequency = 0.01 * 50 ** rng.random((1_000, 1), dtype=np.float32)
            genotypes = (rng.random((1_000, 2 * SAMPLES), dtype=np.float32) < frequency).astype(np.int8)
            positions = (1 + np.arange(block * 1_000, (block + 1) * 1_000) * SPACING).astype(np.int32)
            alleles = np.full((1_000, 2), ["A", "C"], dtype=object)
            store.put(block, positions, alleles, genotypes.reshape(1_000, SAMPLES, 2), {})
        store.finish(contig_length=VARIANTS * SPACING)
    whole.rename(path)


def make_store(work, name):
    path = work / f"{name}.vcz"
    if not path.exists() and name == "unlinked":
        make_unlinked(path)
    elif not path.exists():
        arguments = ["--haplotypes", str(2 * SAMPLES), "--variants", str(VARIANTS)]
        subprocess.run([sys.executable, str(HERE / "simulate/simulate.py"), str(path), *arguments], check=True, stdout=subprocess.DEVNULL)
    everyone = work / "everyone.tsv"
    lines = [f"s{i:06}\teveryone" for i in range(SAMPLES)]
    everyone.write_text("\n".join(["sample_id\tpopulation", *lines]) + "\n")
    return path


def blocks(store):
    genotypes = zarr.open_group(store, mode="r")["call_genotype"]
    for start in range(0, genotypes.shape[0], genotypes.chunks[0]):
        yield genotypes[start : start + genotypes.chunks[0]]


class Plink2:
    """The genotypes of a store as a PGEN."""

    def __init__(self, store):
        self.prefix = store.with_suffix("")
        if not self.prefix.with_suffix(".pgen").exists():
            self.convert(store)

    def convert(self, store):
        positions = zarr.open_group(store, mode="r")["variant_position"][:]
        with self.prefix.with_suffix(".bed").open("wb") as bed:
            bed.write(bytes([0x6C, 0x1B, 1]))
            for block in blocks(store):
                # Two bits: 3, 2 and 0 for 0, 1 and 2 copies of the alternate allele.
                codes = np.array([3, 2, 0], dtype=np.uint8)[block.sum(axis=2)]
                codes = np.pad(codes, ((0, 0), (0, -SAMPLES % 4))).reshape(len(codes), -1, 4)
                bed.write((codes << np.array([0, 2, 4, 6], dtype=np.uint8)).sum(axis=2, dtype=np.uint8).tobytes())
        lines = (f"1\tv{row}\t0\t{position}\tC\tA\n" for row, position in enumerate(positions))
        self.prefix.with_suffix(".bim").write_text("".join(lines))
        self.prefix.with_suffix(".fam").write_text("".join(f"0\ts{i:06}\t0\t0\t0\t-9\n" for i in range(SAMPLES)))
        self.run(self.prefix, "--make-pgen", source="--bfile")
        self.prefix.with_suffix(".bed").unlink()

    def run(self, out, *options, source="--pfile"):
        command = ["plink2", source, self.prefix, "--threads", "1", "--out", out, *options]
        start = time.perf_counter()
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{command}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return time.perf_counter() - start


class Vcz:
    def __init__(self, binary, store):
        self.binary, self.store = binary, store

    def statements(self, partitions):
        populations = self.store.parent / "everyone.tsv"
        return ["SET vcz.backend = 'host'", *process.table("t", self.store, partitions, populations)]

    def seconds(self, query, partitions=1, runs=2):
        """The least of some runs, after one that is left out."""
        run = process.vcz(self.binary, [*self.statements(partitions), *[query] * (runs + 1)])
        return min(run.seconds[-runs:])

    def answer(self, query, partitions=1):
        run = process.vcz(self.binary, [*self.statements(partitions), query], "-q", "--maxrows", "inf")
        return run.rows()[-1][0]["n"]

    def column(self, query, folder):
        path = folder / "column.csv"
        path.unlink(missing_ok=True)
        copy = f"COPY ({query}) TO '{path}' STORED AS CSV OPTIONS ('format.has_header' 'false')"
        process.vcz(self.binary, [*self.statements(1), copy], "-q")
        return np.loadtxt(path, delimiter=",", ndmin=2)


class Bench:
    def __init__(self, args):
        self.args, self.rows, self.missed = args, [], 0
        self.plink2 = shutil.which("plink2")
        self.stores, self.converted = {}, {}

    def store(self, name):
        if name not in self.stores:
            self.stores[name] = make_store(self.args.work, name)
        return self.stores[name]

    def vcz(self, name):
        return Vcz(self.args.vcz, self.store(name))

    def pgen(self, name):
        if name not in self.converted:
            self.converted[name] = Plink2(self.store(name))
        return self.converted[name]

    def check(self, what, agree, details=""):
        if not agree:
            self.missed += 1
            print(f"{what}: THE ANSWERS DIFFER {details}", flush=True)

    def skipped(self, question, peer):
        print(f"NOT RUN: {question} against {peer}, which is not installed", flush=True)

    def times(self, *ways):
        """The median time of each way, all of which take turns."""
        seen = [[] for _ in ways]
        for _ in range(self.args.rounds):
            for way, times in zip(ways, seen):
                times.append(way())
        return [statistics.median(times) for times in seen]

    def add(self, question, ours, peer, theirs, least, pairs=None):
        """`least`: a ratio of the peer's time to ours."""
        ratio = theirs / ours if theirs else None
        met = None if ratio is None or least is None else ratio >= least
        self.missed += met is False
        rate = f"{pairs / ours / 1e6:.0f}" if pairs else ""
        cells = [question, f"{ours:.3f}", rate, peer, f"{theirs:.3f}" if theirs else "", f"{ratio:.2f}" if ratio else ""]
        cells += [f"{least:g}" if least else "", {None: "", True: "yes", False: "NO"}[met]]
        self.rows.append(cells)
        print("| " + " | ".join(cells) + " |", flush=True)

    def king(self):
        if not self.plink2:
            return self.skipped("king", "plink2")
        vcz, pgen, out = self.vcz("ag"), self.pgen("ag"), self.args.work / "king"
        pgen.run(out, "--make-king", "triangle", "bin")
        theirs = np.fromfile(f"{out}.king.bin")
        ours = vcz.column("SELECT kinship FROM vcz_sample_pairs('t')", self.args.work)[:, 0]
        # Pairs of the lower triangle, by rows, and ours of the upper.
        first, second = np.triu_indices(SAMPLES, k=1)
        theirs = theirs[second * (second - 1) // 2 + first]
        self.check("king", np.allclose(ours, theirs, rtol=0, atol=1e-9), np.abs(ours - theirs).max())
        related = int((theirs >= LEAST).sum())
        for question, query in {"king": KING, "sample_pairs": AGGREGATE}.items():
            if question in self.args.only:
                self.check(question, vcz.answer(query) == related)
                table = lambda: pgen.run(out, "--make-king-table", "--king-table-filter", LEAST)  # noqa: E731
                mine, peer = self.times(lambda: vcz.seconds(query), table)
                self.add(question, mine, "plink2", peer, 3 if question == "king" else None, SAMPLES * (SAMPLES - 1) / 2 * VARIANTS)

    def haplotypes(self):
        if not shutil.which("cc"):
            return self.skipped("haplotypes", "a C compiler")
        vcz, work = self.vcz("ag"), self.args.work
        rows = np.concatenate([block.reshape(len(block), -1) for block in blocks(vcz.store)])
        bits = np.packbits(rows.T, axis=1, bitorder="little")
        words = -(-VARIANTS // 64)
        np.pad(bits, ((0, 0), (0, 8 * words - bits.shape[1]))).tofile(work / "bits")
        (work / "loop.c").write_text(LOOP)
        subprocess.run(["cc", "-O3", "-march=native", "-o", str(work / "loop"), str(work / "loop.c")], check=True)
        command = [str(work / "loop"), str(work / "bits"), str(2 * SAMPLES), str(words)]
        loop = lambda: subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()  # noqa: E731
        self.check("haplotypes", vcz.answer(HAPLOTYPES) == int(loop()[1]))
        mine, peer = self.times(lambda: vcz.seconds(HAPLOTYPES), lambda: float(loop()[0]))
        self.add("haplotypes", mine, "a plain loop, bits in memory", peer, 0.8, SAMPLES * (2 * SAMPLES - 1) * VARIANTS)

    def numpy_grm(self, store):
        """Seconds and the lower triangle; dosages are in memory as bytes, and of a block as doubles."""
        dosages = [block.sum(axis=2, dtype=np.int8) for block in blocks(store)]
        start = time.perf_counter()
        total = np.zeros((SAMPLES, SAMPLES))
        for block in dosages:
            p = block.sum(axis=1, dtype=np.float64, keepdims=True) / (2 * SAMPLES)
            z = (block - 2 * p) / np.sqrt(2 * p * (1 - p))
            total += z.T @ z
        return time.perf_counter() - start, total[np.tril_indices(SAMPLES)] / VARIANTS

    def grm(self):
        vcz, out = self.vcz("ag"), self.args.work / "grm"
        ours = vcz.column("SELECT p['gcta'] FROM (SELECT unnest(grm(call_genotype)) AS p FROM t)", self.args.work)[:, 0]
        _, theirs = self.numpy_grm(vcz.store)
        self.check("grm, numpy", np.allclose(ours, theirs, rtol=0, atol=1e-9), np.abs(ours - theirs).max())
        mine, peer = self.times(lambda: vcz.seconds(GRM), lambda: self.numpy_grm(vcz.store)[0])
        self.add("grm", mine, "numpy with OpenBLAS", peer, 0.8)
        if not self.plink2:
            return self.skipped("grm", "plink2")
        pgen = self.pgen("ag")
        pgen.run(out, "--make-rel", "triangle", "bin")
        theirs = np.fromfile(f"{out}.rel.bin")
        self.check("grm", np.allclose(ours, theirs, rtol=0, atol=1e-9), np.abs(ours - theirs).max())
        peer = statistics.median(pgen.run(out, "--make-rel", "triangle", "bin") for _ in range(min(self.args.rounds, 2)))
        self.add("grm", mine, "plink2 with its BLAS", peer, 6)

    def pca(self):
        if not self.plink2:
            return self.skipped("pca", "plink2")
        vcz, pgen, out = self.vcz("ag"), self.pgen("ag"), self.args.work / "pca"
        peer = pgen.run(out, "--pca", 10)
        theirs = np.loadtxt(f"{out}.eigenval")
        self.check("pca", np.allclose(vcz.answer(PCA), theirs, rtol=1e-4))
        (mine,) = self.times(lambda: vcz.seconds(PCA))
        self.add("pca", mine, "plink2 with its BLAS", peer, None)

    def numpy_local(self, store):
        """Seconds, and the two largest eigenvalues of each window."""
        dosages = [block.sum(axis=2, dtype=np.int8) for block in blocks(store)]
        dosages = np.concatenate(dosages).reshape(-1, WINDOW, SAMPLES)
        start, found = time.perf_counter(), []
        for window in dosages:
            z = window - window.mean(axis=1, keepdims=True)
            z -= z.mean(axis=0)
            values, vectors = np.linalg.eigh(z @ z.T)
            components = z.T @ vectors[:, -2:]
            found.append(values[:-3:-1] / (WINDOW - 1))
            components /= np.linalg.norm(components, axis=0)
        return time.perf_counter() - start, np.array(found)

    def local(self):
        vcz = self.vcz("unlinked")
        windows = f"SELECT genome_bin(variant_position, {WINDOW * SPACING}) AS w, {LOCAL} AS p FROM t GROUP BY 1"
        ours = vcz.column(f"SELECT p['eigenvalues'][1], p['eigenvalues'][2] FROM ({windows}) ORDER BY w", self.args.work)
        peer, theirs = self.numpy_local(vcz.store)
        self.check("local", np.allclose(ours, theirs, rtol=1e-9), np.abs(ours / theirs - 1).max())
        (mine,) = self.times(lambda: vcz.seconds(f"SELECT sum(p['trace']) FROM ({windows})"))
        self.add("local", mine, "numpy with OpenBLAS", peer, None)

    def prune(self):
        if not self.plink2:
            return self.skipped("prune", "plink2")
        vcz, pgen, out = self.vcz("unlinked"), self.pgen("unlinked"), self.args.work / "prune"
        peer = pgen.run(out, "--indep-pairwise", WINDOW, 1, 0.2)
        kept = len(pathlib.Path(f"{out}.prune.in").read_text().split())
        self.check("prune", vcz.answer(PRUNE) == kept == VARIANTS, f"{kept} kept by plink2")
        (mine,) = self.times(lambda: vcz.seconds(PRUNE))
        self.add("prune", mine, "plink2", peer, 20, PAIRS)

    def r2(self):
        try:
            import allel
        except ImportError:
            return self.skipped("r2", "scikit-allel")
        vcz = self.vcz("unlinked")
        dosages = np.concatenate([block.sum(axis=2) for _, block in zip(range(2), blocks(vcz.store))]).astype(np.int8)
        wanted = np.mean(allel.rogers_huff_r(dosages).astype(np.float64) ** 2)
        found = vcz.answer(R2)
        self.check("r2", abs(found - wanted) < 1e-6 * wanted, f"{found} {wanted}")

        def peer():
            start = time.perf_counter()
            allel.rogers_huff_r(dosages)
            return time.perf_counter() - start

        mine, theirs = self.times(lambda: vcz.seconds(R2), peer)
        self.add("r2", mine, "scikit-allel, genotypes in memory", theirs, None, len(dosages) * (len(dosages) - 1) / 2)

    def decay(self):
        vcz = self.vcz("unlinked")
        found = vcz.answer(DECAY)
        self.check("decay", sum(bin["pairs"] for bin in found) == PAIRS)
        (mine,) = self.times(lambda: vcz.seconds(DECAY))
        self.add("decay", mine, "", None, None, PAIRS)

    def threads(self):
        cores = os.cpu_count()
        for question, store, query in (("sample_pairs", "ag", AGGREGATE), ("grm", "ag", GRM), ("decay", "unlinked", DECAY)):
            vcz = self.vcz(store)
            self.check(f"{question}, threads", vcz.answer(query, 1) == vcz.answer(query, cores))
            mine, one = self.times(lambda: vcz.seconds(query, cores), lambda: vcz.seconds(query, 1))  # noqa: B023
            self.add(f"{question}, {cores} partitions", mine, "one partition", one, None)


QUESTIONS = ["king", "sample_pairs", "haplotypes", "grm", "pca", "local", "prune", "r2", "decay", "threads"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vcz", required=True, help="the vcz binary, optimised")
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path(tempfile.gettempdir()) / "pairs", help="where the stores are, or will be")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=QUESTIONS, default=QUESTIONS)
    args = parser.parse_args()
    args.work = args.work.absolute()
    args.work.mkdir(parents=True, exist_ok=True)
    bench = Bench(args)
    print(f"{cpu_name()}, {os.cpu_count()} cores; {2 * SAMPLES:,} haplotypes x {VARIANTS:,} sites; medians of {args.rounds} rounds\n")
    print("| question | vcz, s | M pairs/s | peer | peer, s | ratio | target | met |")
    print("| --- | ---: | ---: | --- | ---: | ---: | ---: | --- |")
    for question in QUESTIONS:
        # The aggregate is asked with the table function, whose answer it must give.
        method = "king" if question == "sample_pairs" else question
        if question in args.only and not (question == "sample_pairs" and "king" in args.only):
            getattr(bench, method)()
    sys.exit(bench.missed > 0)


if __name__ == "__main__":
    main()
