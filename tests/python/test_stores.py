"""Every number that `expected.json` has of the fixtures, through the module."""

import json
import math

import pytest

import vcz
from conftest import FIXTURES

EXPECTED = json.loads((FIXTURES / "expected.json").read_text())
def close(found, expected):
    if expected is None or found is None:
        return found is None and expected is None
    return math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-9)


def same(found, expected):
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(same, found, expected))
    return close(found, expected)


def compare(found, expected, keys, place):
    """Compares these keys of two dicts, and returns their number."""
    for key in keys:
        assert same(found[key], expected[key]), f"{place}: {key} is {found[key]}, expected {expected[key]}"
    return len(keys)


def of_population(db, population, expected, alleles):
    argument = "" if population == "all" else f", '{population}'"
    x, m = f"call_genotype{argument}", expected["project_m"]
    sums = ", ".join(f"sum(allele_counts({x})[{allele}])" for allele in range(1, alleles + 1))
    found = db.sql(
        f"""SELECT count(*) FILTER (WHERE allele_number(allele_counts({x})) > 0) AS sites_with_data,
                   sum(allele_number(allele_counts({x}))) AS allele_number, make_array({sums}) AS allele_count_sums,
                   CAST(cardinality(sfs({x})) AS BIGINT) - 1 AS copies, diversity({x}) AS diversity, segregating_sites({x}) AS segregating_sites,
                   theta_w({x}) AS theta_w, tajimas_d({x}) AS tajimas_d, sfs({x}) AS sfs, sfs_folded({x}) AS sfs_folded,
                   project_sfs({x}, $m) AS project_sfs, project_sfs_folded({x}, $m) AS project_sfs_folded FROM t""",
        {"m": m},
    ).to_pylist()[0]
    compared = compare(found, expected, list(found), population)
    named = None if population == "all" else population
    for key, spectrum in {
        "sfs": db.sfs("t", named),
        "sfs_folded": db.sfs("t", named, folded=True),
        "project_sfs": db.sfs("t", named, project=m),
        "project_sfs_folded": db.sfs("t", named, project=m, folded=True),
    }.items():
        assert same(spectrum.tolist(), expected[key]), (population, key)
        assert not spectrum.folded or spectrum.copies in (m, expected["copies"])
    if "estimators" in expected:
        columns = ", ".join(f"{name}({x}) AS {name}" for name in expected["estimators"])
        compared += compare(
            db.sql(f"SELECT {columns} FROM t").to_pylist()[0], expected["estimators"], expected["estimators"], population
        )
        tests = {"test_pi_w": "'pi', 'w'", "test_h_no_singletons": "'h', 'no_singletons'"}
        columns = ", ".join(
            f"spectrum_test(s, {tests[name]}) AS {name}" if name in tests else f"spectrum_theta(s, '{name}') AS {name}"
            for name in expected["of_spectrum"]
        )
        found = db.sql(f"SELECT {columns} FROM (SELECT sfs({x}) AS s FROM t)").to_pylist()[0]
        compared += compare(found, expected["of_spectrum"], expected["of_spectrum"], population)
    return compared


def of_pair(db, first, second, expected):
    x, (m1, m2) = f"call_genotype, '{first}', '{second}'", expected["project_m"]
    found = db.sql(
        f"""SELECT divergence({x}) AS divergence, fst_hudson({x}) AS fst_hudson,
                   project_joint_sfs({x}, ?, ?) AS project_joint_sfs, project_joint_sfs_folded({x}, ?, ?) AS project_joint_sfs_folded FROM t""",
        [m1, m2, m1, m2],
    ).to_pylist()[0]
    compared = compare(found, expected, list(found), (first, second))
    weights = lambda grid: [[31 * i + 17 * j + 1 for j in range(grid.shape[1])] for i in range(grid.shape[0])]
    grid, folded = db.joint_sfs("t", first, second), db.joint_sfs("t", first, second, folded=True)
    summary = {
        "joint_sfs_cells": int((grid != 0).sum()),
        "joint_sfs_total": int(grid.sum()),
        "joint_sfs_checksum": int((grid * weights(grid)).sum()),
        "joint_sfs_folded_checksum": float((folded * weights(folded)).sum()),
    }
    return compared + compare(summary, expected, list(summary), (first, second))


@pytest.mark.parametrize("name", ["sim.vcz", "missing.v3.vcz", "haploid.vcz", "tetraploid.vcz", "chunks7.v3.vcz", "wide_alleles.vcz"])
def test_expected_numbers(name):
    expected, compared = EXPECTED[name], 0
    stem = name.split(".")[0]
    with vcz.connect() as db:
        db.open(FIXTURES / f"{name}.zip", name="t", populations=FIXTURES / f"{stem}.populations.tsv")
        head = db.sql("SELECT count(*) AS variants, min(variant_position) AS position_min, max(variant_position) AS position_max FROM t")
        compared += compare(head.to_pylist()[0], expected, ["variants", "position_min", "position_max"], name)
        contigs = db.sql("SELECT variant_contig AS c, count(*) AS n FROM t GROUP BY 1").to_pylist()
        assert {row["c"]: row["n"] for row in contigs} == expected["contigs"]
        populations = [key for key in expected if isinstance(expected[key], dict) and "diversity" in expected[key]]
        for population in populations:
            if expected[population]["copies"] > 0:
                compared += of_population(db, population, expected[population], expected["n_alleles"])
        for first in populations:
            for second in populations:
                if f"{first}_{second}" in expected:
                    compared += of_pair(db, first, second, expected[f"{first}_{second}"])
    assert compared > 30, f"{name}: only {compared} numbers were compared"


def test_against_scikit_allel():
    """In one process, on a store in which it is right."""
    allel = pytest.importorskip("allel")
    with vcz.connect(FIXTURES / "sim.vcz.zip", populations=FIXTURES / "sim.populations.tsv") as db:
        genotypes = allel.GenotypeArray(db.sql("SELECT call_genotype FROM sim ORDER BY variant_contig, variant_position").to_numpy())
        counts = genotypes.count_alleles(max_allele=3)
        found = db.sql("SELECT diversity(call_genotype) AS pi, segregating_sites(call_genotype) AS s FROM sim").to_pylist()[0]
        assert math.isclose(found["pi"], allel.mean_pairwise_difference(counts).sum(), rel_tol=1e-9)
        assert found["s"] == counts.is_segregating().sum()
