"""What the tests of the Python package share."""

import pathlib
import signal
import sys

import pytest

import vcz

# A shell without job control has SIGINT ignored in what it starts in the background, and Python leaves it so.
signal.signal(signal.SIGINT, signal.default_int_handler)

TOP = pathlib.Path(__file__).parents[2]
FIXTURES = TOP / "tests" / "fixtures"
sys.path.insert(0, str(TOP / "tests" / "clients"))


@pytest.fixture
def db():
    with vcz.connect(FIXTURES / "sim.vcz.zip", populations=FIXTURES / "sim.populations.tsv") as db:
        yield db


@pytest.fixture(scope="session")
def absent(tmp_path_factory):
    """A store of 2,000,000 variants × 2,500 diploids, 10 GB of genotypes, whose chunks are absent: every call is 0/0."""
    import json

    import numpy as np
    from stores import array, metadata

    variants, samples = 2_000_000, 2_500
    path = tmp_path_factory.mktemp("absent") / "absent.vcz"
    path.mkdir()
    (path / ".zgroup").write_text('{"zarr_format": 2}')
    (path / ".zattrs").write_text('{"vcf_zarr_version": "0.4", "source": "tests/python"}')
    array(path, "sample_id", np.array([f"s{i}" for i in range(samples)], dtype="<U8"), ["samples"])
    array(path, "contig_id", np.array(["1"], dtype="<U2"), ["contigs"])
    array(path, "variant_contig", np.zeros(variants, dtype="<i4"), ["variants"])
    array(path, "variant_position", np.arange(1, variants + 1, dtype="<i4"), ["variants"])
    array(path, "variant_allele", np.tile(np.array([["A", "C"]], dtype="<U1"), (variants, 1)), ["variants", "alleles"])
    shape = (variants, samples, 2)
    folder = metadata(path, "call_genotype", shape, (1000, samples, 2), "|i1", ["variants", "samples", "ploidy"])
    described = json.loads((folder / ".zarray").read_text())
    (folder / ".zarray").write_text(json.dumps({**described, "fill_value": 0}))
    return path
