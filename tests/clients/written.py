"""Stores that `COPY … STORED AS VCZ` has written: how they are made, and their arrays as zarr-python reads them, compared with those that they are made of.

Numbers are compared by their bits, so that a missing value that has become another NaN is a difference; text as strings.
"""

import dataclasses
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import zipfile

import numpy as np
import zarr
import zarr.storage

from server import FIXTURES, REPOSITORY, VCZ

sys.path.insert(0, str(FIXTURES))
from vcz_writer import region_index  # noqa: E402

SHARED = pathlib.Path(os.environ.get("VCZ_TEST_DATA", REPOSITORY.parent / "shared" / "data"))
CODECS = ["blosc-zstd", "blosc-lz4", "blosc-lz4hc", "blosc-zlib", "zstd:3", "gzip", "none"]
# Files that belong to the group.
ROOT_V2, ROOT_V3 = {".zgroup", ".zattrs", ".zmetadata"}, {"zarr.json"}


# ------------------------------------------------------------------------------------------- running the program


def environment(**variables):
    """Without credentials of this machine."""
    kept = {key: text for key, text in os.environ.items() if not key.startswith(("AWS_", "GOOGLE_", "AZURE_"))}
    return kept | {"AWS_EC2_METADATA_DISABLED": "true"} | {key: str(value) for key, value in variables.items()}


def command(statements, partitions=None):
    """`vcz sql` with these statements."""
    if partitions is not None:
        statements = [f"SET datafusion.execution.target_partitions = {partitions}", *statements]
    given = [VCZ, "sql", "-q", "--format", "json", "--maxrows", "inf"]
    for statement in statements:
        given += ["-c", statement]
    return given


def sql(*statements, partitions=None, folder=REPOSITORY, timeout=240, **variables):
    """The rows of each statement that returned rows."""
    done = subprocess.run(
        command(statements, partitions), capture_output=True, text=True, cwd=folder, env=environment(**variables), timeout=timeout
    )
    assert done.returncode == 0, f"{statements[-1]}\nexit status {done.returncode}\n{done.stderr[-3000:]}"
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]


def fails(*statements, partitions=None, folder=REPOSITORY, timeout=240, **variables):
    """What the program says about statements of which the last fails."""
    done = subprocess.run(
        command(statements, partitions), capture_output=True, text=True, cwd=folder, env=environment(**variables), timeout=timeout
    )
    assert done.returncode == 1, f"{statements[-1]}\nexit status {done.returncode}\n{done.stdout[-1000:]}\n{done.stderr[-3000:]}"
    assert "panicked" not in done.stderr, done.stderr[-3000:]
    return done.stderr


def says(message, *parts):
    """Asserts that a message has each of these parts, whatever its case; `a|b` is one of several."""
    for part in parts:
        assert re.search(part, message, re.IGNORECASE), f"{part!r} is not in:\n{message}"


def create(name, store, populations=None):
    """The statement that makes a store a table."""
    options = f" OPTIONS ('vcz.populations' '{populations}')" if populations else ""
    return f"CREATE EXTERNAL TABLE {name} STORED AS VCZ LOCATION '{store}'{options}"


def copy(query, target, **options):
    """The statement that writes a store; `codec="gzip"` is the option 'vcz.codec'."""
    given = ", ".join(f"'vcz.{key}' '{value}'" for key, value in options.items())
    return f"COPY ({query}) TO '{target}' STORED AS VCZ" + (f" OPTIONS ({given})" if given else "")


# ------------------------------------------------------------------------------------------- stores to copy


@dataclasses.dataclass(frozen=True)
class Source:
    """A store of the fixtures or of the real ones."""

    path: pathlib.Path

    @property
    def name(self):
        return self.path.name.removesuffix(".zip").removesuffix(".vcz")

    @property
    def populations(self):
        """Its populations file, if there is one."""
        file = self.path.with_name(self.name.removesuffix(".v3") + ".populations.tsv")
        return file if file.exists() else None

    @property
    def expected(self):
        """What `expected.json` has of it."""
        return json.loads(self.path.with_name("expected.json").read_text()).get(self.path.name.removesuffix(".zip"), {})

    def table(self, name="t"):
        return create(name, self.path, self.populations)


