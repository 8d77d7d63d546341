"""`vcz_ld_prune` keeps what numpy keeps by the same rule, and plink2 what numpy keeps by plink2's, from r² of `vcz_ld`."""

import numpy as np
import pytest

from programs import run, write_vcf


@pytest.fixture(params=["part", "part_missing", "missing"])
def store(peer_stores, request):
    return peer_stores[request.param]


def alternates(store, population):
    """For each row and copy of a population, whether it is not the reference, and whether it is called."""
    members = slice(None) if population is None else store.populations[population]
    copies = store.genotypes[:, members].reshape(len(store.position), -1)
    return copies > 0, copies >= 0


def squared_correlation(one, other):
    """r² of two rows over the copies called at both; NaN if one does not vary among these."""
    called = one[1] & other[1]
    x, y = one[0][called], other[0][called]
    n, a, b, both = (int(number) for number in (len(x), x.sum(), y.sum(), (x & y).sum()))
    variances = a * (n - a) * b * (n - b)
    return (n * both - a * b) ** 2 / variances if variances else np.nan


def pruned(store, population, window, threshold):
    """Rows that vary, without those whose r² with a kept earlier one within the window is above the threshold."""
    alternate, called = alternates(store, population)
    kept = []
    for row in np.flatnonzero((alternate & called).any(axis=1) & (~alternate & called).any(axis=1)):
        near = [
            other for other in kept
            if store.contig[other] == store.contig[row] and store.position[row] - store.position[other] <= window
        ]
        pair = lambda other: squared_correlation((alternate[other], called[other]), (alternate[row], called[row]))
        if not any(pair(other) > threshold for other in near):
            kept.append(row)
    return kept


@pytest.mark.parametrize("population", [None, "p4"])
@pytest.mark.parametrize("window", [0, 12_345, 10**6])
@pytest.mark.parametrize("threshold", [0.0, 0.137, 0.613, 1.0])
def test_pruning(store, population, window, threshold):
    name = "" if population is None else f"'{population}', "
    found = store.rows(f"SELECT contig, position, row FROM vcz_ld_prune('{store.name}', {name}{window}, {threshold})")
    found.sort(key=lambda row: row["row"])
    wanted = pruned(store, population, window, threshold)
    assert [row["row"] for row in found] == wanted
    assert [(row["contig"], row["position"]) for row in found] == [(store.contig[row], store.position[row]) for row in wanted]


def pruned_by_plink2(rows, position, r2, frequency, window, threshold):
    """plink2's rule: of two variants in a window, the rarer is dropped, the later one of two as frequent.

    Windows begin at each variant in turn. In rounds, each variant of a window is compared with the later ones that it has not been
    compared with, up to the first with a higher r² than the threshold, until a round drops none.
    """
    dropped = set()
    compared_to = dict.fromkeys(rows, -1)
    for start, begin in enumerate(rows):
        inside = [row for row in rows[start:] if position[row] - position[begin] <= window]
        before = None
        while before != len(dropped):
            before = len(dropped)
            for first in inside:
                for second in inside:
                    if first in dropped:
                        break
                    if second in dropped or second <= max(first, compared_to[first]):
                        continue
                    compared_to[first] = second
                    if r2.get((first, second), 0.0) > threshold:
                        dropped.add(first if frequency[first] < frequency[second] - 1e-9 else second)
                        break
    return [row for row in rows if row not in dropped]


@pytest.mark.parametrize("window, threshold", [(1, 0.2), (20, 0.1), (20, 0.5), (1000, 0.3)])
def test_plink2(store, window, threshold, tmp_path):
    """r² of genotypes; which of two is kept is another choice than that of `vcz_ld_prune`."""
    if "v2.00a3" not in (version := run("plink2", "--version", folder=tmp_path)):
        pytest.skip(f"NOT RUN: the order of pairs is that of plink2 2.00a3, not of {version}")
    contig = store.contig[0]
    calls = np.where((store.genotypes >= 0).all(axis=2), (store.genotypes > 0).sum(axis=2), -1)
    called = (calls >= 0).sum(axis=1)
    alternates = np.where(calls >= 0, calls, 0).sum(axis=1)
    varies = (alternates > 0) & (alternates < 2 * called)
    rows = np.flatnonzero((store.contig == contig) & store.biallelic & varies).tolist()
    write_vcf(store, tmp_path / "in.vcf", rows, haploid=False)
    run(
        "plink2", "--vcf", "in.vcf", "--vcf-half-call", "missing", "--threads", "1", "--bad-ld", "--bad-freqs",
        "--indep-pairwise", f"{window}kb", "1", threshold, folder=tmp_path,
    )
    found = store.rows(f"SELECT row1, row2, r2_genotypes AS r2 FROM vcz_ld('{store.name}', {window * 1000}) WHERE contig = '{contig}'")
    r2 = {(row["row1"], row["row2"]): row["r2"] for row in found if row["r2"] is not None}
    minor = np.minimum(alternates, 2 * called - alternates) / np.maximum(2 * called, 1)
    wanted = pruned_by_plink2(rows, store.position, r2, minor, window * 1000, threshold)
    assert [int(line) for line in (tmp_path / "plink2.prune.in").read_text().split()] == wanted
    assert 1 < len(wanted) < len(rows)
