"""The recipes sql/genes.sql, sql/f_statistics.sql and sql/sex_chromosomes.sql, run as their first lines say: every value is that of numpy and
scikit-allel on the fixtures' genotypes."""

import csv
import gzip
import json
import subprocess

import allel
import numpy as np
import pytest

from server import FIXTURES, REPOSITORY, VCZ


def results(recipe):
    """The rows of each query of a recipe."""
    command = [VCZ, "sql", "-q", "--format", "json", "-f", f"sql/{recipe}.sql"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=REPOSITORY)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[{")]


def sheet(name):
    """The rows of a table with a header, by their first column."""
    with open(FIXTURES / name, newline="") as file:
        return {row["sample_id"]: row for row in csv.DictReader(file, delimiter="\t")}


def samples_of(store):
    """The names of the fixtures' samples, in their order."""
    found = store.rows("SELECT sample_id FROM vcz_samples('" + store.name + "') ORDER BY sample_index")
    return [row["sample_id"] for row in found]


def members(store, sheet_name, column):
    """The rows of `samples_of` by the values of a column."""
    rows, names = sheet(sheet_name), samples_of(store)
    values = sorted({row[column] for row in rows.values()})
    return {value: [i for i, name in enumerate(names) if rows[name][column] == value] for value in values}


def counts(store, samples, rows=slice(None)):
    return allel.GenotypeArray(store.genotypes[rows][:, samples]).count_alleles(max_allele=store.genotypes.max())


def hudson_fst(first, second):
    numerator, denominator = allel.hudson_fst(first, second)
    return np.nansum(numerator) / np.nansum(denominator)


def diversity(ac):
    return np.nansum(allel.mean_pairwise_difference(ac))


def equal(found, wanted):
    assert found == pytest.approx(float(wanted), rel=1e-9), (found, wanted)


def test_genes(peer_stores):
    sim = peer_stores["sim"]
    populations = members(sim, "sim.populations.tsv", "population")
    genes, exons, gene_of = {}, {}, {}
    with gzip.open(FIXTURES / "sim.genes.gff3.gz", "rt") as file:
        for line in file:
            if line.startswith("#"):
                continue
            contig, _, kind, start, stop, _, _, _, attributes = line.rstrip("\n").split("\t")
            attributes = dict(pair.split("=") for pair in attributes.split(";"))
            interval = (contig, int(start), int(stop))
            if kind == "gene":
                genes[attributes["ID"]] = interval
            elif kind == "mRNA":
                gene_of[attributes["ID"]] = attributes["Parent"]
            else:
                exons.setdefault(gene_of[attributes["Parent"]], []).append(interval)
    accessible = {contig: np.zeros(400_000, dtype=bool) for contig in set(sim.contig)}
    for line in (FIXTURES / "sim.accessible.bed").read_text().splitlines():
        if not line.startswith("#"):
            contig, start, end = line.split("\t")[:3]
            accessible[contig][int(start) + 1 : int(end) + 1] = True
    inside = lambda contig, start, stop: (sim.contig == contig) & (sim.position >= start) & (sim.position <= stop)
    open_sites = np.array([accessible[contig][position] for contig, position in zip(sim.contig, sim.position)])
    of_genes, of_exons = results("genes")
    assert [row["gene"] for row in of_genes] == sorted(genes)
    for row in of_genes:
        contig, start, stop = genes[row["gene"]]
        rows = np.flatnonzero(inside(contig, start, stop) & open_sites)
        bases = int(accessible[contig][start : stop + 1].sum())
        assert (row["bases"], row["sites"]) == (bases, len(rows))
        first, second = (counts(sim, samples, rows) for samples in populations.values())
        if bases == 0:
            assert row["pi"] is None
        else:
            equal(row["pi"], diversity(first) / bases)
        if len(rows) == 0:
            assert row["fst"] is None
        else:
            equal(row["fst"], hudson_fst(first, second))
    assert sum(row["sites"] > 0 for row in of_genes) > 5
    with_sites = []
    for gene in sorted(exons):
        rows = np.flatnonzero(np.any([inside(*exon) for exon in exons[gene]], axis=0))
        if len(rows):
            ac = counts(sim, populations["first"], rows)
            with_sites.append((gene, len(rows), ac.count_segregating(), diversity(ac)))
    assert [(row["gene"], row["sites"], row["segregating"]) for row in of_exons] == [of[:3] for of in with_sites]
    for row, (_, _, _, pi) in zip(of_exons, with_sites):
        equal(row["pi_sum"], pi)


def jackknife(numerators, denominators, weights):
    """The estimate, its standard error, z, and the number of blocks (Busing et al. 1999, weights are numbers of sites)."""
    used = weights > 0
    numerators, denominators, weights = numerators[used], denominators[used], weights[used]
    blocks, n = len(weights), weights.sum()
    estimate = numerators.sum() / denominators.sum()
    without = (numerators.sum() - numerators) / (denominators.sum() - denominators)
    h = n / weights
    center = blocks * estimate - np.sum((1 - weights / n) * without)
    pseudo = h * estimate - (h - 1) * without
    error = np.sqrt(np.mean((pseudo - center) ** 2 / (h - 1)))
    return estimate, error, estimate / error, blocks


def test_f_statistics(peer_stores):
    sim = peer_stores["sim"]
    cohorts = [range(8), range(8, 15), range(15, 23), range(23, sim.genotypes.shape[1])]
    ac = [counts(sim, list(samples)) for samples in cohorts]
    a, b, c, d = (np.asarray(of) / of.sum(axis=1, keepdims=True) for of in ac)
    products = a * b * c * d
    baba = (a * c).sum(1) * (b * d).sum(1) - products.sum(1)
    abba = (a * d).sum(1) * (b * c).sum(1) - products.sum(1)
    f4 = ((a - b) * (c - d)).sum(1) / 2
    within = lambda of: allel.mean_pairwise_difference(of)
    between = lambda x, y: allel.mean_pairwise_difference_between(x, y)
    estimates, with_errors, pairs = results("f_statistics")
    (estimates,) = estimates
    equal(estimates["d"], (baba - abba).sum() / (baba + abba).sum())
    equal(estimates["f4"], f4.mean())
    f3 = (between(ac[2], ac[0]) + between(ac[2], ac[3]) - between(ac[0], ac[3]) - within(ac[2])) / 2
    equal(estimates["f3_of_c"], f3.mean())
    equal(estimates["f2_of_a_b"], (between(ac[0], ac[1]) - (within(ac[0]) + within(ac[1])) / 2).mean())
    length = {pair: -np.log(1 - hudson_fst(ac[pair[0]], ac[pair[1]])) for pair in [(0, 1), (0, 3), (1, 3)]}
    equal(estimates["pbs_of_a"], (length[0, 1] + length[0, 3] - length[1, 3]) / 2)
    # Of two alleles, scikit-allel has D and f3 as well.
    two = sim.biallelic
    numerator, denominator = allel.patterson_d(*(of[two][:, :2] for of in ac))
    np.testing.assert_allclose((baba - abba)[two], numerator, atol=1e-12)
    np.testing.assert_allclose((baba + abba)[two], denominator, atol=1e-12)

    blocks = [(contig, (position - 1) // 50_000) for contig, position in zip(sim.contig, sim.position)]
    names = sorted(set(blocks))
    of_block = np.array([names.index(block) for block in blocks])
    total = lambda values: np.bincount(of_block, values, len(names))
    sites = total(np.ones(len(of_block)))
    wanted = {"D": jackknife(total(baba - abba), total(baba + abba), sites), "f4": jackknife(total(f4), sites, sites)}
    assert [row["statistic"] for row in with_errors] == list(wanted)
    for row in with_errors:
        estimate, error, z, number = wanted[row["statistic"]]
        equal(row["estimate"], estimate)
        equal(row["se"], error)
        equal(row["z"], z)
        assert row["blocks"] == number > 5

    first, second = (counts(sim, samples) for samples in members(sim, "sim.populations.tsv", "population").values())
    (pair,) = pairs
    assert (pair["population1"], pair["population2"]) == ("first", "second")
    equal(pair["fst"], hudson_fst(first, second))
    equal(pair["da"], np.sum(between(first, second) - (within(first) + within(second)) / 2))
    seen = [np.asarray(of) > 0 for of in (first, second)]
    common = (seen[0] & seen[1]).sum(1)
    assert pair["polymorphism"] == {
        "fixed": int((common == 0).sum()),
        "private1": int(((common == 1) & (seen[0].sum(1) > 1)).sum()),
        "private2": int(((common == 1) & (seen[1].sum(1) > 1)).sum()),
        "shared": int((common >= 2).sum()),
    }


def spectrum(ac, n):
    """Sites with `n` called copies by their copies of derived alleles."""
    complete = ac.sum(axis=1) == n
    return np.bincount(np.asarray(ac)[complete][:, 1:].sum(axis=1), minlength=n + 1).tolist()


def test_sex_chromosomes(peer_stores):
    store = peer_stores["missing"]
    populations = members(store, "missing.sexes.tsv", "population")
    sexes = members(store, "missing.sexes.tsv", "sex")
    contigs = sorted(set(store.contig))
    assert contigs == ["1", "X"]
    by_sex, by_population, females, males = results("sex_chromosomes")
    wanted = []
    for contig in contigs:
        rows = np.flatnonzero(store.contig == contig)
        for name, samples in populations.items():
            ac = counts(store, samples, rows)
            n = int(ac.sum(axis=1).max())
            assert n == sum(1 if contig == "X" and sample in sexes["M"] else 2 for sample in samples)
            wanted.append((contig, name, n, spectrum(ac, n), diversity(ac)))
    assert [tuple(row.values()) for row in by_sex] == [(contig, name, n, n) for contig, name, n, _, _ in wanted]
    assert [(row["variant_contig"], row["population"], row["n"], row["sfs"]) for row in by_population] == [of[:4] for of in wanted]
    for row, (*_, pi) in zip(by_population, wanted):
        equal(row["pi_sum"], pi)
    for contig, row in zip(contigs, females):
        ac = counts(store, sexes["F"], np.flatnonzero(store.contig == contig))
        assert row == {"variant_contig": contig, "sfs": spectrum(ac, 2 * len(sexes["F"]))}
    for contig, row in zip(contigs, males):
        ac = counts(store, sexes["M"], np.flatnonzero(store.contig == contig))
        n = len(sexes["M"]) * (1 if contig == "X" else 2)
        assert row == {"variant_contig": contig, "n": n, "sfs": spectrum(ac, n)} and sum(row["sfs"][1:]) > 0
