"""The questions of compare.py in Python: by a hand-written loop over numcodecs, by scikit-allel, and by sgkit, on one thread.

Run as a server, since sgkit needs an environment of its own: `python python_peers.py TOOL STORE` reads a question a line, and writes
a line `{"seconds": …, "result": path of an .npz}` for each. Imports and numba's compilation are done before the clock starts.
"""

import itertools
import json
import os
import pathlib
import sys
import tempfile
import time
import warnings

import numpy as np

WINDOW = 100_000


def members(store):
    """name -> indices of its samples."""
    out = {}
    for line in store.with_suffix(".populations.tsv").read_text().splitlines()[1:]:
        sample, population = line.split("\t")
        out.setdefault(population, []).append(int(sample[1:]))
    return {name: np.array(samples) for name, samples in out.items()}


class Numpy:
    """A loop over chunks with numcodecs and numpy, as written by someone who knows the layout: biallelic, all called or missing."""

    def __init__(self, store):
        import numcodecs.blosc
        from decode_speed import Files, decoding_plan

        numcodecs.blosc.use_threads = False
        self.files = Files(store)
        self.plan = decoding_plan(self.files)
        self.position = self.read_1d("variant_position")

    def read_1d(self, name):
        import numcodecs

        meta = json.loads(self.files.read(f"{name}/.zarray"))
        codec, n, step = numcodecs.get_codec(meta["compressor"]), meta["shape"][0], meta["chunks"][0]
        parts = [codec.decode(self.files.read(f"{name}/{i}")) for i in range(-(-n // step))]
        return np.concatenate([np.frombuffer(part, dtype=meta["dtype"]) for part in parts])[:n]

    def counts(self, populations):
        """(variants, populations, 2): calls of alleles 0 and 1."""
        shape, chunks, dtype, (codec,), key = self.plan
        out = np.zeros((shape[0], len(populations), 2), dtype=np.int32)
        buffer = np.empty(np.prod(chunks), dtype=dtype)
        for i, j in itertools.product(*(range(-(-n // c)) for n, c in zip(shape[:2], chunks[:2]))):
            rows = slice(i * chunks[0], min((i + 1) * chunks[0], shape[0]))
            first = j * chunks[1]
            data = self.files.read(f"call_genotype/{key((i, j, 0))}")
            if data is None:
                buffer[:] = 0
            else:
                codec.decode(data, out=buffer)
            block = buffer.reshape(chunks)[: rows.stop - rows.start]
            for p, samples in enumerate(populations):
                mine = samples[(samples >= first) & (samples < min(first + chunks[1], shape[1]))] - first
                if len(mine) == 0:
                    continue
                contiguous = mine[-1] - mine[0] + 1 == len(mine)
                part = block[:, mine[0] : mine[-1] + 1] if contiguous else block[:, mine]
                part = part.reshape(len(part), -1)
                alt = np.add.reduce(part == 1, axis=1, dtype=np.int32)
                out[rows, p, 1] += alt
                out[rows, p, 0] += np.add.reduce(part == 0, axis=1, dtype=np.int32)
        return out

    def windows(self, ac1, ac2):
        site = [1 - (ac * (ac - 1.0)).sum(1) / ((n := ac.sum(1)) * (n - 1.0)) for ac in (ac1, ac2)]
        between = 1 - (ac1 * ac2.astype(float)).sum(1) / (ac1.sum(1) * ac2.sum(1).astype(float))
        bins = (self.position - 1) // WINDOW
        pi_1, pi_2, dxy = (np.bincount(bins, weights=w) for w in (*site, between))
        return np.stack([pi_1, pi_2, dxy, (dxy - (pi_1 + pi_2) / 2) / dxy], axis=1)


class Allel(Numpy):
    """scikit-allel as its documentation uses it: genotypes from zarr in blocks of a chunk, then its functions on allele counts."""

    def __init__(self, store):
        import allel
        import zarr
        from decode_speed import open_array

        zarr.config.set({"threading.max_workers": 1})
        self.allel = allel
        self.array = open_array(store)
        self.position = zarr.open_group(store, mode="r")["variant_position"][:]

    def counts(self, populations):
        subpopulations = {str(i): samples for i, samples in enumerate(populations)}
        parts = []
        for start in range(0, self.array.shape[0], self.array.chunks[0]):
            genotypes = self.allel.GenotypeArray(self.array[start : start + self.array.chunks[0]])
            counts = genotypes.count_alleles_subpops(subpopulations, max_allele=1)
            parts.append(np.stack([counts[str(i)] for i in range(len(populations))], axis=1))
        return np.concatenate(parts)

    def windows(self, ac1, ac2):
        where = dict(size=WINDOW, start=1, stop=int(self.position[-1]))
        sums = []
        for ac in (ac1, ac2):
            per_base, _, bases, _ = self.allel.windowed_diversity(self.position, ac, **where)
            sums.append(per_base * bases)
        per_base, _, bases, _ = self.allel.windowed_divergence(self.position, ac1, ac2, **where)
        fst, _, _ = self.allel.windowed_hudson_fst(self.position, ac1, ac2, **where)
        return np.stack([*sums, per_base * bases, fst], axis=1)


class Sgkit:
    """sgkit: cohorts, windows by position, and its statistics, computed by dask on this thread."""

    def __init__(self, store):
        import dask
        import numcodecs.blosc
        import sgkit

        dask.config.set(scheduler="synchronous")
        numcodecs.blosc.use_threads = False
        self.sgkit = sgkit
        self.store = store

    def dataset(self, populations):
        dataset = self.sgkit.load_dataset(self.store)
        # Its zarr 2 leaves memory uninitialised for absent chunks where fill_value is null, as bio2zarr writes it: one contig, so zeros.
        dataset["variant_contig"] = ("variants", np.zeros(dataset.sizes["variants"], dtype=np.int8))
        cohort = np.full(dataset.sizes["samples"], -1)
        for i, samples in enumerate(populations):
            cohort[samples] = i
        dataset["sample_cohort"] = ("samples", cohort)
        return dataset

    def counts(self, populations):
        return self.sgkit.count_cohort_alleles(self.dataset(populations)).cohort_allele_count.values[..., :2].astype(np.int64)

    def window_statistics(self, populations):
        dataset = self.sgkit.count_cohort_alleles(self.dataset(populations))
        # Its window statistics reject windows with more variants than a chunk, so the counts are rechunked to one chunk.
        dataset["cohort_allele_count"] = dataset.cohort_allele_count.chunk(variants=-1)
        dataset = self.sgkit.window_by_position(dataset, size=WINDOW, offset=1)
        dataset = self.sgkit.Fst(self.sgkit.divergence(self.sgkit.diversity(dataset)), estimator="Hudson")
        pi, dxy, fst = dataset[["stat_diversity", "stat_divergence", "stat_Fst"]].compute().data_vars.values()
        return np.stack([pi[:, 0], pi[:, 1], dxy[:, 0, 1], fst[:, 0, 1]], axis=1)


def spectrum(ac, copies):
    return np.bincount(ac[ac.sum(1) == copies, 1], minlength=copies + 1)


def answer(tool, question, populations):
    """The arrays that answer a question, for two populations (`first` and `second`, or the cohorts of 200)."""
    if question == "windows" and isinstance(tool, Sgkit):
        return [tool.window_statistics(populations)]
    counts = tool.counts(populations)
    ac1, ac2 = counts[:, 0], counts[:, 1]
    n1, n2 = (2 * len(samples) for samples in populations)
    if question == "sfs":
        return [spectrum(ac1, n1), spectrum(ac2, n2)]
    if question == "joint_sfs":
        complete = (ac1.sum(1) == n1) & (ac2.sum(1) == n2)
        cells = ac1[complete, 1].astype(np.int64) * (n2 + 1) + ac2[complete, 1]
        return [np.bincount(cells, minlength=(n1 + 1) * (n2 + 1)).reshape(n1 + 1, n2 + 1)]
    if question == "windows":
        return [tool.windows(ac1, ac2)]
    if question == "frequencies":
        return [np.stack([ac1[:, 1] / ac1.sum(1), ac2[:, 1] / ac2.sum(1)], axis=1)]
    raise ValueError(question)


def main():
    warnings.simplefilter("ignore")
    name, store = sys.argv[1], pathlib.Path(sys.argv[2])
    tool = {"numpy": Numpy, "scikit-allel": Allel, "sgkit": Sgkit}[name](store)
    populations = members(store)
    cohorts = {
        q: [populations[n] for n in (("first_200", "second_200") if q in ("joint_sfs", "windows") else ("first", "second"))]
        for q in ("sfs", "joint_sfs", "windows", "frequencies")
    }
    print(json.dumps("ready"), flush=True)
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "result.npz")
        for line in sys.stdin:
            start = time.perf_counter()
            result = answer(tool, line.strip(), cohorts[line.strip()])
            seconds = time.perf_counter() - start
            np.savez(path, *result)
            print(json.dumps(dict(seconds=seconds, result=path)), flush=True)


if __name__ == "__main__":
    main()
