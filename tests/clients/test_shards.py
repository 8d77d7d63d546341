"""Sharded stores by HTTP: the values of local ones, each shard by one request, and of a region its shards only."""

import json
import zipfile

import numpy as np
import pytest
import zarr

from faults import Shelf
from server import FIXTURES
from test_remote import vcz

# Of zarr-python, about fixed-length text and consolidated metadata in Zarr v3.
pytestmark = pytest.mark.filterwarnings("ignore:The data type", "ignore:Consolidated metadata")
LAYOUTS = FIXTURES / "layouts"
FIXED = "SELECT sfs(call_genotype) AS sfs, sum(variant_position) AS sum, max(variant_allele[1]) AS allele FROM t"
# Two shards, each of 100 chunks of 20 KB.
VARIANTS, SHARD, ROWS, SAMPLES = 20_000, 10_000, 100, 100
LARGE = "SELECT sfs(call_genotype) AS sfs, count(*) AS n FROM t"


def answer(location, sql):
    return json.loads(vcz("sql", f"t={location}", "-q", "--format", "json", "-c", sql))


def read(objects, sql):
    """The answer over HTTP, and the path and range of each request for chunks."""
    with Shelf(objects) as shelf:
        found = answer(f"http://127.0.0.1:{shelf.port}/box/x.vcz", sql)
        asked = [(path, headers.get("range")) for (_, path), headers in zip(shelf.requests, shelf.headers, strict=True)]
    assert all(path.startswith("/box/x.vcz/") for path, _ in asked)
    return found, [(path, part) for path, part in asked if "/c/" in path], len(asked)


@pytest.mark.parametrize("layout", sorted(path.name for path in LAYOUTS.glob("v3-sharded-*.vcz.zip")))
def test_small_shards_are_read_once(layout):
    with zipfile.ZipFile(LAYOUTS / layout) as archive:
        objects = {f"x.vcz/{key}": archive.read(key) for key in archive.namelist() if not key.endswith("/")}
    found, chunks, requests = read(objects, FIXED)
    assert found == answer(LAYOUTS / layout, FIXED)
    # Two shards of genotypes and of positions, three chunks of alleles, and the names of samples and contigs.
    assert len(chunks) == len(set(chunks)) == 9, chunks
    # Without a listing and consolidated metadata, arrays are looked up by their names.
    assert requests <= 45


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    path = tmp_path_factory.mktemp("large") / "x.vcz"
    group = zarr.open_group(path, mode="w", zarr_format=3, attributes={"vcf_zarr_version": "0.4", "source": "tests/clients/test_shards.py"})
    arrays = {
        "sample_id": (np.array([f"s{i}" for i in range(SAMPLES)], dtype="U4"), ["samples"]),
        "contig_id": (np.array(["1"], dtype="U1"), ["contigs"]),
        "variant_contig": (np.zeros(VARIANTS, dtype="i4"), ["variants"]),
        "variant_position": (np.arange(1, VARIANTS + 1, dtype="i4"), ["variants"]),
        "variant_allele": (np.tile(np.array([["A", "C"]], dtype="U1"), (VARIANTS, 1)), ["variants", "alleles"]),
    }
    for name, (data, dimensions) in arrays.items():
        group.create_array(name, data=data, chunks=data.shape, compressors=None, dimension_names=dimensions)
    genotypes = np.random.default_rng(1).integers(0, 2, (VARIANTS, SAMPLES, 2), dtype=np.int8)
    grid = {"chunks": (ROWS, SAMPLES, 2), "shards": (SHARD, SAMPLES, 2)}
    group.create_array("call_genotype", data=genotypes, **grid, compressors=None, dimension_names=["variants", "samples", "ploidy"])
    zarr.consolidate_metadata(str(path))
    return path, genotypes, {f"x.vcz/{file.relative_to(path)}": file.read_bytes() for file in path.rglob("*") if file.is_file()}


@pytest.mark.parametrize("where, rows, shards", [("", slice(0, VARIANTS), 2), (" WHERE variant_position BETWEEN 13151 AND 13250", slice(13150, 13250), 1)])
def test_large_shards_are_read_once(large, where, rows, shards):
    path, genotypes, objects = large
    found, chunks, requests = read(objects, LARGE + where)
    derived = genotypes[rows].sum(axis=(1, 2))
    assert found == answer(path, LARGE + where) == [{"sfs": np.bincount(derived, minlength=2 * SAMPLES + 1).tolist(), "n": len(derived)}]
    # Only shards with rows of the region.
    assert len([path for path, _ in chunks if "/call_genotype/" in path]) == shards and requests <= 15, chunks