def sources(folder, but=()):
    """The stores of a folder."""
    found = [Source(path) for path in sorted(folder.glob("*.vcz.zip"))]
    return [source for source in found if source.name not in but]


def fixture(name):
    return Source(FIXTURES / f"{name}.vcz.zip")


# ------------------------------------------------------------------------------------------- arrays by zarr-python


def is_zip(path):
    return pathlib.Path(path).is_file()


def group(path, consolidated=None):
    """The group of a folder or an archive."""
    store = zarr.storage.ZipStore(path, mode="r") if is_zip(path) else str(path)
    return zarr.open_group(store, mode="r", use_consolidated=consolidated)


def dimensions(array):
    """Names of an array's dimensions."""
    named = array.attrs.get("_ARRAY_DIMENSIONS") if array.metadata.zarr_format == 2 else array.metadata.dimension_names
    return list(named) if named else []


def attributes(array):
    return {key: value for key, value in array.attrs.items() if key != "_ARRAY_DIMENSIONS"}


def is_text(dtype):
    return np.dtype(dtype).kind in "OTUS"


def comparable(values):
    """Integers for floats, objects for text."""
    values = np.asarray(values)
    if is_text(values.dtype):
        return values.astype(object)
    values = np.ascontiguousarray(values.astype(values.dtype.newbyteorder("=")))
    return values.view(f"u{values.dtype.itemsize}") if values.dtype.kind == "f" else values


def smallest(largest):
    """The smallest signed type of numbers up to this one."""
    return next(np.dtype(f"i{width}") for width in (1, 2, 4, 8) if largest <= np.iinfo(f"i{width}").max)


def is_wanted_type(name, found, of, contigs):
    """Whether an array may have the type `found` where its source has `of`."""
    if is_text(of):
        return found.kind in "OT"
    if name == "variant_contig":
        return found == smallest(max(contigs - 1, 0))
    if name == "variant_position":
        return found.kind == "i" and found.itemsize >= 4
    if of.kind == "u":
        return found.kind == "i" and found.itemsize == min(8, 2 * of.itemsize)
    return found == of.newbyteorder("=")


def assert_values(found, wanted, what):
    """Asserts that two arrays have the same shape and the same bits."""
    found, wanted = comparable(found), comparable(wanted)
    assert found.shape == wanted.shape, f"{what}: shape {found.shape}, expected {wanted.shape}"
    differs = found != wanted
    if differs.any():
        at = tuple(np.argwhere(differs)[0].tolist())
        raise AssertionError(f"{what}{list(at)}: {found[at]!r}, expected {wanted[at]!r}; {int(differs.sum())} of {found.size} differ")


def is_sorted(contig, position):
    """Whether every contig is one run, and positions do not decrease in it."""
    runs = [int(contig[0])] if len(contig) else []
    runs += contig[1:][contig[1:] != contig[:-1]].tolist()
    same = contig[1:] == contig[:-1]
    return len(runs) == len(set(runs)) and bool((np.diff(position.astype(np.int64))[same] >= 0).all())


def wanted_index(store, chunk):
    """The region index of a store that is written in chunks of so many variants, or None where it cannot have one."""
    contig, position = store["variant_contig"][:], store["variant_position"][:].astype(np.int64)
    if not is_sorted(contig, position):
        return None
    if "variant_length" in store:
        length = store["variant_length"][:].astype(np.int64)
    elif "variant_allele" in store:
        length = np.array([len(text) for text in store["variant_allele"][:, 0]], dtype=np.int64)
    else:
        return None
    return region_index(contig, position, length, chunk).reshape(-1, 6)


