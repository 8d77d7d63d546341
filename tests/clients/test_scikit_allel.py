"""Statistics equal those of scikit-allel, on complete data and with missing calls, wherever both define them in the same way.

Where scikit-allel does something else (biased H_e, alleles of half-calls in Weir and Cockerham's FST, missing calls as one more allele
of haplotypes), a comment says so, and the comparison is of what both define.
"""

import allel
import numpy as np
import pytest

from peers import POPULATIONS

WINDOW = 20_000
BLOCK = 50
ORDER = "ORDER BY variant_contig, variant_position"

# Counts of the four populations.
FOUR = ", ".join(f"allele_counts(call_genotype, '{population}') AS {name}" for name, population in zip("abcd", POPULATIONS))

# Ratios of sites without calls are NaN.
pytestmark = pytest.mark.filterwarnings("ignore:(invalid value|divide by zero) encountered:RuntimeWarning")


@pytest.fixture(params=["simulated", "simulated_missing", "sim", "missing"])
def store(peer_stores, request):
    return peer_stores[request.param]


@pytest.fixture(params=["simulated", "sim"])
def complete(peer_stores, request):
    store = peer_stores[request.param]
    assert store.is_complete
    return store


def close(found, wanted, rtol=1e-12, atol=0.0):
    """Equal within rounding, NULL for NaN; not about nothing."""
    assert np.isfinite(np.asarray(wanted, dtype=float)).any()
    np.testing.assert_allclose(np.asarray(found, dtype=float), wanted, rtol=rtol, atol=atol, equal_nan=True)


def counts(store, population, rows=slice(None)):
    """Allele counts of rows: of all alleles that the store has room for, or the two of biallelic sites."""
    genotypes = allel.GenotypeArray(store.genotypes[rows][:, store.populations[population]])
    most = 1 if rows is store.biallelic else store.genotypes.max()
    return genotypes.count_alleles(max_allele=most)


def with_copies(least, *all_counts):
    """The counts, and none at all where one of the populations has fewer copies."""
    usable = np.all([ac.sum(axis=1) >= least for ac in all_counts], axis=0)
    return [allel.AlleleCountsArray(np.where(usable[:, None], ac, 0)) for ac in all_counts]


def complete_diploids(store, population=None):
    """The genotypes, missing but for individuals with two called copies."""
    genotypes = store.genotypes if population is None else store.genotypes[:, store.populations[population]]
    return allel.GenotypeArray(np.where((genotypes >= 0).all(axis=2, keepdims=True), genotypes, -1))


def haplotypes(store, population, rows):
    """The haplotypes of some rows, without rows where a copy is not called, and without copies that are absent in any row."""
    copies = store.genotypes[rows][:, store.populations[population]]
    copies = copies.reshape(len(copies), -1)
    called, present = (copies != -1).all(axis=1), (copies != -2).all(axis=0)
    return allel.HaplotypeArray(copies[called][:, present])


