"""Writes a store chunk by chunk in the layouts of bio2zarr and its neighbours: metadata by zarr-python, chunks by numcodecs.

`default` is what `bio2zarr` writes unasked: Zarr v2, Blosc(zstd, level 7), bit-shuffled for genotypes and booleans, byte-shuffled
for the rest, `fill_value` null, chunks that are all zero absent, a region index. `v3-blosc` is the same in Zarr v3, `v3-zstd` is
Zarr v3 with bare zstd.
"""

import concurrent.futures
import os
import pathlib
import sys

import numcodecs
import numcodecs.blosc
import numpy as np
import zarr
from zarr.core.dtype import VariableLengthUTF8

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tests/fixtures"))
from vcz_writer import region_index  # noqa: E402

LAYOUTS = ("default", "v3-blosc", "v3-zstd")
MISSING_FLOAT = np.array([0x7F800001], dtype="<u4").view("<f4")[0]
SHUFFLES = {numcodecs.Blosc.NOSHUFFLE: "noshuffle", numcodecs.Blosc.SHUFFLE: "shuffle", numcodecs.Blosc.BITSHUFFLE: "bitshuffle"}


class Array:
    """An array whose chunks are written one at a time, whole along all dimensions but the first two."""

    def __init__(self, store, name, shape, dtype, dims, shuffle=None, level=7):
        self.is_string = dtype is str
        if shuffle is None:
            shuffle = numcodecs.Blosc.BITSHUFFLE if dtype is bool else numcodecs.Blosc.SHUFFLE
        limit = {"variants": store.variant_chunk, "samples": store.sample_chunk}
        self.shape = tuple(shape)
        self.chunks = tuple(max(min(n, limit.get(d, n)), 1) for n, d in zip(shape, dims))
        self.dtype = object if self.is_string else np.dtype(dtype)
        options = dict(shape=self.shape, chunks=self.chunks, dtype=VariableLengthUTF8() if self.is_string else self.dtype)
        if store.layout == "default":
            self.codec = numcodecs.Blosc("zstd", level, shuffle)
            options |= dict(compressors=self.codec, fill_value=None, attributes={"_ARRAY_DIMENSIONS": list(dims)})
            self.prefix, self.separator = "", "."
        else:
            options |= dict(dimension_names=list(dims), fill_value="" if self.is_string else self.dtype.type(0))
            if store.layout == "v3-zstd":
                self.codec = numcodecs.Zstd(level=0)
                options |= dict(compressors=zarr.codecs.ZstdCodec(level=0))
            else:
                self.codec = numcodecs.Blosc("zstd", level, shuffle)
                size = 1 if self.is_string else self.dtype.itemsize
                codec = zarr.codecs.BloscCodec(typesize=size, cname="zstd", clevel=level, shuffle=SHUFFLES[shuffle])
                options |= dict(compressors=codec)
            self.prefix, self.separator = "c/", "/"
        store.group.create_array(name, **options)
        self.directory = store.directory / name

    def put(self, number, data):
        """Chunks `number` along the first dimension: all of them along the second."""
        step = self.chunks[1] if len(self.chunks) > 1 else None
        for column in range(-(-self.shape[1] // step) if step else 1):
            self.put_chunk(number, column, data[:, column * step : (column + 1) * step] if step else data)

    def put_chunk(self, number, column, part):
        whole = np.full(self.chunks, "", dtype=object) if self.is_string else np.zeros(self.chunks, dtype=self.dtype)
        whole[tuple(slice(0, n) for n in part.shape)] = part
        if not self.is_string and not whole.view(np.uint8).any():
            return  # absent: all zero
        raw = numcodecs.VLenUTF8().encode(whole) if self.is_string else whole
        indices = [number, column, *(0 for _ in self.chunks[2:])][: len(self.chunks)]
        path = self.directory / (self.prefix + self.separator.join(map(str, indices)))
        if self.separator == "/":
            path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.codec.encode(raw))


class Store:
    """A store being written: `put` a block of variants a call, then `finish`."""

    def __init__(self, directory, layout, variants, samples, alleles, variant_chunk, sample_chunk, calls=False):
        self.directory, self.layout = pathlib.Path(directory), layout
        self.variant_chunk, self.sample_chunk = variant_chunk, sample_chunk
        attributes = {"vcf_zarr_version": "0.4", "source": "benches/simulate"}
        zarr_format = 2 if layout == "default" else 3
        self.group = zarr.open_group(str(directory), mode="w", zarr_format=zarr_format, attributes=attributes)
        n, m = variants, len(samples)
        bits = numcodecs.Blosc.BITSHUFFLE
        self.arrays = {
            "variant_contig": Array(self, "variant_contig", [n], "i1", ["variants"]),
            "variant_position": Array(self, "variant_position", [n], "<i4", ["variants"]),
            "variant_length": Array(self, "variant_length", [n], "i1", ["variants"]),
            "variant_id": Array(self, "variant_id", [n], str, ["variants"]),
            "variant_id_mask": Array(self, "variant_id_mask", [n], bool, ["variants"]),
            "variant_allele": Array(self, "variant_allele", [n, alleles], str, ["variants", "alleles"]),
            "variant_quality": Array(self, "variant_quality", [n], "<f4", ["variants"]),
            "variant_filter": Array(self, "variant_filter", [n, 1], bool, ["variants", "filters"]),
            "call_genotype": Array(self, "call_genotype", [n, m, 2], "i1", ["variants", "samples", "ploidy"], bits),
            "call_genotype_mask": Array(self, "call_genotype_mask", [n, m, 2], bool, ["variants", "samples", "ploidy"]),
            "call_genotype_phased": Array(self, "call_genotype_phased", [n, m], bool, ["variants", "samples"]),
        }
        if calls:
            for name, dtype in (("call_DP", "<i2"), ("call_GQ", "i1")):
                self.arrays[name] = Array(self, name, [n, m], dtype, ["variants", "samples"])
        self.small("sample_id", samples, str, ["samples"])
        self.small("contig_id", ["1"], str, ["contigs"])
        self.small("filter_id", ["PASS"], str, ["filters"])
        self.small("filter_description", ["All filters passed"], str, ["filters"])
        self.positions = []
        # Outside the main thread, numcodecs' Blosc compresses in the calling thread and releases the interpreter's lock.
        self.pool = concurrent.futures.ThreadPoolExecutor(os.cpu_count())
        self.pending = []

    def small(self, name, data, dtype, dims, **options):
        data = np.asarray(data, dtype=object if dtype is str else dtype)
        array = Array(self, name, data.shape, dtype, dims, **options)
        for number in range(-(-len(data) // array.chunks[0])):
            array.put(number, data[number * array.chunks[0] : (number + 1) * array.chunks[0]])

    def put(self, number, positions, alleles, genotypes, fields):
        n = len(positions)
        self.positions.append(positions)
        while len(self.pending) > 2 * os.cpu_count():
            self.pending.pop(0).result()
        self.pending.append(self.pool.submit(self.put_now, number, n, positions, alleles, genotypes, fields))

    def put_now(self, number, n, positions, alleles, genotypes, fields):
        columns = {
            "variant_contig": np.zeros(n, dtype="i1"),
            "variant_position": positions,
            "variant_length": np.ones(n, dtype="i1"),
            "variant_id": np.full(n, ".", dtype=object),
            "variant_id_mask": np.ones(n, dtype=bool),
            "variant_allele": alleles,
            "variant_quality": np.full(n, MISSING_FLOAT),
            "variant_filter": np.ones((n, 1), dtype=bool),
            "call_genotype": genotypes,
            "call_genotype_mask": genotypes < 0,
            "call_genotype_phased": np.ones(genotypes.shape[:2], dtype=bool),
            **fields,
        }
        for name, data in columns.items():
            self.arrays[name].put(number, data)

    def finish(self, contig_length):
        for future in self.pending:
            future.result()
        self.small("contig_length", [contig_length], "<i8", ["contigs"])
        positions = np.concatenate(self.positions)
        zeros, ones = np.zeros(len(positions), dtype=np.int32), np.ones(len(positions), dtype=np.int32)
        index = region_index(zeros, positions, ones, self.variant_chunk)
        dims = ["region_index_values", "region_index_fields"]
        self.small("region_index", index, "<i4", dims, shuffle=numcodecs.Blosc.NOSHUFFLE, level=9)

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.pool.shutdown(cancel_futures=True)
