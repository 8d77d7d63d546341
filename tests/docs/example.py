"""The data of the documentation's function reference and of its pages for users of other programs: simulated, so that anybody can make it.

    python tests/docs/example.py FOLDER

writes `example.vcf.gz` (with index), `example.vcz` (by bio2zarr), `populations.tsv`, `accessible.bed`, and `allsites.vcf.gz` with `allsites.vcz`, which
also have the sites that do not vary. Eight populations of diploids on two contigs; SNPs of two and three alleles and short indels; filters, an ancestral
allele, GQ, DP and AD; 2 % of the calls are missing.
"""

import pathlib
import subprocess
import sys

import msprime
import numpy as np
import pysam

#: Population -> individuals.
POPULATIONS = {"YRI": 10, "LWK": 6, "CEU": 10, "CHB": 10, "TIB": 6, "ASW": 6, "Vindija": 1, "chimp": 1}
LENGTHS = {"21": 60_000, "22": 120_000}
ALL_SITES = 6_000
MISSING = 0.02


def demography():
    model = msprime.Demography()
    for name in [*POPULATIONS, "AFR", "EAS", "EUR_EAS", "modern", "human", "all"]:
        model.add_population(name=name, initial_size=8_000)
    model.add_admixture(time=20, derived="ASW", ancestral=["YRI", "CEU"], proportions=[0.8, 0.2])
    model.add_population_split(time=300, derived=["CHB", "TIB"], ancestral="EAS")
    model.add_population_split(time=600, derived=["YRI", "LWK"], ancestral="AFR")
    model.add_population_split(time=900, derived=["CEU", "EAS"], ancestral="EUR_EAS")
    model.add_mass_migration(time=1_800, source="EUR_EAS", dest="Vindija", proportion=0.05)
    model.add_population_split(time=2_200, derived=["AFR", "EUR_EAS"], ancestral="modern")
    model.add_population_split(time=20_000, derived=["modern", "Vindija"], ancestral="human")
    model.add_population_split(time=60_000, derived=["human", "chimp"], ancestral="all")
    model.sort_events()
    return model


def sample_ids():
    """Ids in the style of the 1000 Genomes; NA12878 is the first of CEU."""
    ids, members = [], {}
    for index, (name, size) in enumerate(POPULATIONS.items()):
        if size == 1:
            members[name] = [name]
        elif name == "CEU":
            members[name] = ["NA12878", *(f"NA{12000 + i}" for i in range(1, size))]
        else:
            members[name] = [f"NA{(index + 1) * 1000 + 17000 + i}" for i in range(size)]
        ids += members[name]
    return ids, members


def simulate(contig, length):
    seed = 100 + int(contig)
    samples = [msprime.SampleSet(size, population=name) for name, size in POPULATIONS.items()]
    ts = msprime.sim_ancestry(
        samples, demography=demography(), sequence_length=length, recombination_rate=1.2e-8, random_seed=seed
    )
    return msprime.sim_mutations(ts, rate=4e-8, random_seed=seed)


def header(names):
    lines = ["##fileformat=VCFv4.2", '##FILTER=<ID=PASS,Description="All filters passed">', '##FILTER=<ID=q10,Description="Low quality">']
    lines += [f"##contig=<ID={contig},length={length}>" for contig, length in LENGTHS.items()]
    lines += [
        '##INFO=<ID=AA,Number=1,Type=String,Description="Ancestral allele">',
        '##FORMAT=<ID=GT,Number=1,Type=String,Description="Genotype">',
        '##FORMAT=<ID=GQ,Number=1,Type=Integer,Description="Genotype quality">',
        '##FORMAT=<ID=DP,Number=1,Type=Integer,Description="Depth">',
        '##FORMAT=<ID=AD,Number=R,Type=Integer,Description="Depth of each allele">',
    ]
    return "\n".join([*lines, "\t".join(["#CHROM", "POS", "ID", "REF", "ALT", "QUAL", "FILTER", "INFO", "FORMAT", *names])]) + "\n"


