"""Statistics equal tskit's of the tree sequence that a store was made of.

tskit's statistics of sites are sums with `span_normalise=False`. At sites of more than two alleles its f2, f3 and f4, spectra and
numbers of segregating sites are defined otherwise; these are compared at biallelic sites.
"""

import numpy as np
import pytest

from peers import INDIVIDUALS, LENGTH, POPULATIONS

WINDOW = 20_000
BREAKS = np.arange(0, LENGTH + 1, WINDOW)
# tskit's spectra leave out sites that do not vary in all samples together.
VARYING = "(SELECT * FROM {biallelic} WHERE is_segregating(allele_counts(call_genotype)))"


@pytest.fixture
def store(peer_stores):
    return peer_stores["simulated"]


@pytest.fixture
def biallelic(store, tree_sequence):
    """The tree sequence without sites of other than two alleles."""
    return tree_sequence.delete_sites(np.flatnonzero(~store.biallelic))


def sets(ts):
    """The nodes of each population."""
    nodes = [ts.samples(population=i) for i in range(len(POPULATIONS))]
    assert [len(n) for n in nodes] == [2 * n for n in INDIVIDUALS]
    return nodes


def close(found, wanted, rtol=1e-12, atol=0.0):
    assert np.isfinite(wanted).all()
    np.testing.assert_allclose(np.asarray(found, dtype=float), wanted, rtol=rtol, atol=atol)


def in_windows(store, statistics, where="{t}"):
    """Statistics by windows: tskit's position 0 is position 1 of the store."""
    found = store.columns(f"""
        SELECT genome_bin(variant_position, {WINDOW}) AS start, {statistics} FROM {where} GROUP BY 1 ORDER BY 1""")
    assert np.array_equal(found.pop("start"), BREAKS[:-1] + 1)
    return found


def test_diversity_at_any_sites(store, tree_sequence):
    """Sites of several alleles, too."""
    nodes = sets(tree_sequence)
    assert not store.biallelic.all()
    options = dict(windows=BREAKS, span_normalise=False)
    found = in_windows(store, ", ".join(f"diversity(call_genotype, '{p}') AS {p}" for p in POPULATIONS))
    for population, wanted in zip(POPULATIONS, tree_sequence.diversity(nodes, **options).T):
        close(found[population], wanted)
    pairs = [(i, j) for i in range(4) for j in range(i)]
    names = lambda i, j: f"call_genotype, '{POPULATIONS[i]}', '{POPULATIONS[j]}'"
    found = in_windows(store, ", ".join(f"divergence({names(*p)}) AS d{p[0]}{p[1]}" for p in pairs))
    for pair, wanted in zip(pairs, tree_sequence.divergence(nodes, pairs, **options).T):
        close(found[f"d{pair[0]}{pair[1]}"], wanted)
    # tskit's Fst is 1 - H_S / H_T, which is `fst_nei` of two populations.
    found = in_windows(store, ", ".join(f"fst_nei({names(*p)}) AS d{p[0]}{p[1]}" for p in pairs))
    for pair, wanted in zip(pairs, tree_sequence.Fst(nodes, pairs, **options).T):
        close(found[f"d{pair[0]}{pair[1]}"], wanted, atol=1e-13)


