"""Moments of linkage disequilibrium equal those of moments, and averages over distinct copies in exact arithmetic."""

import functools
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from programs import write_vcf

EDGES = [0, 4_000, 30_000, 120_000]
TWO = ["p1", "p3"]
# Alleles of two sites: AB, Ab, aB, ab.
TYPES = [(1, 1), (1, 0), (0, 1), (0, 0)]


def sums(store, populations, where="{t}", position="variant_position", function="ld_moments"):
    """(start of a bin, statistic) -> (sum, pairs)."""
    names = ", ".join(f"'{population}'" for population in populations)
    try:
        found = store.rows(f"""
            SELECT m['bin_start'] AS start, m['statistic'] AS statistic, m['sum'] AS sum, m['pairs'] AS pairs
            FROM (SELECT unnest({function}(call_genotype, {names}, {position}, {EDGES})) AS m FROM {where})""")
    except Exception as error:
        if f"Invalid function '{function}'" not in str(error):
            raise
        pytest.skip(f"NOT RUN: there is no {function}")
    return {(row["start"], row["statistic"]): (row["sum"], row["pairs"]) for row in found}


def sums_of_moments(store, populations, folder, genotypes):
    """moments' sums by (start of a bin, statistic), of biallelic sites that vary in the populations; and these sites here."""
    parsing = pytest.importorskip("moments.LD.Parsing", reason="NOT RUN: there is no moments")
    copies = store.genotypes[:, np.concatenate([store.populations[population] for population in populations])]
    derived = copies.sum(axis=(1, 2))
    rows = np.flatnonzero(store.biallelic & (derived > 0) & (derived < copies[0].size))
    write_vcf(store, folder / "in.vcf", rows)
    members = [(f"s{i}", population) for population in populations for i in store.populations[population]]
    (folder / "populations").write_text("sample\tpop\n" + "".join(f"{sample}\t{name}\n" for sample, name in members))
    found = parsing.compute_ld_statistics(
        str(folder / "in.vcf"), use_h5=False, bp_bins=EDGES, pop_file=str(folder / "populations"), pops=populations,
        use_genotypes=genotypes, report=False,
    )
    counts = ", ".join(f"allele_counts(call_genotype, '{population}')" for population in populations)
    where = f"add_counts({counts})" if len(populations) > 1 else counts
    values = {
        (start, name): value
        for (start, _), values in zip(found["bins"], found["sums"])
        for name, value in zip(found["stats"][0], values)
    }
    return values, f"{{biallelic}} WHERE is_segregating({where})"


@pytest.mark.filterwarnings("ignore:The inplace keyword")
@pytest.mark.parametrize("populations", [TWO[:1], TWO])
def test_against_moments(peer_stores, populations, tmp_path):
    """moments takes the mean of both orders of two sites, which the mirror image of the contig has the other way round.

    But for two statistics it takes one order twice: its pi2(i, j; i, i) is computed as pi2(i, i; i, j).
    """
    store = peer_stores["part"]
    wanted, where = sums_of_moments(store, populations, tmp_path, genotypes=False)
    found, mirrored = sums(store, populations, where), sums(store, populations, where, "-variant_position")
    assert found.keys() == mirrored.keys() == wanted.keys()
    for (start, name), value in wanted.items():
        orders = [found[start, name][0], mirrored[start, name][0]]
        orders = orders[:1] if name == "pi2_0_0_0_1" else orders[1:] if name == "pi2_0_1_1_1" else orders
        assert sum(orders) / len(orders) == pytest.approx(value, rel=1e-11, abs=1e-11), (start, name)


@pytest.mark.filterwarnings("ignore:The inplace keyword")
@pytest.mark.parametrize("population", TWO)
def test_genotypes_against_moments(peer_stores, population, tmp_path):
    store = peer_stores["part"]
    wanted, where = sums_of_moments(store, [population], tmp_path, genotypes=True)
    found = sums(store, [population], where, function="ld_moments_genotypes")
    assert found.keys() == wanted.keys()
    for key, value in wanted.items():
        assert found[key][0] == pytest.approx(value, rel=1e-10, abs=1e-11), key


# Factors: how many copies one takes, and what it is of their alleles, [first site, second site].
FACTORS = {
    "D": (2, lambda u, v: u[0] * u[1] - u[0] * v[1]),
    "1 - 2p": (1, lambda u: 1 - 2 * u[0]),
    "1 - 2q": (1, lambda u: 1 - 2 * u[1]),
    "p": (1, lambda u: u[0]),
    "1 - p": (1, lambda u: 1 - u[0]),
    "q": (1, lambda u: u[1]),
    "1 - q": (1, lambda u: 1 - u[1]),
}


@functools.cache
def products(factors):
    """The types of copies of which a product of factors is not 0, and the product."""
    found = []
    for chosen in itertools.product(range(4), repeat=sum(FACTORS[factor][0] for factor in factors)):
        rest = iter(chosen)
        product = math.prod(value(*(TYPES[next(rest)] for _ in range(n))) for n, value in map(FACTORS.get, factors))
        if product:
            found.append((chosen, product))
    return found


