"""Stores whose statistics are compared with those of other packages and programs, and their genotypes as these take them.

The stores are two fixtures, a simulation of four populations with admixture, with and without missing calls, and a part of it. The others
have the fixtures' genotypes from zarr-python, and those of the simulation before they are written.
"""

import csv
import dataclasses
import pathlib
import sys

import msprime
import numpy as np
import zarr

from server import FIXTURES, rows

sys.path.insert(0, str(FIXTURES))
from vcz_writer import Writer  # noqa: E402

POPULATIONS = ["p1", "p2", "p3", "p4"]
# Populations of different sizes, so that no term of unequal sizes cancels.
INDIVIDUALS = [7, 6, 8, 5]
LENGTH = 200_000


def simulation():
    """Diploids of (((p1, p2), p3), p4) with gene flow from p3 to p2. The last tenth of the sequence has sites of several mutations."""
    demography = msprime.Demography()
    for name in [*POPULATIONS, "p12", "p123", "all"]:
        demography.add_population(name=name, initial_size=5_000)
    demography.add_mass_migration(time=500, source="p2", dest="p3", proportion=0.2)
    demography.add_population_split(time=1_500, derived=["p1", "p2"], ancestral="p12")
    demography.add_population_split(time=3_000, derived=["p12", "p3"], ancestral="p123")
    demography.add_population_split(time=6_000, derived=["p123", "p4"], ancestral="all")
    samples = [msprime.SampleSet(n, population=name) for name, n in zip(POPULATIONS, INDIVIDUALS)]
    ts = msprime.sim_ancestry(
        samples, demography=demography, sequence_length=LENGTH, recombination_rate=1e-8, random_seed=11
    )
    rate = msprime.RateMap(position=[0, 0.9 * LENGTH, LENGTH], rate=[6e-8, 1.5e-6])
    return msprime.sim_mutations(ts, rate=rate, random_seed=12)


def genotypes_of(ts):
    """Genotypes (sites, individuals, 2) and alleles (sites, K), the ancestral one first; no allele is ''."""
    variants = [(variant.genotypes.reshape(-1, 2), variant.alleles) for variant in ts.variants()]
    alleles = np.full((len(variants), max(len(names) for _, names in variants)), "", dtype=object)
    for row, (_, names) in enumerate(variants):
        alleles[row, : len(names)] = names
    return np.stack([codes for codes, _ in variants]).astype(np.int8), alleles