@pytest.mark.parametrize("population", range(4))
def test_one_population(store, biallelic, population):
    nodes, name = sets(biallelic)[population], POPULATIONS[population]
    options = dict(windows=BREAKS, span_normalise=False)
    found = in_windows(
        store,
        f"""segregating_sites(call_genotype, '{name}') AS s, tajimas_d(call_genotype, '{name}') AS d,
            theta_w(call_genotype, '{name}') AS w, theta_h(call_genotype, '{name}') AS h, theta_l(call_genotype, '{name}') AS l,
            singletons(call_genotype, '{name}') AS singletons""",
        "{biallelic}",
    )
    s = biallelic.segregating_sites([nodes], **options)[:, 0]
    assert np.array_equal(found["s"], s)
    close(found["w"], s / np.sum(1 / np.arange(1, len(nodes))))
    close(found["d"], biallelic.Tajimas_D([nodes], windows=BREAKS)[:, 0], rtol=1e-10)
    spectra = store.rows(f"""
        SELECT genome_bin(variant_position, {WINDOW}) AS start, sfs(call_genotype, '{name}') AS sfs,
               sfs_folded(call_genotype, '{name}') AS folded
        FROM {VARYING} GROUP BY 1 ORDER BY 1""")
    spectrum = biallelic.allele_frequency_spectrum([nodes], polarised=True, **options)
    assert spectrum[:, 1:-1].sum() == s.sum() > 0
    # Estimators that tskit does not have, of its spectrum.
    n, d = len(nodes), np.arange(1, len(nodes))
    assert np.array_equal(found["singletons"], spectrum[:, 1])
    close(found["h"], spectrum[:, 1:-1] @ (2 * d**2 / (n * (n - 1))))
    close(found["l"], spectrum[:, 1:-1] @ (d / (n - 1)))
    assert np.array_equal([row["sfs"] for row in spectra], spectrum)
    # tskit's has the bins above one half, too, without sites.
    folded = biallelic.allele_frequency_spectrum([nodes], **options)
    assert np.array_equal([row["folded"] for row in spectra], folded[:, : len(nodes) // 2 + 1])
    assert not folded[:, len(nodes) // 2 + 1 :].any()


def test_joint_spectrum(store, biallelic):
    p1, p2, _, _ = sets(biallelic)
    wanted = biallelic.allele_frequency_spectrum([p1, p2], polarised=True, span_normalise=False)
    found = store.row(f"SELECT joint_sfs(call_genotype, 'p1', 'p2') AS joint FROM {VARYING}")["joint"]
    assert wanted.sum() > 1000 and np.array_equal(found, wanted)


def test_f_statistics(store, biallelic):
    a, b, c, d = sets(biallelic)
    options = dict(windows=BREAKS, span_normalise=False)
    sums = in_windows(
        store,
        """exact_sum(site_f2(a, b)) AS f2, exact_sum(site_f3(c, a, b)) AS f3, exact_sum(site_f4(a, b, c, d)) AS f4,
           f2(a, b) AS mean_f2, f3(c, a, b) AS mean_f3, f4(a, b, c, d) AS mean_f4, count(*) AS n""",
        """(SELECT variant_position, allele_counts(call_genotype, 'p1') AS a, allele_counts(call_genotype, 'p2') AS b,
                   allele_counts(call_genotype, 'p3') AS c, allele_counts(call_genotype, 'p4') AS d FROM {biallelic})""",
    )
    wanted = {
        "f2": biallelic.f2([a, b], **options),
        "f3": biallelic.f3([c, a, b], **options),
        "f4": biallelic.f4([a, b, c, d], **options),
    }
    for name, expected in wanted.items():
        # Terms of both signs: rounding is relative to the sum of their sizes.
        close(sums[name], expected, atol=1e-12)
        close(sums[f"mean_{name}"], expected / sums["n"], atol=1e-14)


class Linkage:
    """tskit's numbers of pairs of biallelic sites of the store `part`, as matrices; rows and columns are the store's rows."""

    EDGES = [0, 10_000, 50_000, LENGTH]

    def __init__(self, store, ts):
        self.ts = ts
        self.nodes = sets(ts)
        self.rows = np.flatnonzero(store.biallelic)
        positions = store.position[self.rows]
        self.sites = np.searchsorted(ts.sites_position.astype(int) + 1, positions).astype(np.int32)
        assert np.array_equal(ts.sites_position[self.sites].astype(int) + 1, positions)
        self.distance = positions - positions[:, None]

    def matrix(self, stat, *populations, **options):
        (found,) = self.ts.ld_matrix([self.nodes[i] for i in populations], sites=[self.sites], stat=stat, **options)
        return found

    def bins(self):
        """The start of each bin, and which pairs are in it."""
        later = np.triu(np.ones(self.distance.shape, dtype=bool), k=1)
        for start, stop in zip(self.EDGES, self.EDGES[1:]):
            yield start, later & (start <= self.distance) & (self.distance < stop)


@pytest.fixture
def linkage(peer_stores, tree_sequence):
    return Linkage(peer_stores["part"], tree_sequence)


@pytest.mark.parametrize("population", range(4))
def test_linkage_disequilibrium(peer_stores, linkage, population):
    store, name = peer_stores["part"], POPULATIONS[population]
    r2, d, d_prime = (linkage.matrix(stat, population) for stat in ["r2", "D", "D_prime"])
    pairs = np.argwhere(np.triu(np.isfinite(r2), k=1))
    found = {
        (row["row1"], row["row2"]): row
        for row in store.rows(f"SELECT row1, row2, r2, d, d_prime FROM vcz_ld('{store.name}', '{name}', {LENGTH})")
    }
    inside = set(linkage.rows.tolist())
    assert len(pairs) == sum({one, other} <= inside for one, other in found) > 500
    for column, wanted in [("r2", r2), ("d", d), ("d_prime", d_prime)]:
        close([found[tuple(pair)][column] for pair in linkage.rows[pairs]], wanted[tuple(pairs.T)], atol=1e-13)
    close(store.row(f"SELECT mean_r2(call_genotype, '{name}') AS mean FROM {{biallelic}}")["mean"], r2[tuple(pairs.T)].mean())
    bins = store.rows(f"""
        SELECT unnest(unnest(ld_decay(call_genotype, '{name}', variant_position, {linkage.EDGES}))) FROM {{biallelic}}""")
    bins = [{name.rsplit(".", 1)[-1]: value for name, value in row.items()} for row in bins]
    dd, pi2 = (linkage.matrix(stat, population) for stat in ["D2_unbiased", "pi2_unbiased"])
    assert len(bins) == len(linkage.EDGES) - 1
    for row, (start, chosen) in zip(bins, linkage.bins()):
        defined = chosen & np.isfinite(r2)
        assert (row["bin_start"], row["pairs"], row["defined"]) == (start, chosen.sum(), defined.sum())
        close(row["mean_r2"], r2[defined].mean())
        close(row["mean_d_prime"], d_prime[defined].mean(), atol=1e-13)
        close(row["sum_dd"], dd[chosen].sum(), atol=1e-12)
        close(row["sum_pi2"], pi2[chosen].sum(), atol=1e-12)


@pytest.mark.parametrize("population", range(4))
def test_moments_of_linkage_disequilibrium(peer_stores, linkage, population):
    store, other = peer_stores["part"], (population + 1) % 4
    found = store.rows(f"""
        SELECT m['bin_start'] AS start, m['statistic'] AS statistic, m['sum'] AS sum
        FROM (SELECT unnest(ld_moments(call_genotype, '{POPULATIONS[population]}', '{POPULATIONS[other]}', variant_position,
                                       {linkage.EDGES})) AS m
              FROM {{biallelic}})""")
    found = {(row["start"], row["statistic"]): row["sum"] for row in found}
    wanted = {
        "DD_0_0": linkage.matrix("D2_unbiased", population),
        "DD_0_1": linkage.matrix("D2_unbiased", population, other, indexes=[(0, 1)]),
        "DD_1_1": linkage.matrix("D2_unbiased", other),
        "Dz_0_0_0": linkage.matrix("Dz_unbiased", population),
        "Dz_1_1_1": linkage.matrix("Dz_unbiased", other),
        "pi2_0_0_0_0": linkage.matrix("pi2_unbiased", population),
        "pi2_1_1_1_1": linkage.matrix("pi2_unbiased", other),
    }
    for statistic, values in wanted.items():
        for start, chosen in linkage.bins():
            close(found[start, statistic], values[chosen].sum(), atol=1e-12)


def test_pairs_of_haplotypes_and_individuals(store, tree_sequence):
    """Divergence of two nodes is the number of sites at which they differ."""
    nodes = np.concatenate(sets(tree_sequence))
    pairs = [(i, j) for i in range(len(nodes)) for j in range(i + 1, len(nodes))]
    wanted = tree_sequence.divergence([[node] for node in nodes], pairs, span_normalise=False)
    found = store.rows("""
        SELECT p['copy1'] AS copy1, p['copy2'] AS copy2, p['sites'] AS sites, p['differences'] AS differences
        FROM (SELECT unnest(haplotype_pairs(call_genotype)) AS p FROM {t})""")
    assert [(row["copy1"], row["copy2"]) for row in found] == pairs
    assert {row["sites"] for row in found} == {tree_sequence.num_sites}
    assert np.array_equal([row["differences"] for row in found], wanted)
    individuals = nodes.reshape(-1, 2)
    pairs = [(i, j) for i in range(len(individuals)) for j in range(i + 1, len(individuals))]
    wanted = tree_sequence.divergence(individuals, pairs, span_normalise=False)
    found = store.rows("""
        SELECT p['distance'] AS distance, p['distance_sites'] AS sites
        FROM (SELECT unnest(sample_pairs(call_genotype)) AS p FROM {t})""")
    assert np.array_equal([row["distance"] for row in found], wanted)
    assert {row["sites"] for row in found} == {tree_sequence.num_sites}
