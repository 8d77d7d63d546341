"""Times `COPY … STORED AS VCZ` of a part of a store, against c-blosc compressing the same bytes with as many threads.

    python benches/write.py --vcz target/release/vcz --store ag.vcz --work DIRECTORY [--every 2] [--threads 8] [--format 2] [--rounds 5]

The part is the variants whose position is divisible by `--every`, so that no chunk of the store is one of the copy. c-blosc (numcodecs) compresses the
arrays over samples of the copy, decoded, chunk by chunk in a pool of threads, with the codecs of the copy (zstd, level 7); nothing is read or
written meanwhile. The same for the genotypes alone, and a copy with no other array over samples. All by turns. Prints the medians, the speeds of the copies as
fractions of those of c-blosc, and the peak of the memory of the process that copies (VmHWM). Exits with 1 if the copy has other genotypes than the store, a
speed is below 0.5 of that of c-blosc, or the peak is above 500 MB.

Needs numcodecs and zarr, and msprime for a store `--store` that is not there, which is then simulated: 2,940 haplotypes at `--variants` sites
(benches/simulate). With 8 threads, from nothing:

    python3 -m venv venv && venv/bin/pip install -r benches/peers/requirements.txt
    cargo build --release --bin vcz
    venv/bin/python benches/write.py --vcz target/release/vcz --store ag.vcz --work copies --threads 8
"""

import argparse
import concurrent.futures
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

import numcodecs
import numcodecs.blosc
import numpy as np
import zarr

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "peers"))
import process  # noqa: E402

LEAST_SPEED = 0.5
MOST_MEMORY = 500e6


def group(path):
    return zarr.open_group(zarr.storage.ZipStore(path, mode="r") if path.is_file() else str(path), mode="r")


def write(args, target, columns="*"):
    """Seconds of one copy, and the peak of its process in bytes."""
    shutil.rmtree(target, ignore_errors=True)
    copy = (
        f"COPY (SELECT {columns} FROM t WHERE variant_position % {args.every} = 0) TO '{target}' STORED AS VCZ OPTIONS ('vcz.format' '{args.format}')"
    )
    settings = [f"SET datafusion.execution.target_partitions = {args.threads}", "SET vcz.backend = 'host'"]
    run = process.vcz(args.vcz, [*settings, f"CREATE EXTERNAL TABLE t STORED AS VCZ LOCATION '{args.store}'", copy], peak=True)
    return run.seconds[-1], run.peak_bytes


def chunks(array):
    """The chunks of genotypes of a store, decoded."""
    rows, samples = array.chunks[:2]
    for row in range(0, array.shape[0], rows):
        block = array[row : row + rows]
        for sample in range(0, array.shape[1], samples):
            yield np.ascontiguousarray(block[:, sample : sample + samples])


def codec(array):
    """That of a copied array."""
    settings = array.compressors[0].get_config()
    return numcodecs.Blosc(settings["cname"], settings["clevel"], settings["shuffle"])


def compress(pieces, threads):
    """Seconds in which c-blosc compresses all pieces, each with its codec, and the bytes that these are then."""
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        begun = time.perf_counter()
        length = sum(pool.map(lambda piece: len(piece[0].encode(piece[1])), pieces))
        return time.perf_counter() - begun, length


def is_right(store, target, every):
    """Whether the copy has the genotypes of the store."""
    source, copied = group(store), group(target)
    kept = np.flatnonzero(source["variant_position"][:] % every == 0)
    ours, theirs = copied["call_genotype"], source["call_genotype"]
    if ours.shape != (len(kept), *theirs.shape[1:]):
        return False
    step, at = 10 * theirs.chunks[0], 0
    for row in range(0, theirs.shape[0], step):
        inside = kept[(kept >= row) & (kept < row + step)] - row
        if not np.array_equal(theirs[row : row + step][inside], ours[at : at + len(inside)]):
            return False
        at += len(inside)
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vcz", required=True, help="the vcz binary, optimised")
    parser.add_argument("--store", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--variants", type=int, default=300_000, help="of a store that is simulated")
    parser.add_argument("--every", type=int, default=2)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--format", type=int, choices=[2, 3], default=2)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    if not args.store.exists():
        simulate = [sys.executable, str(HERE / "simulate" / "simulate.py"), str(args.store), "--haplotypes", "2940", "--variants", str(args.variants)]
        subprocess.run(simulate, check=True)
    # The program encodes on as many threads as it may run on.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.threads])
    # One thread for each call, and the calls in a pool.
    numcodecs.blosc.use_threads = False
    target = args.work / "part.vcz"
    write(args, target)
    right = is_right(args.store, target, args.every)
    copied = group(target)
    genotypes = copied["call_genotype"]
    names = [name for name, array in copied.arrays() if array.ndim > 1 and array.shape[:2] == genotypes.shape[:2]]
    pieces = {name: [(codec(copied[name]), piece) for piece in chunks(copied[name])] for name in names}
    every = [piece for name in names for piece in pieces[name]]
    sizes = {name: sum(piece.nbytes for _, piece in pieces[name]) for name in names}
    if genotypes.shape[0] == 0:
        sys.exit(f"no position of {args.store} is divisible by {args.every}")
    seconds = {key: [] for key in ("blosc", "copy", "blosc of genotypes", "copy of genotypes")}
    peaks = []
    alone = args.work / "genotypes.vcz"
    for _ in range(args.rounds):
        taken, length = compress(every, args.threads)
        seconds["blosc"].append(taken)
        taken, peak = write(args, target)
        seconds["copy"].append(taken)
        peaks.append(peak)
        seconds["blosc of genotypes"].append(compress(pieces["call_genotype"], args.threads)[0])
        seconds["copy of genotypes"].append(write(args, alone, "variant_contig, variant_position, variant_allele, call_genotype")[0])
    for written in (target, alone):
        shutil.rmtree(written)
    medians = {key: statistics.median(values) for key, values in seconds.items()}
    peak = statistics.median(peaks)
    speed, speed_alone = medians["blosc"] / medians["copy"], medians["blosc of genotypes"] / medians["copy of genotypes"]
    threads = f"{args.threads} thread{'s' if args.threads > 1 else ''}"
    size = sum(sizes.values())
    print(f"{genotypes.shape[0]:,} of {group(args.store)['variant_position'].shape[0]:,} variants x {genotypes.shape[1]:,} samples, {threads}, Zarr v{args.format}")
    print(f"c-blosc: {', '.join(f'{name} {sizes[name] / 1e6:.0f} MB' for name in names)} in {medians['blosc']:.3f} s, {size / medians['blosc'] / 1e6:.0f} MB/s, to {length / 1e6:.1f} MB")
    print(f"all arrays copied: {medians['copy']:.3f} s, {speed:.2f} of c-blosc, peak {peak / 1e6:.0f} MB")
    print(f"genotypes alone: c-blosc {medians['blosc of genotypes']:.3f} s, copied in {medians['copy of genotypes']:.3f} s, {speed_alone:.2f} of c-blosc", "" if right else "\nOTHER GENOTYPES THAN THE STORE'S")
    sys.exit(not right or min(speed, speed_alone) < LEAST_SPEED or peak > MOST_MEMORY)


if __name__ == "__main__":
    main()
