"""Simulates a VCZ store in the layout that bio2zarr writes, of any size, from a seed.

    python simulate.py OUT.vcz --haplotypes 2940 --variants 300000
    python simulate.py OUT.vcz --haplotypes 100000 --variants 10000 --model human
    python simulate.py OUT.vcz --haplotypes 2940 --variants 300000 --missing 0.05 --multiallelic 0.03
    python simulate.py OUT.vcz --haplotypes 2940 --variants 300000 --missing 0.05 --calls
    python simulate.py OUT.vcz --haplotypes 2940 --variants 300000 --layout v3-zstd
    python simulate.py OUT.vcz --haplotypes 100 --variants 2000000 --variant-chunk 100        # 20,000 chunks

Genotypes are independent segments of a coalescent with recombination (models.py) laid one after the other on one contig. Same
arguments, same store, whatever `--jobs`. Beside the store, `OUT.populations.tsv` names the populations (see `populations`).
The store is written under another name and moved when it is whole; one that is there is kept, unless `--force`.
"""

import argparse
import concurrent.futures
import itertools
import os
import pathlib
import shutil
import sys
import time

import numpy as np

import layout
import models

BASES = np.array(["A", "C", "G", "T"], dtype=object)


def segment(seed, index, model, haplotypes, missing, multiallelic):
    """Segment number `index`: (positions from 0, as floats; genotypes (variants, haplotypes) int8; its length)."""
    ts = models.simulate(model, haplotypes, seed=seed * 1_000_003 + 2 * index + 1)
    genotypes = np.empty((ts.num_sites, haplotypes), dtype=np.int8)
    for row, variant in enumerate(ts.variants(copy=False)):
        genotypes[row] = variant.genotypes
    rng = np.random.default_rng([seed, index])
    if multiallelic:  # at some sites half of the derived copies carry another allele
        rows = np.flatnonzero(rng.random(ts.num_sites) < multiallelic)
        other = rng.integers(0, 2, size=(len(rows), haplotypes), dtype=np.int8)
        genotypes[rows] += genotypes[rows] * other
    if missing:  # both copies of an individual
        lost = rng.random((ts.num_sites, haplotypes // 2), dtype=np.float32) < missing
        genotypes[np.repeat(lost, 2, axis=1)] = -1
    return ts.tables.sites.position, genotypes, ts.sequence_length


def segments(args):
    """An endless sequence of segments in order, simulated ahead by `--jobs` processes."""
    options = (args.model, args.haplotypes, args.missing, args.multiallelic)
    with concurrent.futures.ProcessPoolExecutor(args.jobs) as pool:
        ahead = []
        for index in itertools.count():
            ahead.append(pool.submit(segment, args.seed, index, *options))
            if len(ahead) > args.jobs:
                try:
                    yield ahead.pop(0).result()
                except GeneratorExit:
                    for future in ahead:
                        future.cancel()
                    raise


def blocks(args):
    """(positions int32, genotypes) in blocks of --variant-chunk variants, the last one shorter, --variants in all."""
    held_positions, held_genotypes, held, left, offset = [], [], 0, args.variants, 0.0
    source = segments(args)
    while left:
        while held < min(args.variant_chunk, left):
            positions, genotypes, length = next(source)
            held_positions.append(positions + offset)
            held_genotypes.append(genotypes)
            held += len(positions)
            offset += length
        positions, genotypes = np.concatenate(held_positions), np.concatenate(held_genotypes)
        at = 0
        while left and held - at >= (n := min(args.variant_chunk, left)):
            yield positions[at : at + n], genotypes[at : at + n]
            at += n
            left -= n
        held_positions, held_genotypes, held = [positions[at:].copy()], [genotypes[at:].copy()], held - at
    source.close()


def depth_and_quality(rng, genotypes):
    """call_DP (int16) and call_GQ (int8) of (variants, individuals, 2) genotypes: Poisson depths around a mean of 12 to 28 for each
    individual, qualities of about three a read up to 99; both missing where the call is."""
    n, individuals = genotypes.shape[:2]
    means = 12 + 16 * np.linspace(0, 1, individuals)
    depth = rng.poisson(means, size=(n, individuals)).astype(np.int16)
    quality = np.clip(3 * depth + rng.integers(-9, 10, size=depth.shape), 0, 99).astype(np.int8)
    lost = (genotypes < 0).any(axis=2)
    depth[lost], quality[lost] = -1, -1
    return {"call_DP": depth, "call_GQ": quality}


def whole_positions(positions, last):
    """Rounded to whole bases from 1, each above the one before it (`last`: that of the block before)."""
    steps = np.arange(len(positions))
    wanted = np.maximum(np.floor(positions).astype(np.int64) + 1, last + 1)
    return (np.maximum.accumulate(wanted - steps) + steps).astype(np.int32)


def populations(individuals):
    """name -> range of individuals: the models put the samples of their first population in the first half."""
    half, tenth, cohort = individuals // 2, individuals // 10, min(200, individuals // 2)
    yield "first", range(half)
    yield "second", range(half, individuals)
    yield "first_200", range(cohort)
    yield "second_200", range(half, half + cohort)
    for i in range(10):
        yield f"tenth_{i}", range(i * tenth, (i + 1) * tenth)


def write(args, directory):
    individuals = args.haplotypes // 2
    samples = np.array([f"s{i:06}" for i in range(individuals)], dtype=object)
    alleles = 3 if args.multiallelic else 2
    rng = np.random.default_rng([args.seed, 2**32])
    summary = dict(derived=0, singletons=0, called=0)
    calls = np.random.default_rng([args.seed, 2**33])
    chunks = (args.variant_chunk, args.sample_chunk)
    with layout.Store(directory, args.layout, args.variants, samples, alleles, *chunks, calls=args.calls) as store:
        last = 0
        for number, (positions, genotypes) in enumerate(blocks(args)):
            n = len(positions)
            positions = whole_positions(positions, last)
            last = int(positions[-1])
            ref = rng.integers(0, 4, size=n)
            letters = [BASES[(ref + k) % 4] for k in range(alleles)]
            if alleles > 2:
                letters[2] = np.where((genotypes == 2).any(axis=1), letters[2], "")
            genotypes = genotypes.reshape(n, individuals, 2)
            fields = depth_and_quality(calls, genotypes) if args.calls else {}
            store.put(number, positions, np.stack(letters, axis=1), genotypes, fields)
            derived = (genotypes > 0).sum(axis=(1, 2))
            summary["derived"] += int(derived.sum())
            summary["singletons"] += int((derived == 1).sum())
            summary["called"] += int((genotypes >= 0).sum())
        store.finish(contig_length=last)
    return summary | dict(bases=last)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path, help="the directory store to write, by custom NAME.vcz")
    parser.add_argument("--haplotypes", type=int, required=True, help="an even number: individuals are diploid")
    parser.add_argument("--variants", type=int, required=True)
    parser.add_argument("--model", choices=models.MODELS, default="mosquito")
    parser.add_argument("--missing", type=float, default=0, help="fraction of calls (individuals at a site) that are missing")
    parser.add_argument("--multiallelic", type=float, default=0, help="fraction of sites with a second derived allele")
    parser.add_argument("--calls", action="store_true", help="also call_DP and call_GQ, depths and qualities of every call")
    parser.add_argument("--layout", choices=layout.LAYOUTS, default="default")
    parser.add_argument("--variant-chunk", type=int, default=1_000)
    parser.add_argument("--sample-chunk", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--force", action="store_true", help="replace a store that is there")
    args = parser.parse_args()
    if args.haplotypes < 20 or args.haplotypes % 2:
        parser.error("--haplotypes: an even number of at least 20, for ten populations of diploids")
    if args.variants < 1:
        parser.error("--variants: at least 1")
    args.out = args.out.absolute()
    return args


def main():
    args = arguments()
    if args.out.exists() and not args.force:
        sys.exit(print(f"{args.out}: there already, kept"))
    start = time.perf_counter()
    whole = args.out.with_name(f".{args.out.name}.{os.getpid()}")
    whole.parent.mkdir(parents=True, exist_ok=True)
    try:
        summary = write(args, whole)
        shutil.rmtree(args.out, ignore_errors=True)
        with open(args.out.with_suffix(".populations.tsv"), "w") as file:
            file.write("sample_id\tpopulation\n")
            for name, members in populations(args.haplotypes // 2):
                file.writelines(f"s{i:06}\t{name}\n" for i in members)
        whole.rename(args.out)
    finally:
        shutil.rmtree(whole, ignore_errors=True)
    print(
        f"{args.out.name}: {args.variants:,} variants x {args.haplotypes:,} haplotypes over {summary['bases']:,} bases, "
        f"mean derived frequency {summary['derived'] / max(summary['called'], 1):.4f}, "
        f"singletons {summary['singletons'] / args.variants:.1%}; {time.perf_counter() - start:.1f} s"
    )


if __name__ == "__main__":
    main()