def assert_copy(path, source, format_, chunks=(1000, 10000)):
    """Asserts that a store is the whole of another: arrays, attributes, chunks, region index, consolidated metadata."""
    found, wanted = group(path), group(source)
    assert found.metadata.zarr_format == format_
    theirs = {name: array for name, array in wanted.arrays() if name != "region_index"}
    ours = {name: array for name, array in found.arrays() if name != "region_index"}
    assert sorted(ours) == sorted(theirs), f"missing: {theirs.keys() - ours.keys()}, too many: {ours.keys() - theirs.keys()}"
    assert list(found.groups()) == []
    contigs = theirs["contig_id"].shape[0]
    for name, array in theirs.items():
        copied, what = ours[name], f"{path.name}: {name}"
        assert is_wanted_type(name, copied.dtype, array.dtype, contigs), f"{what}: {copied.dtype}, expected that of {array.dtype}"
        assert dimensions(copied) == dimensions(array), f"{what}: dimensions {dimensions(copied)}, expected {dimensions(array)}"
        assert attributes(copied) == attributes(array), f"{what}: attributes {attributes(copied)}, expected {attributes(array)}"
        assert_values(copied[...], array[...], what)
        for dimension, length, chunk in zip(dimensions(copied), copied.shape, copied.chunks):
            limit = {"variants": chunks[0], "samples": chunks[1]}.get(dimension, length) if name.startswith(("variant_", "call_")) else chunk
            assert chunk in (limit, max(1, min(limit, length))), f"{what}: chunks {copied.chunks}"
    assert_attributes(found, wanted)
    index = wanted_index(wanted, chunks[0])
    if index is None:
        assert "region_index" not in found, f"{path.name}: an index of rows that are not sorted"
    else:
        assert found["region_index"].dtype.kind == "i"
        assert_values(found["region_index"][:].astype(np.int64), index.astype(np.int64), f"{path.name}: region_index")
        if "region_index" in wanted and wanted["variant_position"].chunks[0] == chunks[0]:
            assert_values(found["region_index"][:].astype(np.int64), wanted["region_index"][:].astype(np.int64), f"{path.name}: region_index")
            assert dimensions(found["region_index"]) == dimensions(wanted["region_index"])
    assert_consolidated(path, format_)


def assert_attributes(found, wanted):
    """Those of the group: but for `source`, which may name the program that wrote it."""
    found, wanted = dict(found.attrs), dict(wanted.attrs)
    assert found["vcf_zarr_version"] == wanted["vcf_zarr_version"]
    for key in wanted.keys() - {"source"}:
        assert found[key] == wanted[key], f"attribute {key}"


def assert_consolidated(path, format_):
    """Asserts that consolidated metadata are there, and say what the documents say."""
    at_once, one_by_one = group(path, consolidated=True), group(path, consolidated=False)
    assert at_once.metadata.consolidated_metadata is not None
    describe = lambda g: {name: (a.shape, a.chunks, a.dtype, dimensions(a), attributes(a)) for name, a in g.arrays()}  # noqa: E731
    assert describe(at_once) == describe(one_by_one)
    assert dict(at_once.attrs) == dict(one_by_one.attrs)
    if not is_zip(path):
        roots = {entry.name for entry in pathlib.Path(path).iterdir() if entry.is_file()}
        assert roots == (ROOT_V2 if format_ == 2 else ROOT_V3), roots


def arrays(path):
    """Every array of a store, in memory."""
    return {name: array[...] for name, array in group(path).arrays()}


def rows_of(source, keep):
    """The arrays of a store with some of its rows."""
    wanted = arrays(source.path)
    return {name: values[keep] if name.startswith(("variant_", "call_")) else values for name, values in wanted.items()}


def assert_arrays(path, wanted, but=("region_index",)):
    """The arrays of a store, by the bits of their values; positions and contigs may be wider or narrower."""
    found = arrays(path)
    assert set(found) - set(but) == set(wanted) - set(but)
    for name in set(wanted) - set(but):
        same_type = found[name].astype(wanted[name].dtype) if name in ("variant_contig", "variant_position") else found[name]
        assert_values(same_type, wanted[name], f"{path.name}: {name}")


def digest(path):
    """All bytes of a folder or an archive: the SHA-256 of each file."""
    path = pathlib.Path(path)
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    return {str(file.relative_to(path.parent)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def contents(path):
    """The SHA-256 of each file of a folder, or of each entry of an archive."""
    if not is_zip(path):
        return digest(path)
    with zipfile.ZipFile(path) as entries:
        assert entries.testzip() is None
        return {name: hashlib.sha256(entries.read(name)).hexdigest() for name in entries.namelist()}


def beside(target):
    """What is in a target's folder, the target left out."""
    target = pathlib.Path(target)
    return sorted(entry.name for entry in target.parent.iterdir() if entry != target)
