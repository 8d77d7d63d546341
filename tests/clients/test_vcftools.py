"""Linkage disequilibrium equals vcftools' to the digits that it prints, at biallelic sites."""

import numpy as np
import pytest

from programs import run, table, write_vcf

ROWS = 150


@pytest.fixture(params=["part", "part_missing", "missing"])
def store(peer_stores, request):
    return peer_stores[request.param]


def pairs(store, folder, option, columns):
    """vcftools' numbers of pairs of biallelic rows, the first of a contig, and the rows of the table of pairs here, by their row numbers."""
    rows = np.flatnonzero(store.biallelic & (store.contig == store.contig[0]))[:ROWS]
    write_vcf(store, folder / "in.vcf", rows)
    run("vcftools", "--vcf", "in.vcf", option, "--out", "out", folder=folder)
    row_of = {str(store.position[row]): row for row in rows}
    (path,) = folder.glob("out.*.ld")
    columns = [table(path)[name] for name in ["POS1", "POS2", *columns]]
    wanted = {(row_of[one], row_of[other]): [float(value) for value in values] for one, other, *values in zip(*columns)}
    assert len(wanted) == len(rows) * (len(rows) - 1) // 2
    found = store.rows(f"SELECT * FROM vcz_ld('{store.name}', {store.position.max()}) WHERE contig = '{store.contig[0]}'")
    among = set(rows.tolist())
    return wanted, {(row["row1"], row["row2"]): row for row in found if {row["row1"], row["row2"]} <= among}


def test_haplotypes(store, tmp_path):
    wanted, found = pairs(store, tmp_path, "--hap-r2", ["N_CHR", "R^2", "D", "Dprime"])
    compared = 0
    for pair, values in wanted.items():
        if np.isfinite(values[1]):
            row = found.pop(pair)
            assert row["n"] == values[0], pair
            for name, value in zip(["r2", "d", "d_prime"], values[1:]):
                # Six digits.
                assert row[name] == pytest.approx(value, rel=6e-6, abs=1e-14), (pair, name)
            compared += 1
        else:
            assert pair not in found
    assert compared > 2_000 and not found


def test_genotypes(store, tmp_path):
    wanted, found = pairs(store, tmp_path, "--geno-r2", ["N_INDV", "R^2"])
    compared = 0
    for pair, (_, r2) in wanted.items():
        row = found.pop(pair, {"r2_genotypes": None})
        if np.isfinite(r2):
            assert row["r2_genotypes"] == pytest.approx(r2, rel=6e-6, abs=1e-14), pair
            compared += 1
        else:
            assert row["r2_genotypes"] is None
    assert compared > 2_000 and not found
