"""Compares a table of many stores with a table of one store that holds the same rows: answers, time, opening.

    python benches/many_stores.py --vcz target/release/vcz --store ag.vcz --work DIRECTORY [--stores 22] [--rounds 7]

`--store` is a store of benches/simulate in the default layout with at least as many variant chunks as `--stores`. Its chunks are copied to
DIRECTORY/chr1.vcz, chr2.vcz, … with a contig each, and to DIRECTORY/whole.vcz with all of these contigs. Both are queried by turns. Exits
with 1 if an answer differs, a query of the table of many stores takes more than 1.1 times as long, or opening them takes more than 50 ms in a
warm process.
"""

import argparse
import json
import pathlib
import shutil
import statistics
import sys

import numcodecs
import numcodecs.blosc
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "peers"), str(HERE.parent / "tests/fixtures")]
import process  # noqa: E402
from vcz_writer import region_index  # noqa: E402

QUERIES = {
    "spectra": "SELECT sfs(call_genotype, 'first') AS a, sfs(call_genotype, 'second') AS b FROM t",
    "windows": "SELECT variant_contig, genome_bin(variant_position, 50000) AS w, diversity(call_genotype, 'first') AS pi, "
    "fst_hudson(call_genotype, 'first', 'second') AS fst FROM t GROUP BY 1, 2 ORDER BY 1, 2",
    "by contig": "SELECT variant_contig, tajimas_d(call_genotype) AS d, count(*) AS n FROM t GROUP BY 1 ORDER BY 1",
    "one contig": "SELECT sfs(call_genotype) AS s FROM t WHERE variant_contig = 'chr7'",
}
MOST_RATIO = 1.1
MOST_OPENING = 0.050


def put(directory, data, codec=numcodecs.Blosc("zstd", 7, numcodecs.Blosc.SHUFFLE)):
    """Replaces a small array of one dimension, or the only chunk of one with two, and its metadata."""
    path = directory / ".zarray"
    metadata = json.loads(path.read_text())
    for chunk in directory.iterdir():
        if not chunk.name.startswith("."):
            chunk.unlink()
    if data.dtype == object:
        encoded = numcodecs.VLenUTF8().encode(data)
    else:
        encoded = np.ascontiguousarray(data, dtype=metadata["dtype"])
    metadata |= {"shape": list(data.shape), "chunks": list(data.shape), "compressor": codec.get_config()}
    path.write_text(json.dumps(metadata))
    (directory / ".".join("0" for _ in data.shape)).write_bytes(codec.encode(encoded))


def positions(array, chunks):
    """The positions of variant chunks, one after the other."""
    codec = numcodecs.get_codec(json.loads((array / ".zarray").read_text())["compressor"])
    return np.concatenate([np.frombuffer(codec.decode((array / str(at)).read_bytes()), dtype="<i4") for at in chunks])


def copy(source, target, chunks, contigs):
    """Copies variant chunks `chunks` of a store, in order, with the contigs of `contigs`: a name for each chunk."""
    target.mkdir(parents=True)
    rows = json.loads((source / "variant_position/.zarray").read_text())["chunks"][0]
    names = list(dict.fromkeys(contigs))
    for path in source.iterdir():
        if path.is_file():
            shutil.copy(path, target)
            continue
        if not (path / ".zarray").exists() or not path.name.startswith(("variant_", "call_")):
            shutil.copytree(path, target / path.name)
            continue
        (target / path.name).mkdir()
        metadata = json.loads((path / ".zarray").read_text())
        metadata["shape"][0] = rows * len(chunks)
        (target / path.name / ".zarray").write_text(json.dumps(metadata))
        if (path / ".zattrs").exists():
            shutil.copy(path / ".zattrs", target / path.name)
        for number, chunk in enumerate(chunks):
            rest = [""] + ["0"] * (len(metadata["shape"]) - 1)
            name = ".".join(rest)
            if (path / f"{chunk}{name}").exists():
                shutil.copy(path / f"{chunk}{name}", target / path.name / f"{number}{name}")
    of = np.repeat([names.index(contig) for contig in contigs], rows).astype(np.int8)
    codec = numcodecs.Blosc("zstd", 7, numcodecs.Blosc.SHUFFLE)
    for number, contig in enumerate(contigs):
        if names.index(contig):  # a chunk of zeros is absent
            (target / f"variant_contig/{number}").write_bytes(codec.encode(of[number * rows : (number + 1) * rows]))
    at = positions(source / "variant_position", chunks)
    put(target / "contig_id", np.array(names, dtype=object))
    put(target / "contig_length", np.full(len(names), at.max(), dtype=np.int64))
    put(target / "region_index", region_index(of, at, np.ones(len(at), dtype=np.int32), rows))
    populations = source.with_suffix(".populations.tsv")
    shutil.copy(populations, target.with_suffix(".populations.tsv"))


def make(args):
    """The stores, unless they are there: the one, and the pattern of the others."""
    whole, pattern = args.work / "whole.vcz", args.work / "chr*.vcz"
    if not whole.exists():
        n = json.loads((args.store / "variant_position/.zarray").read_text())
        of_each = n["shape"][0] // n["chunks"][0] // args.stores
        if of_each == 0:
            sys.exit(f"{args.store} has fewer than {args.stores} whole variant chunks")
        contigs = [f"chr{store + 1}" for store in range(args.stores) for _ in range(of_each)]
        for store in range(args.stores):
            chunks = range(store * of_each, (store + 1) * of_each)
            copy(args.store, args.work / f"chr{store + 1}.vcz", chunks, contigs[chunks.start : chunks.stop])
        copy(args.store, whole, range(len(contigs)), contigs)
    return whole, pattern


def table(location, populations):
    return f"CREATE EXTERNAL TABLE t STORED AS VCZ LOCATION '{location}' OPTIONS ('vcz.populations' '{populations}')"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vcz", required=True, help="the vcz binary, optimised")
    parser.add_argument("--store", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--stores", type=int, default=22)
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    locations = make(args)
    populations = args.work / "whole.populations.tsv"
    missed = False
    for name, query in QUERIES.items():
        answers, seconds = [], [[], []]
        for _ in range(args.rounds):
            for location, times in zip(locations, seconds):
                run = process.vcz(args.vcz, [table(location, populations), *[query] * 5])
                times.append(statistics.median(run.seconds[-4:]))
                answers.append(run.rows()[0])
        one, many = (statistics.median(times) for times in seconds)
        same = all(answer == answers[0] for answer in answers)
        missed |= not same or many > MOST_RATIO * one
        print(f"{name}: one store {one * 1e3:.0f} ms, {args.stores} stores {many * 1e3:.0f} ms, {many / one:.2f}", "" if same else "ANSWERS DIFFER")
    again = [table(locations[1], populations), "DROP TABLE t"] * 6
    opened = process.vcz(args.vcz, again).seconds
    # The first is that of a cold process.
    opening = statistics.median(opened[2::2])
    missed |= opening > MOST_OPENING
    print(f"opening {args.stores} stores: {opening * 1e3:.0f} ms")
    sys.exit(missed)


if __name__ == "__main__":
    main()
