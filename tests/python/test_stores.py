"""The numbers that `expected.json` has of the fixtures, and of the real stores where those are present, through the module."""

import json
import math
import os
import pathlib

import pytest

import vcz
from conftest import FIXTURES, TOP

SHARED = pathlib.Path(os.environ.get("VCZ_SHARED") or TOP.parent / "shared" / "data")


def expected_of(folder):
    """The stores of a folder with what is expected of them, by their names."""
    found = json.loads((folder / "expected.json").read_text())
    return {name: (folder, values) for name, values in found.items()}


FIXTURE_STORES = expected_of(FIXTURES)
REAL_STORES = expected_of(SHARED) if SHARED.is_dir() else {}


def close(found, expected):
    if expected is None or found is None:
        return found is None and expected is None
    return math.isclose(found, expected, rel_tol=1e-12, abs_tol=1e-12)


def same(found, expected):
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(same, found, expected))
    return close(found, expected)


def compare(found, expected, keys, place):
    """Compares these keys of two dicts, and returns their number."""
    for key in keys:
        assert same(found[key], expected[key]), f"{place}: {key} is {found[key]}, expected {expected[key]}"
    return len(keys)


def of_population(db, population, samples, expected, alleles):
    """Compares the statistics of a population, which is a name or a list of samples; of all samples if it is None."""
    x, m = "call_genotype" if samples is None else "call_genotype, $p", expected["project_m"]
    values = {} if samples is None else {"p": samples}
    sums = ", ".join(f"sum(allele_counts({x})[{allele}])" for allele in range(1, alleles + 1))
    found = db.sql(
        f"""SELECT count(*) FILTER (WHERE allele_number(allele_counts({x})) > 0) AS sites_with_data,
                   sum(allele_number(allele_counts({x}))) AS allele_number, make_array({sums}) AS allele_count_sums,
                   CAST(cardinality(sfs({x})) AS BIGINT) - 1 AS copies, diversity({x}) AS diversity, segregating_sites({x}) AS segregating_sites,
                   theta_w({x}) AS theta_w, tajimas_d({x}) AS tajimas_d, sfs({x}) AS sfs, sfs_folded({x}) AS sfs_folded,
                   project_sfs({x}, $m) AS project_sfs, project_sfs_folded({x}, $m) AS project_sfs_folded FROM t""",
        {"m": m, **values},
    ).to_pylist()[0]
    compared = compare(found, expected, list(found), population)
    for key, spectrum in {
        "sfs": db.sfs("t", samples),
        "sfs_folded": db.sfs("t", samples, folded=True),
        "project_sfs": db.sfs("t", samples, project=m),
        "project_sfs_folded": db.sfs("t", samples, project=m, folded=True),
    }.items():
        assert same(spectrum.tolist(), expected[key]), (population, key)
        assert not spectrum.folded or spectrum.copies in (m, expected["copies"])
    if "estimators" in expected:
        columns = ", ".join(f"{name}({x}) AS {name}" for name in expected["estimators"])
        compared += compare(
            db.sql(f"SELECT {columns} FROM t", values).to_pylist()[0], expected["estimators"], expected["estimators"], population
        )
        tests = {"test_pi_w": "'pi', 'w'", "test_h_no_singletons": "'h', 'no_singletons'"}
        columns = ", ".join(
            f"spectrum_test(s, {tests[name]}) AS {name}" if name in tests else f"spectrum_theta(s, '{name}') AS {name}"
            for name in expected["of_spectrum"]
        )
        found = db.sql(f"SELECT {columns} FROM (SELECT sfs({x}) AS s FROM t)", values).to_pylist()[0]
        compared += compare(found, expected["of_spectrum"], expected["of_spectrum"], population)
    return compared


