"""Statistics of pairs equal numpy's, from their definitions; also with missing calls, where packages differ or refuse."""

import numpy as np
import pytest

EDGES = [0, 50, 2_000, 60_000]


@pytest.fixture(params=["part", "part_missing", "missing", "sim"])
def store(peer_stores, request):
    return peer_stores[request.param]


def close(found, wanted, rtol=1e-12, atol=1e-12):
    np.testing.assert_allclose(np.asarray(found, dtype=float), wanted, rtol=rtol, atol=atol)


def dosages(store, population):
    """Copies other than the reference of complete diploids, NaN for others."""
    genotypes = store.genotypes[:, store.populations[population]]
    return np.where((genotypes >= 0).all(axis=2), (genotypes > 0).sum(axis=2), np.nan)


def covariance(x):
    """Of individuals, over the sites at which both are complete diploids, of dosages less their site's mean."""
    z = x - np.nanmean(x, axis=1, keepdims=True)
    complete = np.isfinite(z).astype(float)
    z = np.nan_to_num(z)
    m = complete.T @ complete
    return (z.T @ z - (z.T @ complete) * (complete.T @ z) / m) / (m - 1)


@pytest.mark.filterwarnings("ignore:Mean of empty slice:RuntimeWarning")
@pytest.mark.parametrize("population", ["p1", "p3"])
def test_covariance(store, population):
    k = 3
    found = store.row(f"SELECT pca(call_genotype, '{population}', {k}, 'covariance') AS p FROM {{t}}")["p"]
    matrix = covariance(dosages(store, population))
    values, vectors = np.linalg.eigh(matrix)
    close(found["eigenvalues"], values[::-1][:k], rtol=1e-9)
    close(found["trace"], np.trace(matrix), rtol=1e-9)
    components = np.array([sample["pc"] for sample in found["samples"]])
    close(np.sum(components**2, axis=0), 1, rtol=1e-9)
    # Whichever vectors are distinct, these are of the matrix.
    close(matrix @ components, components * found["eigenvalues"], atol=1e-9)
    assert (components[np.abs(components).argmax(axis=0), np.arange(k)] > 0).all()


@pytest.mark.parametrize("population", ["p1", "p3"])
def test_relationship(store, population):
    x = dosages(store, population)
    p = np.nansum(x, axis=1) / (2 * np.isfinite(x).sum(axis=1).clip(1))
    x, p = x[(0 < p) & (p < 1)], p[(0 < p) & (p < 1), None]
    complete = np.isfinite(x).astype(float)
    z = np.nan_to_num(x - 2 * p)
    gcta = (z / (2 * p * (1 - p))).T @ z / (complete.T @ complete)
    vanraden = z.T @ z / ((complete * 2 * p * (1 - p)).T @ complete)
    lower = np.tril_indices(x.shape[1])
    found = store.rows(f"""
        SELECT r['gcta'] AS gcta, r['vanraden'] AS vanraden, r['sites'] AS sites
        FROM (SELECT unnest(grm(call_genotype, '{population}')) AS r FROM {{t}})""")
    close([row["gcta"] for row in found], gcta[lower], atol=1e-9)
    close([row["vanraden"] for row in found], vanraden[lower], atol=1e-9)
    assert [row["sites"] for row in found] == (complete.T @ complete)[lower].astype(int).tolist()


@pytest.mark.parametrize("population", ["p1", "p3"])
def test_identity_and_distance(store, population):
    genotypes = store.genotypes[:, store.populations[population]]
    complete = (genotypes >= 0).all(axis=2)
    alleles = range(genotypes.max() + 1)
    # (alleles, sites, samples)
    copies = np.array([(genotypes == allele).sum(axis=2) for allele in alleles])
    called = copies.sum(axis=0)
    found = store.rows(f"SELECT p FROM (SELECT unnest(sample_pairs(call_genotype, '{population}')) AS p FROM {{t}})")
    pairs = [(i, j) for i in range(genotypes.shape[1]) for j in range(i + 1, genotypes.shape[1])]
    assert len(found) == len(pairs)
    for (i, j), row in zip(pairs, found):
        row, both = row["p"], complete[:, i] & complete[:, j]
        shared = np.minimum(copies[:, both, i], copies[:, both, j]).sum(axis=0)
        assert [row["ibs0"], row["ibs1"], row["ibs2"]] == np.bincount(shared, minlength=3).tolist()
        any_called = (called[:, i] > 0) & (called[:, j] > 0)
        same = (copies[:, any_called, i] * copies[:, any_called, j]).sum(axis=0)
        assert row["distance_sites"] == any_called.sum()
        close(row["distance"], np.sum(1 - same / (called[any_called, i] * called[any_called, j])))


@pytest.mark.filterwarnings("ignore:(Mean of empty slice|invalid value encountered):RuntimeWarning")
@pytest.mark.parametrize("name", ["part", "part_missing", "missing"])
@pytest.mark.parametrize("population", ["p1", "p3"])
def test_decay(peer_stores, name, population):
    """Pairs of at least four copies called at both sites."""
    store = peer_stores[name]
    contig = store.contig[0]
    inside = store.contig == contig
    copies = store.genotypes[inside][:, store.populations[population]].reshape(inside.sum(), -1)
    position, called, alternate = store.position[inside], (copies >= 0).astype(float), (copies > 0).astype(float)
    later = np.triu(np.ones((len(position),) * 2, dtype=bool), k=1)
    n, a, b, x = (one @ two.T for one, two in [(called, called), (alternate, called), (called, alternate), (alternate, alternate)])
    with np.errstate(all="ignore"):
        delta, variances = n * x - a * b, a * (n - a) * b * (n - b)
        defined = variances > 0
        r2 = delta**2 / variances
        d_prime = delta / np.where(delta >= 0, np.minimum(a * (n - b), b * (n - a)), np.minimum(a * b, (n - a) * (n - b)))
    # Haplotypes AB, Ab, aB, ab: the polynomials of Ragsdale and Gravel (2019).
    ab, left, right, neither = x, a - x, b - x, n - a - b + x
    below = n * (n - 1) * (n - 2) * (n - 3)
    dd = ab * (ab - 1) * neither * (neither - 1) + left * (left - 1) * right * (right - 1) - 2 * ab * left * right * neither
    pi2 = a * (n - a) * b * (n - b) - ab * neither * (ab + 3 * left + 3 * right + neither - 1)
    pi2 -= left * right * (3 * ab + left + right + 3 * neither - 1)
    distance = position - position[:, None]
    bins = store.rows(f"""
        SELECT b FROM (SELECT unnest(ld_decay(call_genotype, '{population}', variant_position, {EDGES})) AS b FROM {{t}}
                       WHERE variant_contig = '{contig}')""")
    assert len(bins) == len(EDGES) - 1
    for (start, stop), row in zip(zip(EDGES, EDGES[1:]), (row["b"] for row in bins)):
        pairs = later & (start <= distance) & (distance < stop) & (n >= 4)
        assert (row["bin_start"], row["bin_stop"], row["pairs"]) == (start, stop, pairs.sum())
        assert row["defined"] == (pairs & defined).sum()
        close(row["mean_r2"], r2[pairs & defined].mean())
        close(row["mean_d_prime"], d_prime[pairs & defined].mean())
        close(row["sum_dd"], np.sum(dd[pairs] / below[pairs]), atol=1e-11)
        close(row["sum_pi2"], np.sum(pi2[pairs] / below[pairs]), atol=1e-11)