def lose_calls(genotypes):
    """The same with missing, half and haploid calls, and sites at which a population has no call, or one called copy."""
    rng = np.random.default_rng(13)
    genotypes = genotypes.copy()
    drawn = rng.random(genotypes.shape[:2])
    genotypes[drawn < 0.08] = -1
    genotypes[(drawn >= 0.08) & (drawn < 0.12), 1] = -1
    # Two males in a region where males are haploid.
    haploid = slice(-len(genotypes) // 4, None)
    genotypes[haploid, [0, 9], 1] = -2
    ends = np.cumsum(INDIVIDUALS)
    for population, end in enumerate(ends):
        lost = rng.random(len(genotypes)) < 0.02
        genotypes[lost, end - INDIVIDUALS[population] : end] = -1
        once = rng.random(len(genotypes)) < 0.02
        genotypes[once, end - INDIVIDUALS[population] : end] = -1
        genotypes[once, end - 1, 0] = 0
    return genotypes


@dataclasses.dataclass
class Peer:
    """A store as the peers take it, and as a table of the server."""

    name: str
    location: pathlib.Path
    populations_file: pathlib.Path
    genotypes: np.ndarray  # (variants, samples, 2)
    contig: np.ndarray  # names
    position: np.ndarray
    alleles: np.ndarray  # (variants, K), the reference first; no allele is ''
    biallelic: np.ndarray  # whether exactly two alleles, neither `*` nor symbolic
    populations: dict  # name -> indices of samples
    connection: object = None

    @property
    def is_complete(self):
        return bool((self.genotypes >= 0).all())

    def rows(self, sql):
        """The rows of a query; `{t}` is the table, `{biallelic}` its biallelic sites."""
        table = f'"{self.name}"'
        return rows(self.connection, sql.format(t=table, biallelic=f"(SELECT * FROM {table} WHERE is_biallelic(variant_allele))"))

    def row(self, sql):
        """The one row of a query."""
        (found,) = self.rows(sql)
        return found

    def columns(self, sql):
        """The columns of a query as floats, NULL as NaN."""
        found = self.rows(sql)
        return {name: np.array([row[name] for row in found], dtype=np.float64) for name in found[0]}

    @property
    def table(self):
        """The statement that creates it."""
        return f"""CREATE EXTERNAL TABLE "{self.name}" STORED AS VCZ LOCATION '{self.location}'
                     OPTIONS ('vcz.populations' '{self.populations_file}');"""


def peer(name, location, genotypes, contig, position, alleles, samples, folder):
    """Divides the samples into four populations, and writes the file that says so."""
    ends = np.cumsum(INDIVIDUALS) * len(samples) // sum(INDIVIDUALS)
    members = dict(zip(POPULATIONS, np.split(np.arange(len(samples)), ends[:-1])))
    path = folder / f"{name}.populations.tsv"
    with path.open("w", newline="") as file:
        out = csv.writer(file, delimiter="\t")
        out.writerow(["sample_id", "population"])
        out.writerows((samples[i], population) for population, indices in members.items() for i in indices)
    # Queries order by contig and position, which is then the store's order.
    assert list(zip(contig, position)) == sorted(set(zip(contig, position)))
    biallelic = np.array([np.sum(listed != "") == 2 and listed[1][0] not in "*<" for listed in alleles])
    return Peer(name, location, path, genotypes, contig, position, alleles, biallelic, members)


def written(name, genotypes, alleles, position, folder):
    """A simulated store, in the writer's layout of Zarr v2: Blosc with bit shuffle."""
    store = Writer(folder / f"{name}.vcz")
    samples = np.array([f"s{i:02}" for i in range(genotypes.shape[1])], dtype=object)
    store.array("sample_id", samples, ["samples"])
    store.array("contig_id", np.array(["1"], dtype=object), ["contigs"])
    store.array("contig_length", np.array([LENGTH]), ["contigs"])
    store.array("variant_contig", np.zeros(len(position), dtype=np.int8), ["variants"])
    store.array("variant_position", position.astype(np.int32), ["variants"])
    store.array("variant_allele", alleles, ["variants", "alleles"])
    store.array("call_genotype", genotypes, ["variants", "samples", "ploidy"])
    contig = np.full(len(position), "1", dtype=object)
    return peer(name, store.directory, genotypes, contig, position, alleles, samples, folder)


def fixture(name, folder):
    """A store of tests/fixtures, read by zarr-python."""
    location = FIXTURES / f"{name}.vcz.zip"
    with zarr.storage.ZipStore(location, mode="r") as archive:
        group = zarr.open_group(archive, mode="r")
        read = {
            array: group[array][:]
            for array in ["call_genotype", "variant_contig", "variant_position", "variant_allele", "contig_id", "sample_id"]
        }
    contig = read["contig_id"][read["variant_contig"]]
    alleles = read["variant_allele"].astype(object)
    return peer(name, location, read["call_genotype"], contig, read["variant_position"], alleles, read["sample_id"], folder)


def stores(ts, folder):
    """All stores, by name."""
    genotypes, alleles = genotypes_of(ts)
    position = np.array([int(site.position) + 1 for site in ts.sites()])
    missing = lose_calls(genotypes)
    # Few enough rows to compare all pairs of them.
    part = slice(None, None, 50)
    made = [
        written("simulated", genotypes, alleles, position, folder),
        written("simulated_missing", missing, alleles, position, folder),
        written("part", genotypes[part], alleles[part], position[part], folder),
        written("part_missing", missing[part], alleles[part], position[part], folder),
        fixture("sim", folder),
        fixture("missing", folder),
    ]
    return {store.name: store for store in made}