def of_pair(db, first, second, expected):
    m1, m2 = expected["project_m"]
    found = db.sql(
        """SELECT divergence(call_genotype, $1, $2) AS divergence, fst_hudson(call_genotype, $1, $2) AS fst_hudson,
                  project_joint_sfs(call_genotype, $1, $2, $3, $4) AS project_joint_sfs,
                  project_joint_sfs_folded(call_genotype, $1, $2, $3, $4) AS project_joint_sfs_folded FROM t""",
        [first, second, m1, m2],
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


def halves(db):
    """The samples' first half and the rest, for stores without a file of populations."""
    samples = db.sql("SELECT sample_id FROM vcz_samples('t') ORDER BY sample_index").to_numpy().tolist()
    middle = (len(samples) + 1) // 2
    return {"first": samples[:middle], "second": samples[middle:]}


def check_sites(db, name, expected):
    head = db.sql(
        """SELECT count(*) AS variants, min(variant_position) AS position_min, max(variant_position) AS position_max,
                  (SELECT count(*) FROM vcz_samples('t')) AS samples, (SELECT count(*) FROM vcz_arrays('t')) AS arrays FROM t"""
    ).to_pylist()[0]
    # The fixtures' values do not have the number of arrays.
    compare(head, {"arrays": head["arrays"], **expected}, list(head), name)
    contigs = db.sql("SELECT variant_contig AS c, count(*) AS n FROM t GROUP BY 1").to_pylist()
    assert {row["c"]: row["n"] for row in contigs} == expected["contigs"]


def check_genotypes(db, name, expected, named):
    """Compares everything of the genotypes, and returns the number of values. `named` tells whether populations have names."""
    classes = list(expected["genotype_counts"])
    sums = ", ".join(f"sum(genotype_counts(call_genotype)['{one}']) AS {one}" for one in classes)
    compared = compare(db.sql(f"SELECT {sums} FROM t").to_pylist()[0], expected["genotype_counts"], classes, name)
    array = db.sql("SELECT shape, chunks FROM vcz_arrays('t') WHERE name = 'call_genotype'").to_pylist()[0]
    assert array["shape"] == [expected[key] for key in ("variants", "samples", "ploidy")]
    assert array["chunks"] == expected.get("chunks", array["chunks"])
    assert db.sql("SELECT call_genotype FROM t LIMIT 1").to_numpy().shape == (1, *array["shape"][1:])
    populations = {key: values for key, values in expected.items() if isinstance(values, dict) and "diversity" in values}
    members = {"all": None, **({key: key for key in populations if key != "all"} if named else halves(db))}
    for population, values in populations.items():
        if values["copies"] > 0:
            compared += of_population(db, population, members[population], values, expected["n_alleles"])
        else:
            # Nobody, which is never everybody.
            with pytest.raises(vcz.Error, match="the population is an empty list"):
                db.sfs("t", [])
    for first in populations:
        for second in populations:
            if f"{first}_{second}" in expected and populations[first]["copies"] > 0 < populations[second]["copies"]:
                compared += of_pair(db, members[first], members[second], expected[f"{first}_{second}"])
    return compared


@pytest.mark.filterwarnings("ignore::vcz.Notice")
@pytest.mark.parametrize("name", [*FIXTURE_STORES, *(f"shared/{name}" for name in REAL_STORES)])
def test_expected_numbers(name):
    folder, expected = REAL_STORES[name[7:]] if name.startswith("shared/") else FIXTURE_STORES[name]
    name = name.removeprefix("shared/")
    populations = folder / f"{name.removesuffix('.vcz').removesuffix('.v3')}.populations.tsv"
    with vcz.connect() as db:
        db.open(folder / f"{name}.zip", name="t", populations=populations if populations.exists() else None)
        check_sites(db, name, expected)
        if "all" in expected:
            compared = check_genotypes(db, name, expected, populations.exists())
            assert compared > 15, f"{name}: only {compared} numbers were compared"


def test_real_stores_are_present(capsys):
    assert sum("all" in values for _, values in FIXTURE_STORES.values()) >= 10
    if not REAL_STORES:
        with capsys.disabled():
            print(f"\nNOT RUN: the real stores of {SHARED} are not here; only the fixtures are tested")
        pytest.skip(f"NOT RUN: there is no {SHARED}")
    assert len(REAL_STORES) >= 27 and "gambX.vcz" in REAL_STORES


def test_against_scikit_allel():
    """In one process, on a store in which it is right."""
    allel = pytest.importorskip("allel")
    with vcz.connect(FIXTURES / "sim.vcz.zip", populations=FIXTURES / "sim.populations.tsv") as db:
        genotypes = allel.GenotypeArray(db.sql("SELECT call_genotype FROM sim ORDER BY variant_contig, variant_position").to_numpy())
        counts = genotypes.count_alleles(max_allele=3)
        found = db.sql("SELECT diversity(call_genotype) AS pi, segregating_sites(call_genotype) AS s FROM sim").to_pylist()[0]
        assert math.isclose(found["pi"], allel.mean_pairwise_difference(counts).sum(), rel_tol=1e-9)
        assert found["s"] == counts.is_segregating().sum()
