"""The two demographies that stores are simulated from: one insect-like (many common variants), one human (most variants rare)."""

import math

import msprime


def mosquito():
    """Two large populations that grew and split: similar to Anopheles gambiae in density, singletons and mean frequency."""
    ancestral, now, split, growth_time = 800_000, 3_000_000, 200_000, 400_000
    rate = math.log(now / ancestral) / growth_time
    demography = msprime.Demography()
    for name in ("first", "second"):
        demography.add_population(name=name, initial_size=now, growth_rate=rate)
    at_split = now * math.exp(-rate * split)
    demography.add_population(name="both", initial_size=at_split, growth_rate=rate)
    demography.add_population_split(time=split, derived=["first", "second"], ancestral="both")
    demography.add_population_parameters_change(time=growth_time, population="both", initial_size=ancestral, growth_rate=0)
    return demography, dict(sequence_length=5_560, mutation_rate=3.5e-9, recombination_rate=7e-9)


def human():
    """Africans and Europeans of Tennessen et al. 2012 (doi:10.1126/science.1219240), as in stdpopsim's OutOfAfrica_2T12."""
    growth_time, out_of_africa, europeans, african_growth = 204.6, 2_040, 920, 5_920
    rate_africa, rate_europe, rate_europe_before = 0.0166, 0.0195, 0.00307
    demography = msprime.Demography()
    demography.add_population(name="first", initial_size=432_125, growth_rate=rate_africa)
    demography.add_population(name="second", initial_size=501_436, growth_rate=rate_europe)
    demography.set_symmetric_migration_rate(["first", "second"], 2.5e-5)
    before = 501_436 * math.exp(-rate_europe * growth_time)
    demography.add_population_parameters_change(time=growth_time, population="first", initial_size=14_474, growth_rate=0)
    demography.add_population_parameters_change(
        time=growth_time, population="second", initial_size=before, growth_rate=rate_europe_before
    )
    demography.add_population_parameters_change(time=europeans, population="second", initial_size=1_861, growth_rate=0)
    demography.add_symmetric_migration_rate_change(time=europeans, populations=["first", "second"], rate=15e-5)
    demography.add_symmetric_migration_rate_change(time=out_of_africa, populations=["first", "second"], rate=0)
    demography.add_mass_migration(time=out_of_africa, source="second", dest="first", proportion=1)
    demography.add_population_parameters_change(time=african_growth, population="first", initial_size=7_310)
    return demography, dict(sequence_length=7_500, mutation_rate=2.36e-8, recombination_rate=1e-8)


MODELS = {"mosquito": mosquito, "human": human}


def simulate(model, haplotypes, seed):
    """One segment with infinitely many sites: each is biallelic. Half the individuals come from each population."""
    demography, options = MODELS[model]()
    mutation_rate = options.pop("mutation_rate")
    individuals = haplotypes // 2
    ts = msprime.sim_ancestry(
        samples={"first": individuals // 2, "second": individuals - individuals // 2},
        demography=demography,
        discrete_genome=False,
        random_seed=seed % (2**32 - 2) + 1,
        **options,
    )
    return msprime.sim_mutations(
        ts, rate=mutation_rate, discrete_genome=False, model=msprime.BinaryMutationModel(), random_seed=(seed + 1) % (2**32 - 2) + 1
    )
