"""How long does reading all genotypes of a VCZ store take in Python, and a whole-store spectrum in `vcz`, in the same run?

    python decode_speed.py STORE [--vcz target/release/vcz] [--repeat 5] [--partitions 1] [--check] [--json FILE]

Measured, one after the other and in turn `--repeat` times, so that a slow moment of the machine meets all of them:

  zarr-python   for each chunk of variants: call_genotype[start:stop], synchronous, as a user would write it
  numcodecs     for each chunk: read its bytes, decode them with numcodecs, numpy.frombuffer; one thread, no zarr
  vcz           the spectrum of all samples by SQL, as a whole process (start, opening, planning, decoding, counting)
  vcz, start    the same process with SELECT 1: what starting costs

The first two only decode and count nothing. Files are read once before, so that all find them in the page cache.
"""

import argparse
import itertools
import json
import os
import pathlib
import platform
import resource
import statistics
import subprocess
import sys
import time
import zipfile

import numcodecs
import numcodecs.blosc
import numpy as np
import zarr


def open_array(path):
    store = zarr.storage.ZipStore(path, mode="r") if path.is_file() else zarr.storage.LocalStore(path, read_only=True)
    return zarr.open_group(store, mode="r")["call_genotype"]


def read_with_zarr(path):
    array = open_array(path)
    step, seen = array.chunks[0], 0
    for start in range(0, array.shape[0], step):
        seen += array[start : start + step].size
    return seen


class Files:
    """The bytes of a store's files by key, from a directory or a zip; None where there is no such file."""

    def __init__(self, path):
        self.zip = zipfile.ZipFile(path) if path.is_file() else None
        self.names = set(self.zip.namelist()) if self.zip else None
        self.path = path

    def read(self, key):
        if self.zip:
            return self.zip.read(key) if key in self.names else None
        try:
            return (self.path / key).read_bytes()
        except FileNotFoundError:
            return None


def decoding_plan(files, array="call_genotype"):
    """(shape, chunks, dtype, codecs in the order of decoding, key of a chunk) of an array, from its own metadata."""
    if (raw := files.read(f"{array}/.zarray")) is not None:
        meta = json.loads(raw)
        if meta["filters"] or meta["order"] != "C":
            raise NotImplementedError("filters or order F")
        codecs = [numcodecs.get_codec(meta["compressor"])] if meta["compressor"] else []
        separator = meta.get("dimension_separator", ".")
        return meta["shape"], meta["chunks"], meta["dtype"], codecs, lambda i: separator.join(map(str, i))
    meta = json.loads(files.read(f"{array}/zarr.json"))
    first, *rest = meta["codecs"]
    if first["name"] != "bytes":
        raise NotImplementedError(f"codec {first['name']}")
    codecs = []
    for codec in rest:
        name, options = codec["name"], dict(codec.get("configuration", {}))
        if name == "blosc":
            options["shuffle"] = ["noshuffle", "shuffle", "bitshuffle"].index(options["shuffle"])
            options = {k: options[k] for k in ("cname", "clevel", "shuffle", "blocksize")}
        elif name not in ("zstd", "gzip") and not name.startswith("numcodecs."):
            raise NotImplementedError(f"codec {name}")
        codecs.append(numcodecs.get_codec({"id": name.removeprefix("numcodecs."), **options}))
    encoding = meta["chunk_key_encoding"]
    separator = encoding.get("configuration", {}).get("separator", "/")
    prefix = ["c"] if encoding["name"] == "default" else []
    order = ">" if first.get("configuration", {}).get("endian") == "big" else "<"
    dtype = np.dtype(meta["data_type"]).newbyteorder(order)
    chunks = meta["chunk_grid"]["configuration"]["chunk_shape"]
    return meta["shape"], chunks, dtype, codecs[::-1], lambda i: separator.join([*prefix, *map(str, i)])