def windows(store):
    """(contig, its rows, number of its windows) for each contig."""
    for contig in dict.fromkeys(store.contig):
        rows = np.flatnonzero(store.contig == contig)
        yield contig, rows, -(-store.position[rows].max() // WINDOW)


@pytest.mark.parametrize("population", POPULATIONS)
def test_counts(store, population):
    genotypes = allel.GenotypeArray(store.genotypes[:, store.populations[population]])
    found = store.rows(f"""
        SELECT allele_counts(call_genotype, '{population}') AS ac, genotype_counts(call_genotype, '{population}') AS g
        FROM {{t}} {ORDER}""")
    assert np.array_equal([row["ac"] for row in found], counts(store, population))
    classes = {name: np.array([row["g"][name] for row in found]) for name in found[0]["g"]}
    assert np.array_equal(classes["hom_ref"], genotypes.count_hom_ref(axis=1))
    assert np.array_equal(classes["het"], genotypes.count_het(axis=1))
    assert np.array_equal(classes["hom_alt"], genotypes.count_hom_alt(axis=1))
    # A haploid call is missing there.
    assert np.array_equal(classes["haploid"] + classes["missing"], genotypes.count_missing(axis=1))


def test_individuals(store):
    genotypes = allel.GenotypeArray(store.genotypes)
    found = [row["s"] for row in store.rows("SELECT unnest(sample_counts(call_genotype)) AS s FROM {t}")]
    assert np.array_equal([s["hom_ref"] for s in found], genotypes.count_hom_ref(axis=0))
    assert np.array_equal([s["het"] for s in found], genotypes.count_het(axis=0))
    assert np.array_equal([s["hom_alt"] for s in found], genotypes.count_hom_alt(axis=0))
    assert np.array_equal([s["haploid"] + s["missing"] for s in found], genotypes.count_missing(axis=0))


def test_diversity_of_sites(store):
    found = store.columns(f"""
        SELECT site_diversity(ac) AS pi, site_divergence(ac, other) AS dxy, hudson['num'] AS num, hudson['den'] AS den,
               is_segregating(ac) AS segregating
        FROM (SELECT *, site_fst_hudson(ac, other) AS hudson
              FROM (SELECT variant_contig, variant_position, allele_counts(call_genotype, 'p1') AS ac,
                           allele_counts(call_genotype, 'p3') AS other FROM {{t}})) {ORDER}""")
    ac, other = counts(store, "p1"), counts(store, "p3")
    close(found["pi"], allel.mean_pairwise_difference(ac))
    close(found["dxy"], allel.mean_pairwise_difference_between(ac, other))
    assert np.array_equal(found["segregating"], ac.is_segregating())
    # scikit-allel gives a denominator with one copy in a population, too.
    num, den = allel.hudson_fst(*with_copies(2, ac, other))
    close(found["num"], num, atol=1e-15)
    close(found["den"], den)


def test_diversity_in_windows(store):
    found = store.rows(f"""
        SELECT variant_contig, genome_bin(variant_position, {WINDOW}) AS start, count(*) AS n,
               diversity(call_genotype, 'p1') / {WINDOW} AS pi, divergence(call_genotype, 'p1', 'p3') / {WINDOW} AS dxy,
               fst_hudson(call_genotype, 'p1', 'p3') AS fst
        FROM {{t}} GROUP BY 1, 2""")
    found = {(row["variant_contig"], row["start"]): row for row in found}
    seen = 0
    for contig, rows, n in windows(store):
        ac, other = counts(store, "p1", rows), counts(store, "p3", rows)
        bounds = dict(size=WINDOW, start=1, stop=n * WINDOW)
        position = store.position[rows]
        pi, starts, _, variants = allel.windowed_diversity(position, ac, **bounds)
        dxy = allel.windowed_divergence(position, ac, other, **bounds)[0]
        fst = allel.windowed_hudson_fst(position, *with_copies(2, ac, other), **bounds)[0]
        for k in range(n):
            row = found.get((contig, starts[k][0]))
            assert (row["n"] if row else 0) == variants[k]
            if row:
                close([row["pi"], row["dxy"], row["fst"]], [pi[k], dxy[k], fst[k]])
                seen += 1
    assert seen == len(found)


def test_tests_of_neutrality(complete):
    """Only of complete data: scikit-allel takes the most copies of any site for the n of all sites."""
    found = complete.rows(f"""
        SELECT variant_contig, genome_bin(variant_position, {WINDOW}) AS start, theta_w(call_genotype, 'p2') / {WINDOW} AS theta_w,
               tajimas_d(call_genotype, 'p2') AS d
        FROM {{t}} GROUP BY 1, 2""")
    found = {(row["variant_contig"], row["start"]): row for row in found}
    for contig, rows, n in windows(complete):
        ac, position = counts(complete, "p2", rows), complete.position[rows]
        bounds = dict(size=WINDOW, start=1, stop=n * WINDOW)
        theta, starts, _, variants = allel.windowed_watterson_theta(position, ac, **bounds)
        d = allel.windowed_tajima_d(position, ac, **bounds)[0]
        for k in range(n):
            if variants[k]:
                row = found.pop((contig, starts[k][0]))
                close([row["theta_w"], row["d"]], [theta[k], d[k]], rtol=1e-10)
        (whole,) = complete.rows(f"""
            SELECT segregating_sites(call_genotype, 'p2') AS s, tajimas_d(call_genotype, 'p2') AS d
            FROM {{t}} WHERE variant_contig = '{contig}'""")
        assert whole["s"] == ac.count_segregating()
        close(whole["d"], allel.tajima_d(ac), rtol=1e-10)
    assert not found
    once = complete.row("SELECT singletons(call_genotype, 'p2') AS n FROM {biallelic}")["n"]
    assert once == counts(complete, "p2", complete.biallelic).count_singleton(allele=1) > 0


def test_spectra(store):
    """Of biallelic sites that are complete in the populations, which is what `sfs` takes."""
    p1, p3 = counts(store, "p1", store.biallelic), counts(store, "p3", store.biallelic)
    n1, n3 = 2 * len(store.populations["p1"]), 2 * len(store.populations["p3"])
    found = store.row("""
        SELECT sfs(call_genotype, 'p1') AS sfs, sfs_folded(call_genotype, 'p1') AS sfs_folded,
               joint_sfs(call_genotype, 'p1', 'p3') AS joint FROM {biallelic}""")
    full = p1[p1.sum(axis=1) == n1]
    assert 0 < len(full)
    assert found["sfs"] == allel.sfs(full[:, 1], n=n1).tolist()
    assert found["sfs_folded"] == allel.sfs_folded(full, n=n1).tolist()
    both = (p1.sum(axis=1) == n1) & (p3.sum(axis=1) == n3)
    assert found["joint"] == allel.joint_sfs(p1[both, 1], p3[both, 1], n1, n3).tolist()


def test_f_statistics_of_sites(store):
    found = store.columns(f"""
        SELECT site_f2(a, b) AS f2, site_f3(c, a, b) AS f3, t['num'] AS f3_num, t['den'] AS f3_den, site_f4(a, b, c, d) AS f4,
               e['num'] AS d_num, e['den'] AS d_den
        FROM (SELECT *, site_f3_normalized(c, a, b) AS t, site_patterson_d(a, b, c, d) AS e
              FROM (SELECT variant_contig, variant_position, {FOUR} FROM {{biallelic}})) {ORDER}""")
    a, b, c, d = (counts(store, population, store.biallelic) for population in POPULATIONS)
    t, target = allel.patterson_f3(c, a, b)
    num, den = allel.patterson_d(a, b, c, d)
    # Differences of frequencies: rounding is relative to 1.
    close(found["f2"], allel.patterson_f2(a, b), atol=1e-15)
    close(found["f3"], t, atol=1e-15)
    close(found["f3_num"], t, atol=1e-15)
    # A denominator, but no numerator, where a source has no copies.
    close(found["f3_den"], np.where(np.isnan(t), np.nan, target), atol=1e-15)
    close(found["f4"], num, atol=1e-15)
    close(found["d_num"], num, atol=1e-15)
    close(found["d_den"], den, atol=1e-15)


def blocks(store, site, num, den, usable):
    """The jackknife of blocks of BLOCK usable sites, and which sites these are.

    scikit-allel weights all blocks alike, so all have as many usable sites; those after the last whole block are left out.
    """
    rows = np.flatnonzero(usable)
    whole = len(rows) // BLOCK * BLOCK
    assert whole >= 5 * BLOCK
    found = store.row(f"""
        WITH usable AS (
          SELECT s, row_number() OVER ({ORDER}) AS n
          FROM (SELECT variant_contig, variant_position, {site} AS s FROM (SELECT *, {FOUR} FROM {{biallelic}})) WHERE s IS NOT NULL
        ),
        blocks AS (
          SELECT site_bin(n, {BLOCK}) AS block, exact_sum({num}) AS num, exact_sum({den}) AS den, count(*) AS m
          FROM usable WHERE n <= {whole} GROUP BY 1
        )
        SELECT jackknife(num, den, m) AS j FROM blocks""")["j"]
    assert found["blocks"] == whole // BLOCK
    return [found["estimate"], found["se"], found["z"]], rows[:whole]


def test_block_jackknife(store):
    a, b, c, d = (counts(store, population, store.biallelic) for population in POPULATIONS)

    usable = ~np.isnan(allel.patterson_d(a, b, c, d)[0])
    found, rows = blocks(store, "site_patterson_d(a, b, c, d)", "s['num']", "s['den']", usable)
    close(found, allel.average_patterson_d(a[rows], b[rows], c[rows], d[rows], blen=BLOCK)[:3], rtol=1e-10)

    usable = ~np.isnan(allel.patterson_f3(c, a, b)[0])
    found, rows = blocks(store, "site_f3_normalized(c, a, b)", "s['num']", "s['den']", usable)
    close(found, allel.average_patterson_f3(c[rows], a[rows], b[rows], blen=BLOCK)[:3], rtol=1e-10)
    # A mean: its denominator is the number of sites.
    found, rows = blocks(store, "site_f3(c, a, b)", "s", "1", usable)
    close(found, allel.average_patterson_f3(c[rows], a[rows], b[rows], blen=BLOCK, normed=False)[:3], rtol=1e-10)

    usable = ~np.isnan(allel.hudson_fst(a, d)[0])
    found, rows = blocks(store, "site_fst_hudson(a, d)", "s['num']", "s['den']", usable)
    close(found[:2], allel.average_hudson_fst(a[rows], d[rows], blen=BLOCK)[:2], rtol=1e-10)


def test_f_statistics(store):
    found = store.row("""
        SELECT f2(call_genotype, 'p1', 'p2') AS f2, f3(call_genotype, 'p3', 'p1', 'p2') AS f3,
               f3_normalized(call_genotype, 'p3', 'p1', 'p2') AS f3_normalized,
               f4(call_genotype, 'p1', 'p2', 'p3', 'p4') AS f4, patterson_d(call_genotype, 'p1', 'p2', 'p3', 'p4') AS d,
               net_divergence(call_genotype, 'p1', 'p2') AS da
        FROM {biallelic}""")
    a, b, c, d = (counts(store, population, store.biallelic) for population in POPULATIONS)
    t, target = allel.patterson_f3(c, a, b)
    num, den = allel.patterson_d(a, b, c, d)
    wanted = {
        "f2": np.nanmean(allel.patterson_f2(a, b)),
        "f3": np.nanmean(t),
        "f3_normalized": np.nansum(t) / np.nansum(target[~np.isnan(t)]),
        "f4": np.nanmean(num),
        "d": np.nansum(num) / np.nansum(den),
        "da": np.nansum(allel.hudson_fst(a, b)[0]),
    }
    assert found.keys() == wanted.keys()
    for name in wanted:
        close(found[name], wanted[name])


def test_population_branch(store):
    populations = ["p1", "p2", "p4"]
    acs = with_copies(2, *(counts(store, population) for population in populations))
    enough = " AND ".join(f"allele_number(allele_counts(call_genotype, '{population}')) >= 2" for population in populations)
    found = store.row(f"""
        SELECT pbs(call_genotype, 'p1', 'p2', 'p4') AS pbs, pbs_n1(call_genotype, 'p1', 'p2', 'p4') AS n1 FROM {{t}} WHERE {enough}""")
    one_window = dict(window_size=len(store.position))
    close(found["pbs"], allel.pbs(*acs, normed=False, **one_window)[0], rtol=1e-11)
    close(found["n1"], allel.pbs(*acs, **one_window)[0], rtol=1e-11)


def test_private_alleles_and_fixed_differences(store):
    acs = with_copies(1, counts(store, "p1"), counts(store, "p4"))
    found = store.row("""
        SELECT private_alleles(call_genotype, 'p1', 'p4') AS first, private_alleles(call_genotype, 'p4', 'p1') AS second,
               shared_polymorphism(call_genotype, 'p1', 'p4')['fixed'] AS fixed FROM {t}""")
    private = allel.locate_private_alleles(*acs)
    assert found["first"] == np.sum(private & (acs[0] > 0))
    assert found["second"] == np.sum(private & (acs[1] > 0))
    assert found["fixed"] == np.sum(allel.locate_fixed_differences(*acs))


@pytest.mark.parametrize("populations", [["p1", "p2"], ["p1", "p4"], POPULATIONS])
def test_weir_and_cockerham(store, populations):
    """At sites where all populations have complete diploids: scikit-allel also counts alleles of half-calls, and has c elsewhere."""
    names = ", ".join(f"'{population}'" for population in populations)
    genotypes, subpops = complete_diploids(store), [store.populations[population] for population in populations]
    individuals = np.stack([genotypes[:, subpop].is_called().sum(axis=1) for subpop in subpops])
    usable = (individuals >= 1).all(axis=0) & (individuals.sum(axis=0) > len(subpops))
    a, b, c = (np.where(usable, x.sum(axis=1), np.nan) for x in allel.weir_cockerham_fst(genotypes, subpops))
    found = store.columns(f"""
        SELECT wc['a'] AS a, wc['b'] AS b, wc['c'] AS c
        FROM (SELECT variant_contig, variant_position, site_fst_weir_cockerham(call_genotype, {names}) AS wc FROM {{t}}) {ORDER}""")
    for name, wanted in zip("abc", [a, b, c]):
        close(found[name], wanted, atol=1e-14)
    found = store.row(f"SELECT fst_weir_cockerham(call_genotype, {names}) AS fst FROM {{t}}")
    close(found["fst"], np.nansum(a) / np.nansum(a + b + c), rtol=1e-11)
    by_window = store.rows(f"""
        SELECT variant_contig, genome_bin(variant_position, {WINDOW}) AS start, fst_weir_cockerham(call_genotype, {names}) AS fst
        FROM {{t}} GROUP BY 1, 2""")
    for row in by_window:
        inside = (store.contig == row["variant_contig"]) & ((store.position - 1) // WINDOW * WINDOW + 1 == row["start"])
        total = np.nansum((a + b + c)[inside])
        if total > 0:
            close(row["fst"], np.nansum(a[inside]) / total, rtol=1e-10, atol=1e-13)
        else:
            assert row["fst"] is None


@pytest.mark.parametrize("population", POPULATIONS)
def test_heterozygosity(store, population):
    """H_e is unbiased here: c / (c - 1) times scikit-allel's 1 - sum p^2, c the copies of complete diploids."""
    genotypes = complete_diploids(store, population)
    ac = genotypes.count_alleles()
    frequencies, copies = ac.to_frequencies(), ac.sum(axis=1)
    correction = copies / (copies - 1)
    # It takes frequencies whose sum is rounded to less than 1 for missing data.
    defined = ~(frequencies.sum(axis=1) < 1)
    found = store.columns(f"""
        SELECT observed_heterozygosity(z) AS observed, expected_heterozygosity(z) AS expected
        FROM (SELECT variant_contig, variant_position, zygosity_counts(call_genotype, '{population}') AS z FROM {{t}}) {ORDER}""")
    observed = allel.heterozygosity_observed(genotypes)
    close(found["observed"], observed)
    expected = allel.heterozygosity_expected(frequencies, ploidy=2) * correction
    close(found["expected"][defined], expected[defined], atol=1e-15)
    expected = allel.mean_pairwise_difference(ac)
    close(found["expected"], expected, atol=1e-15)
    varies = defined & ac.is_segregating()
    inbreeding = 1 - found["observed"] / found["expected"] * correction
    close(inbreeding[varies], allel.inbreeding_coefficient(genotypes)[varies], atol=1e-14)
    found = store.row(f"SELECT inbreeding(call_genotype, '{population}') AS f FROM {{t}}")
    close(found["f"], 1 - np.nansum(observed) / np.nansum(expected), rtol=1e-11)


@pytest.mark.parametrize("population", POPULATIONS)
def test_haplotypes_in_windows(store, population):
    """Of rows where all copies of the population are called: scikit-allel takes a missing call for one more allele."""
    found = store.rows(f"""
        SELECT variant_contig, genome_bin(variant_position, {WINDOW}) AS start, garud_h(call_genotype, '{population}') AS g,
               haplotype_diversity(call_genotype, '{population}') AS diversity, haplotype_count(call_genotype, '{population}') AS count
        FROM {{t}} GROUP BY 1, 2""")
    compared = 0
    for row in found:
        inside = (store.contig == row["variant_contig"]) & ((store.position - 1) // WINDOW * WINDOW + 1 == row["start"])
        h, g = haplotypes(store, population, inside), row["g"]
        assert (g["sites"], g["n"]) == h.shape
        if h.size:
            close([g["h1"], g["h12"], g["h123"], g["h2_h1"]], allel.garud_h(h), atol=1e-15)
            close([row["diversity"], g["diversity"]], [allel.haplotype_diversity(h)] * 2, atol=1e-15)
            assert row["count"] == g["count"] == len(h.distinct_counts())
            compared += 1
        else:
            assert (g["h1"], row["diversity"], row["count"]) == (None, None, None)
    assert compared >= (2 if store.name == "missing" else 10)


def test_haplotypes_in_windows_of_sites(complete):
    size = 100
    for contig, rows, _ in windows(complete):
        h = haplotypes(complete, "p3", rows)
        whole = len(rows) // size
        found = complete.rows(f"""
            SELECT site_bin(n, {size}) AS block, garud_h(call_genotype, 'p3') AS g
            FROM (SELECT call_genotype, row_number() OVER (ORDER BY variant_position) AS n
                  FROM {{t}} WHERE variant_contig = '{contig}')
            WHERE n <= {whole * size} GROUP BY 1 ORDER BY 1""")
        assert len(found) == whole > 10
        for name, wanted in zip(["h1", "h12", "h123", "h2_h1"], allel.moving_garud_h(h, size=size)):
            close([row["g"][name] for row in found], wanted, atol=1e-15)
        close([row["g"]["diversity"] for row in found], allel.moving_haplotype_diversity(h, size=size), atol=1e-15)


def test_linkage_disequilibrium_of_genotypes(complete):
    """scikit-allel computes r in single precision."""
    contig = complete.contig[0]
    rows = np.flatnonzero(complete.contig == contig)[:150]
    last = complete.position[rows[-1]]
    rows = rows[complete.position[rows] < last]
    dosages = (complete.genotypes[rows][:, complete.populations["p1"]] > 0).sum(axis=2).astype("i1")
    expected = np.full((len(rows), len(rows)), np.nan)
    upper = np.triu_indices(len(rows), k=1)
    with np.errstate(all="ignore"):
        expected[upper] = allel.rogers_huff_r(dosages) ** 2
    found = complete.rows(f"""
        SELECT row1, row2, r2_genotypes FROM vcz_ld('{complete.name}', 'p1', {last - complete.position[rows[0]]})
        WHERE contig = '{contig}' AND position2 < {last} AND r2_genotypes IS NOT NULL""")
    assert len(found) == np.isfinite(expected).sum() > 1000
    first = rows[0]
    wanted = [expected[row["row1"] - first, row["row2"] - first] for row in found]
    close([row["r2_genotypes"] for row in found], wanted, rtol=1e-5, atol=1e-6)
    mean = complete.row(f"""
        SELECT mean_r2_genotypes(call_genotype, 'p1') AS mean FROM {{t}}
        WHERE variant_contig = '{contig}' AND variant_position < {last}""")
    close(mean["mean"], np.nanmean(expected), rtol=1e-5)


def called_at_all(store, population, contig, rows):
    """The rows of a contig where all copies of a population are called, and their haplotypes of pooled alleles."""
    rows = rows[store.contig[rows] == contig]
    copies = store.genotypes[rows][:, store.populations[population]].reshape(len(rows), -1)
    complete = (copies >= 0).all(axis=1)
    return rows[complete], (copies[complete] > 0).astype("i1")


def test_linkage_disequilibrium_of_haplotypes(peer_stores):
    """Rogers and Huff's r of haplotypes, in single precision."""
    store = peer_stores["part"]
    rows, h = called_at_all(store, "p3", "1", np.arange(len(store.position)))
    expected = np.full((len(rows), len(rows)), np.nan)
    upper = np.triu_indices(len(rows), k=1)
    with np.errstate(all="ignore"):
        expected[upper] = allel.rogers_huff_r(h) ** 2
    found = store.rows(f"SELECT row1, row2, r2 FROM vcz_ld('{store.name}', 'p3', {store.position.max()})")
    assert len(found) == np.isfinite(expected).sum() > 1_000
    close([row["r2"] for row in found], [expected[row["row1"], row["row2"]] for row in found], rtol=1e-5, atol=1e-6)
    mean = store.row("SELECT mean_r2(call_genotype, 'p3') AS mean FROM {t}")["mean"]
    close(mean, np.nanmean(expected), rtol=1e-5)


@pytest.mark.parametrize("threshold", [0.05, 0.2, 0.7])
@pytest.mark.parametrize("population", POPULATIONS)
def test_pruning(peer_stores, population, threshold):
    """One window of all sites."""
    store = peer_stores["part"]
    rows, h = called_at_all(store, population, "1", np.arange(len(store.position)))
    varies = (h.sum(axis=1) > 0) & (h.sum(axis=1) < h.shape[1])
    rows, h = rows[varies], h[varies]
    kept = rows[allel.locate_unlinked(h, size=len(h), step=len(h), threshold=threshold)]
    found = store.rows(f"SELECT row FROM vcz_ld_prune('{store.name}', '{population}', {store.position.max()}, {threshold})")
    assert sorted(row["row"] for row in found) == kept.tolist()
    assert 1 < len(kept) < len(rows)


def scanned(store, contig, names):
    """The rows of a contig that scans take, and the haplotypes of each population at them."""
    rows = np.flatnonzero(store.contig == contig)
    samples = np.sort(np.concatenate([store.populations[name] for name in names]))
    codes = store.genotypes[rows][:, samples].reshape(len(rows), -1)
    frequency = (codes == 1).mean(axis=1)
    rows = rows[((codes == 0) | (codes == 1)).all(axis=1) & (np.minimum(frequency, 1 - frequency) >= 0.05)]
    copies = [store.genotypes[rows][:, store.populations[name]].reshape(len(rows), -1) for name in names]
    return rows, [np.ascontiguousarray(h) for h in copies]


@pytest.mark.parametrize("name", ["simulated", "simulated_missing", "sim"])
@pytest.mark.parametrize("names", [["p1"], ["p1", "p3"]])
def test_scans_for_extended_haplotypes(peer_stores, name, names):
    """NULL for NaN and infinities. Rows with missing calls are not scanned."""
    store = peer_stores[name]
    arguments = ", ".join(f"'{name}'" for name in names)
    functions = ["vcz_nsl", "vcz_ihs"] if len(names) == 1 else ["vcz_xpnsl", "vcz_xpehh"]
    found = {f: store.rows(f"SELECT * FROM {f}('{store.name}', {arguments}) ORDER BY row") for f in functions}
    wanted = {f: [] for f in functions}
    scanned_rows = []
    for contig in dict.fromkeys(store.contig):
        rows, h = scanned(store, contig, names)
        position = store.position[rows]
        scanned_rows += rows.tolist()
        with np.errstate(all="ignore"):
            if len(names) == 1:
                wanted["vcz_nsl"].append(allel.nsl(*h))
                wanted["vcz_ihs"].append(allel.ihs(*h, position, include_edges=False))
            else:
                wanted["vcz_xpnsl"].append(allel.xpnsl(*h))
                wanted["vcz_xpehh"].append(allel.xpehh(*h, position, include_edges=False))
    for function in functions:
        known = np.concatenate(wanted[function])
        assert [row["row"] for row in found[function]] == scanned_rows
        close([row["score"] for row in found[function]], np.where(np.isfinite(known), known, np.nan), rtol=1e-9, atol=1e-12)