def records(contig, ts, rng):
    """(position, line) of each variant."""
    for variant in ts.variants():
        genotypes = variant.genotypes.reshape(-1, 2).copy()
        alleles = list(variant.alleles)
        if len(alleles) == 1:
            continue
        if len(alleles) == 2 and rng.random() < 0.04:
            # An indel in the place of the SNP.
            inserted = "".join(rng.choice(list("ACGT"), 2))
            alleles = [alleles[0], alleles[0] + inserted] if rng.random() < 0.5 else [alleles[0] + inserted, alleles[0]]
        ancestral = alleles[0]
        if rng.random() < 0.15:
            # The reference is not the ancestral allele.
            alleles[:2] = alleles[1::-1]
            genotypes = np.where(genotypes < 2, 1 - genotypes, genotypes)
        missing = rng.random(len(genotypes)) < MISSING
        depth = rng.poisson(14, len(genotypes))
        quality = np.minimum(99, rng.poisson(45, len(genotypes)) + rng.integers(0, 40))
        calls = []
        for (one, two), lost, dp, gq in zip(genotypes, missing, depth, quality):
            if lost:
                calls.append(".|.:.:.:" + ",".join("." * len(alleles)))
                continue
            reads = np.zeros(len(alleles), int)
            for copy in rng.integers(0, 2, dp):
                reads[(one, two)[copy]] += 1
            calls.append(f"{one}|{two}:{gq}:{dp}:{','.join(map(str, reads))}")
        at = int(variant.site.position) + 1
        filters = "PASS" if rng.random() < 0.9 else "q10"
        fields = [contig, at, f"rs{contig}{at:06d}", alleles[0], ",".join(alleles[1:]), f"{rng.uniform(10, 90):.0f}", filters, f"AA={ancestral}"]
        yield at, "\t".join(map(str, [*fields, "GT:GQ:DP:AD", *calls]))


def write(path, names, lines):
    with open(path, "w") as file:
        file.write(header(names))
        file.writelines(line + "\n" for line in lines)
    pysam.tabix_compress(str(path), f"{path}.gz", force=True)
    pysam.tabix_index(f"{path}.gz", preset="vcf", force=True)
    path.unlink()


def convert(path, store):
    vcf2zarr = pathlib.Path(sys.executable).with_name("vcf2zarr")
    subprocess.run([vcf2zarr, "convert", "--force", "--no-progress", path, store], check=True, timeout=300)


def make(folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    names, members = sample_ids()
    with open(folder / "populations.tsv", "w") as file:
        file.write("sample_id\tpopulation\tsex\n")
        rows = [(sample, name) for name, samples in members.items() for sample in samples]
        # The same samples under the names that the fixtures have.
        rows += [(sample, alias) for alias, name in {"first": "YRI", "second": "CEU"}.items() for sample in members[name]]
        sex = {sample: "FM"[index % 2] for index, sample in enumerate(names)}
        file.writelines(f"{sample}\t{name}\t{sex[sample]}\n" for sample, name in rows)
    with open(folder / "accessible.bed", "w") as file:
        file.write("21\t0\t50000\n22\t2000\t60000\n22\t70000\t118000\n2L\t0\t90000\n")
    rng = np.random.default_rng(3)
    lines, variant_sites = [], {}
    for contig, length in LENGTHS.items():
        found = list(records(contig, simulate(contig, length), rng))
        if contig == "22":
            variant_sites = dict(found)
        lines += [line for _, line in found]
    write(folder / "example.vcf", names, lines)
    every = []
    for at in range(1, ALL_SITES + 1):
        if at in variant_sites:
            every.append(variant_sites[at])
        else:
            calls = [".|.:.:.:." if lost else "0|0:60:14:14" for lost in rng.random(len(names)) < MISSING]
            every.append("\t".join(["22", str(at), ".", "A", ".", "60", "PASS", "AA=A", "GT:GQ:DP:AD", *calls]))
    write(folder / "allsites.vcf", names, every)
    for name in ("example", "allsites"):
        convert(folder / f"{name}.vcf.gz", folder / f"{name}.vcz")


if __name__ == "__main__":
    make(sys.argv[1])