def read_with_numcodecs(path):
    files = Files(path)
    shape, chunks, dtype, codecs, key = decoding_plan(files)
    seen = 0
    for index in itertools.product(*(range(-(-n // c)) for n, c in zip(shape, chunks))):
        data = files.read(f"call_genotype/{key(index)}")
        if data is None:  # all fill
            continue
        for codec in codecs:
            data = codec.decode(data)
        seen += np.frombuffer(data, dtype=dtype).size
    return seen


def vcz_command(binary, path, partitions, query):
    return [
        binary,
        "sql",
        "-q",
        "--format",
        "json",
        "-c",
        f"SET datafusion.execution.target_partitions = {partitions}",
        "-c",
        query.replace("{store}", str(path)),
    ]


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def spectrum(path):
    """sfs(call_genotype) in numpy, for --check: complete sites by their number of non-reference copies."""
    array = open_array(path)
    copies = array.shape[1] * array.shape[2]
    out = np.zeros(copies + 1, dtype=np.int64)
    for start in range(0, array.shape[0], array.chunks[0]):
        g = array[start : start + array.chunks[0]].reshape(-1, copies)
        out += np.bincount((g > 0).sum(axis=1)[(g >= 0).all(axis=1)], minlength=copies + 1)
    return out.tolist()


def first_list(text):
    """The first list in the JSON rows that vcz prints."""
    for line in text.splitlines():
        if line.startswith("[") and (rows := json.loads(line)):
            for value in rows[0].values():
                if isinstance(value, list):
                    return value
    return None


def cpu():
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def measure(work):
    before, start = cpu(), time.perf_counter()
    work()
    return time.perf_counter() - start, cpu() - before


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("store", type=pathlib.Path)
    parser.add_argument("--vcz", help="the vcz binary, built with --release")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--partitions", type=int, default=1)
    parser.add_argument("--query", default="SELECT sfs(call_genotype) FROM '{store}'", help="{store} is the store's path")
    parser.add_argument("--check", action="store_true", help="compare the spectrum of vcz with numpy's")
    parser.add_argument("--json", type=pathlib.Path, help="write the figures there, too")
    args = parser.parse_args()
    numcodecs.blosc.set_nthreads(1)
    numcodecs.blosc.use_threads = False

    array = open_array(args.store)
    megabytes = array.size * array.dtype.itemsize / 1e6
    for path in [args.store] if args.store.is_file() else sorted((args.store / "call_genotype").rglob("*")):
        if path.is_file():
            path.read_bytes()

    ways = {"zarr-python": lambda: read_with_zarr(args.store)}
    try:
        decoding_plan(Files(args.store))
        ways["numcodecs"] = lambda: read_with_numcodecs(args.store)
    except NotImplementedError as error:
        print(f"numcodecs: left out ({error})", file=sys.stderr)
    if args.vcz:
        command = vcz_command(args.vcz, args.store, args.partitions, args.query)
        ways["vcz"] = lambda: run(command)
        ways["vcz, start"] = lambda: run(vcz_command(args.vcz, args.store, args.partitions, "SELECT 1"))
        if args.check:
            found, wanted = first_list(run(command)), spectrum(args.store)
            if found != wanted:
                sys.exit(f"vcz gives {found}\nnumpy gives {wanted}")
            print("vcz and numpy give the same spectrum")

    times = {name: [] for name in ways}
    for _ in range(args.repeat):
        for name, work in ways.items():
            times[name].append(measure(work))

    base = statistics.median(wall for wall, _ in times["zarr-python"])
    print(
        f"{args.store.name}: call_genotype {array.shape} {array.dtype}, chunks {array.chunks}, {megabytes:,.1f} MB decoded; "
        f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, zarr {zarr.__version__}, "
        f"numcodecs {numcodecs.__version__}; median of {args.repeat}, vcz with {args.partitions} partition(s)"
    )
    print(f"{'':14}{'seconds':>10}{'fastest':>10}{'cpu s':>10}{'MB/s':>10}{'of zarr-python':>16}")
    figures = {}
    for name, runs in times.items():
        wall = statistics.median(w for w, _ in runs)
        figures[name] = dict(seconds=wall, fastest=min(w for w, _ in runs), cpu=statistics.median(c for _, c in runs))
        figures[name]["ratio"] = wall / base
        rate = "" if name == "vcz, start" else f"{megabytes / wall:,.0f}"
        f = figures[name]
        print(f"{name:14}{wall:10.3f}{f['fastest']:10.3f}{f['cpu']:10.3f}{rate:>10}{f['ratio']:16.2f}")
    if args.json:
        args.json.write_text(json.dumps(dict(store=args.store.name, megabytes=megabytes, figures=figures), indent=1) + "\n")


if __name__ == "__main__":
    main()