def average(factors, populations, tables):
    """The average over distinct copies of a product of factors, each of a population; `tables` counts copies of each of TYPES."""
    slots = [population for factor, population in zip(factors, populations) for _ in range(FACTORS[factor][0])]
    least = [slots.count(population) for population in range(len(tables))]
    if any(sum(table) < n for table, n in zip(tables, least)):
        return None
    total = 0
    for chosen, product in products(factors):
        left = [list(table) for table in tables]
        for population, which in zip(slots, chosen):
            product *= left[population][which]
            left[population][which] -= 1
        total += product
    return Fraction(total, math.prod(math.perm(sum(table), n) for table, n in zip(tables, least)))


@functools.cache
def by_definition(name, *tables):
    """A statistic of one pair of sites, None where there are too few copies."""
    kind, *populations = name.split("_")
    populations = [int(population) for population in populations]
    if kind == "DD":
        return average(("D", "D"), populations, tables)
    if kind == "Dz":
        return average(("D", "1 - 2p", "1 - 2q"), populations, tables)
    i, j, k, l = populations
    orders = [[*left, *right] for left in [(i, j), (j, i)] for right in [(k, l), (l, k)]]
    terms = [average(("p", "1 - p", "q", "1 - q"), order, tables) for order in orders]
    return None if None in terms else sum(terms) / 4


def tables(store, populations, row, other):
    """How many copies of each population have each pair of alleles."""
    for population in populations:
        copies = store.genotypes[[row, other]][:, store.populations[population]].reshape(2, -1)
        called = copies[:, (copies >= 0).all(axis=0)] > 0
        yield tuple(int(np.sum((called[0] == a) & (called[1] == b))) for a, b in TYPES)


@pytest.mark.parametrize("name", ["part", "part_missing"])
@pytest.mark.parametrize("populations", [TWO[:1], TWO])
def test_against_averages(peer_stores, name, populations):
    """Of any sites, and with missing calls, which moments refuses."""
    store = peer_stores[name]
    last = 60
    found = sums(store, populations, f"{{t}} WHERE variant_position <= {store.position[last - 1]}")
    wanted = {key: [Fraction(0), 0] for key in found}
    for row, other in itertools.combinations(range(last), 2):
        distance = store.position[other] - store.position[row]
        start = max(edge for edge in EDGES if edge <= distance)
        counted = list(tables(store, populations, row, other))
        for bin_start, statistic in found:
            if bin_start == start and (value := by_definition(statistic, *counted)) is not None:
                wanted[bin_start, statistic][0] += value
                wanted[bin_start, statistic][1] += 1
    assert len(found) == (len(EDGES) - 1) * (15 if len(populations) == 2 else 3)
    for key, (value, pairs) in wanted.items():
        assert found[key] == (pytest.approx(float(value), rel=1e-12, abs=1e-12), pairs), key


def of_genotypes(x, y):
    """The statistics of one pair of sites from the dosages of individuals: averages over four distinct ones."""
    counts = np.bincount(3 * x + y, minlength=9)
    u, v, s, t = np.indices((9,) * 4)
    ways = counts[u] * (counts[v] - (v == u)) * (counts[s] - (s == u) * 1 - (s == v))
    ways *= counts[t] - (t == u) * 1 - (t == v) - (t == s)
    (x_u, x_v, x_s, _), (y_u, y_v, y_s, y_t) = ([kind // 3 for kind in (u, v, s, t)], [kind % 3 for kind in (u, v, s, t)])
    d = x_u * y_u - x_u * y_v
    sums = {
        "DD_0_0": (d * (x_s * y_s - x_s * y_t), 4),
        "Dz_0_0_0": (d * (1 - x_s) * (1 - y_t), 2),
        "pi2_0_0_0_0": (x_u * (2 - x_v) * y_s * (2 - y_t), 16),
    }
    below = math.perm(len(x), 4)
    return {name: Fraction(int((ways * term).sum()), scale * below) for name, (term, scale) in sums.items()}


@pytest.mark.parametrize("name", ["part", "part_missing"])
def test_genotypes_against_averages(peer_stores, name):
    """Of any sites; individuals that are complete diploids at both."""
    store = peer_stores[name]
    last = 50
    dosages, position = store.genotypes[:last, store.populations["p3"]], store.position
    complete, dosages = (dosages >= 0).all(axis=2), (dosages > 0).sum(axis=2)
    wanted = {}
    for row, other in itertools.combinations(range(last), 2):
        both = complete[row] & complete[other]
        if both.sum() >= 4 and position[other] - position[row] < EDGES[-1]:
            start = max(edge for edge in EDGES if edge <= position[other] - position[row])
            for statistic, value in of_genotypes(dosages[row, both], dosages[other, both]).items():
                total, pairs = wanted.get((start, statistic), (0, 0))
                wanted[start, statistic] = (total + value, pairs + 1)
    found = sums(store, ["p3"], f"{{t}} WHERE variant_position <= {position[last - 1]}", function="ld_moments_genotypes")
    assert found.keys() == wanted.keys()
    for key, (value, pairs) in wanted.items():
        assert found[key] == (pytest.approx(float(value), rel=1e-11, abs=1e-11), pairs), key
