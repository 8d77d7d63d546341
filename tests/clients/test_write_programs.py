"""Other programs open what `COPY … STORED AS VCZ` writes: xarray, sgkit, vcztools, and bio2zarr's tools."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pysam
import pytest
import xarray
import zarr
from bio2zarr import vcz_verification
from click.testing import CliRunner
from vcztools.cli import vcztools_main

from server import FIXTURES
from test_recipes import write_vcf
from written import SHARED, arrays, assert_values, comparable, copy, create, digest, dimensions, fixture, group, is_zip, sources, sql

# With genotypes, without; several ploidies, contigs, types; more than one chunk.
NAMES = ["sim", "missing", "missing.v3", "chunks7", "haploid", "tetraploid.v3", "int16", "unsorted", "consequences"]
FILES = {"two": ("two.vcz", 2), "three": ("three.vcz", 3), "archive": ("archive.vcz.zip", 2), "archive3": ("archive3.vcz.zip", 3)}


@pytest.fixture(scope="module")
def copies(tmp_path_factory):
    """Copies of each store in `NAMES`: folders and archives of both formats."""
    top, statements, made = tmp_path_factory.mktemp("copies"), [], {}
    for name in NAMES:
        folder = top / name
        folder.mkdir()
        made[name] = {key: folder / file for key, (file, _) in FILES.items()}
        statements.append(create(f'"{name}"', fixture(name).path))
        statements += [
            copy(f'SELECT * FROM "{name}"', folder / file, format=format_, variants_chunk_size=200, samples_chunk_size=8) for file, format_ in FILES.values()
        ]
    sql(*statements)
    return made


# ------------------------------------------------------------------------------------------- xarray and sgkit


@pytest.mark.parametrize("name", NAMES)
def test_xarray(name, copies):
    """As a dataset, opened by consolidated metadata: no value is taken for a missing one, and text is text."""
    for key in ("two", "three"):
        path = copies[name][key]
        dataset = xarray.open_zarr(str(path), consolidated=True)
        # Arrays over the same dimension have the same chunks, which an error would say otherwise.
        assert "variants" in dataset.chunks
        store = group(path)
        assert set(dataset.variables) == set(store.array_keys())
        for field, array in store.arrays():
            variable = dataset[field]
            assert list(variable.dims) == dimensions(array), field
            assert (variable.dtype == array.dtype) or variable.dtype.kind in "OT" and array.dtype.kind in "OT", f"{field}: {variable.dtype}"
            assert_values(variable.values, array[...], f"{path.name}: {field}")


SGKIT = """
import json, sys, warnings
warnings.simplefilter("ignore")
import numpy as np, sgkit
for path in json.load(sys.stdin):
    dataset = sgkit.load_dataset(path)
    found = {}
    for name, variable in dataset.variables.items():
        values = variable.values
        if values.dtype.kind in "OU":
            values = values.astype(object)
            found[name] = [list(variable.dims), "text", values.ravel().tolist()]
        else:
            bits = np.ascontiguousarray(values)
            found[name] = [list(variable.dims), values.dtype.str, bits.view(f"u{bits.dtype.itemsize}").ravel().tolist()]
    called = dataset.sizes.get("ploidy", 0) and sgkit.display_genotypes(dataset, max_variants=4, max_samples=4).df.size
    print(json.dumps([found, bool(called)]))
