"""Large stores, made in no time: uncompressed chunks that are all the same file."""

import json
import os
import pathlib

import numpy as np


def array(store, name, data, dimensions):
    """Writes an array as one uncompressed chunk."""
    data = np.ascontiguousarray(data)
    folder = metadata(store, name, data.shape, data.shape, data.dtype.str, dimensions)
    (folder / ".".join("0" * data.ndim)).write_bytes(data.tobytes())


def metadata(store, name, shape, chunks, dtype, dimensions):
    folder = store / name
    folder.mkdir()
    described = {
        "zarr_format": 2, "shape": shape, "chunks": chunks, "dtype": dtype, "compressor": None, "fill_value": None,
        "order": "C", "filters": None,
    }
    (folder / ".zarray").write_text(json.dumps(described))
    (folder / ".zattrs").write_text(json.dumps({"_ARRAY_DIMENSIONS": dimensions}))
    return folder


def genotypes(rows, samples):
    """The genotypes of every chunk of a wide store."""
    return np.random.default_rng(1).integers(0, 2, (rows, samples, 2), dtype=np.int8)


def wide_store(path, variants, samples, rows=1000):
    """A store of diploids whose genotype chunks, of `rows` variants and all samples, are all the same."""
    path = pathlib.Path(path)
    path.mkdir()
    (path / ".zgroup").write_text('{"zarr_format": 2}')
    (path / ".zattrs").write_text('{"vcf_zarr_version": "0.4", "source": "tests/clients/stores.py"}')
    array(path, "sample_id", np.array([f"s{i}" for i in range(samples)], dtype="<U8"), ["samples"])
    array(path, "contig_id", np.array(["1"], dtype="<U2"), ["contigs"])
    array(path, "variant_contig", np.zeros(variants, dtype="<i4"), ["variants"])
    array(path, "variant_position", np.arange(1, variants + 1, dtype="<i4"), ["variants"])
    array(path, "variant_allele", np.tile(np.array([["A", "C"]], dtype="<U1"), (variants, 1)), ["variants", "alleles"])
    rows = min(rows, variants)
    folder = metadata(
        path, "call_genotype", (variants, samples, 2), (rows, samples, 2), "|i1", ["variants", "samples", "ploidy"]
    )
    first = folder / "0.0.0"
    first.write_bytes(genotypes(rows, samples).tobytes())
    for chunk in range(1, -(-variants // rows)):
        os.link(first, folder / f"{chunk}.0.0")
    return path
