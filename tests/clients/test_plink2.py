"""Relationship of individuals equals plink2's: KING's counts and kinship, relationship matrices, principal components.

plink2 takes haploid calls for homozygous ones, so it has them as missing here. Contigs X, Y and M, which it leaves out, have other
names.
"""

import numpy as np
import pytest

from programs import run, table, write_vcf

HALF_CALLS = ("--vcf-half-call", "missing")
# Without it plink2 refuses frequencies of fewer than 50 individuals.
FEW = "--bad-freqs"


@pytest.fixture(params=["part", "part_missing", "sim", "missing"])
def store(peer_stores, request):
    return peer_stores[request.param]


def plink2(store, folder, *arguments, rows=slice(None)):
    write_vcf(store, folder / "in.vcf", rows, haploid=False)
    run("plink2", "--vcf", "in.vcf", *HALF_CALLS, "--threads", "1", "--out", "out", *arguments, folder=folder)


def complete_diploids(store):
    """Dosages of the alleles other than the reference, NaN where not both copies are called."""
    called = (store.genotypes >= 0).all(axis=2)
    return np.where(called, (store.genotypes > 0).sum(axis=2), np.nan)


def varying(store):
    """Whether each row varies among complete diploids."""
    x = complete_diploids(store)
    return (np.nansum(x, axis=1) > 0) & (np.nansum(2 - x, axis=1) > 0)


def square(rows, column):
    """The lower triangle of a matrix as a square matrix."""
    n = int(np.sqrt(2 * len(rows)))
    assert n * (n + 1) == 2 * len(rows)
    found = np.empty((n, n))
    lower = np.tril_indices(n)
    found[lower] = [row[column] for row in rows]
    found.T[lower] = found[lower]
    return found


@pytest.mark.parametrize("population", [None, "p2"])
def test_king(store, population, tmp_path):
    members = np.arange(store.genotypes.shape[1]) if population is None else store.populations[population]
    (tmp_path / "keep").write_text("".join(f"s{i}\n" for i in members))
    plink2(store, tmp_path, "--keep", "keep", "--make-king-table", "counts", "cols=id,nsnp,hethet,ibs0,ibs1,kinship")
    wanted = table(tmp_path / "out.kin0")
    columns = ["IID1", "IID2", "NSNP", "HETHET", "IBS0", "HET1_HOM2", "HET2_HOM1", "KINSHIP"]
    pairs = {}
    for id1, id2, sites, het_het, opposite, one, other, kinship in zip(*(wanted[name] for name in columns)):
        # Versions differ in which of the last two counts they call HET1_HOM2.
        het = sorted([int(het_het) + int(one), int(het_het) + int(other)])
        pairs[tuple(sorted([int(id1[1:]), int(id2[1:])]))] = [int(sites), int(het_het), int(opposite), *het], float(kinship)
    argument = "" if population is None else f", '{population}'"
    found = store.rows(f"""
        SELECT p['sites'] AS sites, p['het_het'] AS het_het, p['opposite'] AS opposite, p['het1'] AS het1, p['het2'] AS het2,
               kinship_king(p['het_het'], p['opposite'], p['het1'], p['het2']) AS kinship
        FROM (SELECT unnest(sample_pairs(call_genotype{argument})) AS p FROM {{t}})""")
    x = complete_diploids(store)
    ordered = [(i, j) for i in members for j in members if i < j]
    assert len(found) == len(pairs) == len(ordered)
    for pair, row in zip(ordered, found):
        counts, kinship = pairs[pair]
        het = [row["het1"], row["het2"]]
        assert [row["sites"], row["het_het"], row["opposite"], *sorted(het)] == counts, pair
        both = np.isfinite(x[:, pair]).all(axis=1)
        assert het == np.sum(x[both][:, pair] == 1, axis=0).tolist(), pair
        # plink2 prints six digits, and divides by zero where one individual is never heterozygous.
        if min(het) == 0:
            assert row["kinship"] is None, pair
        else:
            assert row["kinship"] == pytest.approx(kinship, rel=6e-6, abs=1e-9), pair


@pytest.mark.parametrize("only_varying", [True, False])
def test_relationship_matrix(store, only_varying, tmp_path):
    """At biallelic sites: plink2 has another variance for several alleles. It counts sites that do not vary in what it divides by."""
    rows = store.biallelic & varying(store) if only_varying else store.biallelic
    plink2(store, tmp_path, FEW, "--make-rel", "bin", "square", rows=rows)
    n = store.genotypes.shape[1]
    wanted = np.fromfile(tmp_path / "out.rel.bin").reshape(n, n)
    found = store.rows("""
        SELECT r['gcta'] AS gcta, r['sites'] AS sites FROM (SELECT unnest(grm(call_genotype)) AS r FROM {biallelic})""")
    called = np.isfinite(complete_diploids(store)).astype(int)
    sites = called[store.biallelic & varying(store)]
    assert np.array_equal(square(found, "sites"), sites.T @ sites)
    divisor = called[rows].T @ called[rows]
    assert only_varying == (divisor == sites.T @ sites).all() or store.is_complete
    np.testing.assert_allclose(square(found, "gcta") * (sites.T @ sites) / divisor, wanted, rtol=0, atol=1e-9)


def test_principal_components(store, tmp_path):
    """At sites that vary and where all are complete diploids: elsewhere plink2 weights individuals by their calls."""
    k = 4
    rows = store.biallelic & varying(store) & np.isfinite(complete_diploids(store)).all(axis=1)
    plink2(store, tmp_path, FEW, "--pca", k, rows=rows)
    values = [float(line) for line in (tmp_path / "out.eigenval").read_text().split()]
    vectors = table(tmp_path / "out.eigenvec")
    (found,) = store.rows(f"""
        SELECT pca(call_genotype, {k}) AS p FROM {{biallelic}}
        WHERE genotype_counts(call_genotype)['missing'] + genotype_counts(call_genotype)['haploid'] = 0""")
    np.testing.assert_allclose(found["p"]["eigenvalues"], values, rtol=6e-6)
    components = np.array([sample["pc"] for sample in found["p"]["samples"]])
    for i in range(k):
        wanted = vectors[f"PC{i + 1}"].astype(float)
        wanted *= np.sign(wanted @ components[:, i])
        np.testing.assert_allclose(components[:, i], wanted, rtol=6e-6, atol=1e-7)