"""


def test_sgkit(copies):
    """`sgkit.load_dataset` of the copies of Zarr v2, which its zarr reads: the values that zarr-python has of the originals."""
    python = os.environ.get("CLIENTS_SGKIT_PYTHON")
    if not python:
        pytest.skip("NOT RUN: there is no environment with sgkit, so no copy is opened with it")
    paths = {name: copies[name]["two"] for name in NAMES}
    given = json.dumps([str(path) for path in paths.values()])
    done = subprocess.run([python, "-c", SGKIT], input=given, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-3000:]
    for name, line in zip(paths, done.stdout.splitlines(), strict=True):
        found, called = json.loads(line)
        assert called
        wanted = dict(group(fixture(name).path).arrays())
        assert set(found) - {"region_index"} == set(wanted) - {"region_index"}
        for field in set(wanted) - {"region_index"}:
            dims, kind, values = found[field]
            array = wanted[field]
            assert dims == dimensions(array), f"{name}: {field}"
            if array.dtype.kind in "OTU":
                assert kind == "text" and values == array[...].astype(object).ravel().tolist(), f"{name}: {field}"
                continue
            of_type = np.dtype(kind)
            values = np.array(values, dtype=f"u{of_type.itemsize}").view(of_type)
            assert of_type.kind == array.dtype.kind, f"{name}: {field}"
            if field in ("variant_position", "variant_contig"):
                values = values.astype(array.dtype)
            assert (comparable(values) == comparable(array[...]).ravel()).all(), f"{name}: {field}"


# ------------------------------------------------------------------------------------------- vcztools


def view(path, *options):
    """What `vcztools view` prints, or None if it cannot."""
    done = CliRunner().invoke(vcztools_main, ["view", "--no-version", *options, str(path)])
    return done.stdout if done.exit_code == 0 else None


VIEWED = [source for source in sources(SHARED, but=["gambX"]) if not source.name.endswith(".v3")]


@pytest.mark.parametrize("name", NAMES)
def test_vcztools(name, copies):
    """The VCF of a copy is that of the original, record by record, and its header; so is that of a region, which the region index finds."""
    original = view(fixture(name).path)
    assert original and original.count("\n") > 100
    region = None if name == "unsorted" else str(group(fixture(name).path)["contig_id"][0]) + ":1000-20000"
    for key, path in copies[name].items():
        compare(view(path), original, f"{name}, {key}")
        if region and key in ("two", "archive3") and "region_index" in group(fixture(name).path):
            compare(view(path, "-r", region), view(fixture(name).path, "-r", region), f"{name}, {key}, {region}")


@pytest.mark.parametrize("source", VIEWED or [None], ids=lambda source: source.name if source else "real-stores")
def test_vcztools_of_real_stores(source, tmp_path):
    if source is None:
        pytest.skip(f"NOT RUN: there are no real stores in {SHARED}, so no copy of one is viewed by vcztools")
    number = VIEWED.index(source)
    target = tmp_path / ["a.vcz", "a.vcz.zip", "b.vcz", "b.vcz.zip"][number % 4]
    sql(source.table(), copy("SELECT * FROM t", target, format=2 + number // 2 % 2))
    compare(view(target), view(source.path), source.name)


def compare(found, wanted, what):
    assert found is not None, f"vcztools cannot view {what}"
    # A type of text is not kept: vcztools says Character of text of fixed width.
    found, wanted = found.splitlines(), wanted.replace(",Type=Character,Description", ",Type=String,Description").splitlines()
    for number, (line, other) in enumerate(zip(found, wanted)):
        assert line == other, f"{what}, line {number + 1}:\n{line[:400]}\nexpected\n{other[:400]}"
    assert len(found) == len(wanted), what


def test_vcztools_of_a_part(tmp_path):
    """The samples, rows and masked calls of a copy as vcztools and pysam see them."""
    source = fixture("missing")
    target = tmp_path / "part.vcz"
    calls = [name for name in arrays(source.path) if name.startswith("call_")]
    chosen = ", ".join(f"select_samples({name}, ['s04', 's11', 's02']) AS {name}" for name in calls)
    sql(source.table(), copy(f"SELECT * REPLACE ({chosen}) FROM t WHERE variant_contig = '1' AND variant_position > 500", target))
    # Fields such as AC are those of the store, not computed anew.
    original = view(source.path, "-I", "-s", "s02,s04,s11", "-r", "1:501-")
    assert original.count("\n") > 100
    compare(view(target), original, "part")
    text = tmp_path / "part.vcf"
    text.write_text(view(target))
    with pysam.VariantFile(str(text)) as file:
        assert list(file.header.samples) == ["s02", "s04", "s11"]
        assert [record.pos for record in file] == arrays(target)["variant_position"].tolist()


# ------------------------------------------------------------------------------------------- bio2zarr


def tool(name, *arguments):
    done = subprocess.run([pathlib.Path(sys.executable).with_name(name), *map(str, arguments)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_bio2zarr(tmp_path):
    """From a VCF through bio2zarr and a copy: bio2zarr's own verification against the VCF, its inspection, and its region index, which is ours."""
    names = write_vcf(tmp_path / "in.vcf")
    tool("vcf2zarr", "convert", "--no-progress", tmp_path / "in.vcf.gz", tmp_path / "in.vcz")
    for format_ in (2, 3):
        target = tmp_path / f"copy{format_}.vcz"
        sql(create("t", tmp_path / "in.vcz"), copy("SELECT * FROM t", target, format=format_, variants_chunk_size=50))
        vcz_verification.verify(str(tmp_path / "in.vcf.gz"), str(target))
        shown = tool("vcf2zarr", "inspect", target)
        for name in ("call_genotype", "variant_position", "sample_id"):
            assert name in shown
        assert group(target)["sample_id"][:].tolist() == names
        ours = group(target)["region_index"][:]
        shutil.rmtree(target / "region_index")
        tool("vcf2zarr", "create-index", target)
        theirs = zarr.open_group(str(target), mode="r", use_consolidated=False)["region_index"][:]
        assert_values(ours.astype("i8"), theirs.astype("i8"), "region_index")


@pytest.mark.parametrize("name", ["missing", "contigs_order"])
def test_bio2zarr_makes_the_same_index(name, tmp_path):
    """Of several contigs, and of deletions."""
    target = tmp_path / "a.vcz"
    sql(fixture(name).table(), copy("SELECT * FROM t WHERE variant_position % 3 > 0", target, variants_chunk_size=37))
    ours = group(target)["region_index"][:]
    before = digest(target)
    shutil.rmtree(target / "region_index")
    tool("vcf2zarr", "create-index", target)
    theirs = zarr.open_group(str(target), mode="r", use_consolidated=False)["region_index"][:]
    assert_values(ours.astype("i8"), theirs.astype("i8"), "region_index")
    changed = {name for name, value in digest(target).items() if before.get(name) != value}
    assert all("region_index" in name for name in changed)


def test_copies_are_what_they_should_be(copies):
    """Archives are archives, and of the format that was asked for."""
    for made in copies.values():
        for key, (_, format_) in FILES.items():
            assert is_zip(made[key]) == key.startswith("archive") and group(made[key]).metadata.zarr_format == format_
    assert FIXTURES.exists()
