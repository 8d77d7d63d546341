"""The recipe sql/two_populations.sql, as its first lines say, from a VCF: bio2zarr converts it, and the values are those of scikit-allel."""

import csv
import json
import pathlib
import subprocess
import sys

import allel
import msprime
import numpy as np
import pysam
import pytest

from server import REPOSITORY, VCZ

LENGTH = 50_000
# The header that tskit writes has one base more where positions are from 1.
INDIVIDUALS = {"first": 6, "second": 5}


def write_vcf(path):
    """Two populations of diploids on one contig, compressed and indexed."""
    demography = msprime.Demography()
    for name in ("first", "second", "both"):
        demography.add_population(name=name, initial_size=10_000)
    demography.add_population_split(time=4_000, derived=["first", "second"], ancestral="both")
    ts = msprime.sim_ancestry(INDIVIDUALS, demography=demography, sequence_length=LENGTH, recombination_rate=1e-8, random_seed=21)
    ts = msprime.sim_mutations(ts, rate=4e-8, random_seed=22)
    names = [f"s{i}" for i in range(ts.num_individuals)]
    with open(path, "w") as file:
        ts.write_vcf(file, individual_names=names, contig_id="1", position_transform=lambda positions: 1 + np.asarray(positions, dtype=int))
    pysam.tabix_compress(str(path), f"{path}.gz", force=True)
    pysam.tabix_index(f"{path}.gz", preset="vcf", force=True)
    return names


def test_two_populations_from_a_vcf(tmp_path):
    names = write_vcf(tmp_path / "in.vcf")
    first = names[: INDIVIDUALS["first"]]
    populations = tmp_path / "populations.tsv"
    with open(populations, "w") as file:
        csv.writer(file, delimiter="\t").writerows(
            [["sample_id", "population"], *([name, "first" if name in first else "second"] for name in names)]
        )
    subprocess.run(
        [pathlib.Path(sys.executable).with_name("vcf2zarr"), "convert", tmp_path / "in.vcf.gz", tmp_path / "in.vcz"], check=True, timeout=300
    )
    recipe = (REPOSITORY / "sql" / "two_populations.sql").read_text()
    recipe = recipe.replace("tests/fixtures/sim.vcz.zip", str(tmp_path / "in.vcz"))
    recipe = recipe.replace("tests/fixtures/sim.populations.tsv", str(populations))
    (tmp_path / "recipe.sql").write_text(recipe)
    done = subprocess.run(
        [VCZ, "sql", "-q", "--format", "json", "-f", tmp_path / "recipe.sql"], capture_output=True, text=True, timeout=120, cwd=REPOSITORY
    )
    assert done.returncode == 0, done.stderr
    results = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[{")]
    (_, contigs, (sums,), (spectra,), (joint,), cells) = results

    calls = allel.read_vcf(str(tmp_path / "in.vcf"), fields=["POS", "GT"])
    genotypes, positions = allel.GenotypeArray(calls["calldata/GT"]), calls["variants/POS"]
    number = INDIVIDUALS["first"]
    parts = {"first": range(number), "second": range(number, len(names))}
    counts = {name: genotypes.count_alleles(subpop=list(samples)) for name, samples in parts.items()}
    assert contigs == [{"contig": "1", "length": LENGTH + 1, "variants": len(positions)}]
    assert sums["sites"] == len(positions)
    for name, ac in counts.items():
        pi = allel.mean_pairwise_difference(ac, fill=0).sum() / (LENGTH + 1)
        assert sums[f"pi_{name}"] == pytest.approx(pi, rel=1e-9)
        assert sums[f"segregating_{name}"] == ac.count_segregating()
        assert sums[f"tajimas_d_{name}"] == pytest.approx(allel.tajima_d(ac), rel=1e-9)
        copies = 2 * INDIVIDUALS[name]
        derived = ac[:, 1:].sum(axis=1)
        assert spectra[f"sfs_{name}"] == np.bincount(derived, minlength=copies + 1).tolist()
        folded = np.bincount(np.minimum(derived, copies - derived), minlength=copies // 2 + 1)
        assert spectra[f"folded_{name}"] == folded.tolist()
    between = allel.mean_pairwise_difference_between(counts["first"], counts["second"], fill=0).sum() / (LENGTH + 1)
    assert sums["dxy"] == pytest.approx(between, rel=1e-9)
    numerator, denominator = allel.hudson_fst(counts["first"], counts["second"])
    assert sums["fst"] == pytest.approx(np.nansum(numerator) / np.nansum(denominator), rel=1e-9)
    expected = np.zeros([2 * n + 1 for n in INDIVIDUALS.values()], dtype=int)
    np.add.at(expected, tuple(ac[:, 1:].sum(axis=1) for ac in counts.values()), 1)
    assert joint["joint_sfs"] == expected.tolist()
    assert [(cell["first"], cell["second"], cell["sites"]) for cell in cells] == [
        (i, j, expected[i, j]) for i, j in np.argwhere(expected)
    ]
