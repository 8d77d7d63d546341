# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # From a simulation to a model fitted by dadi
#
# msprime simulates two populations, bio2zarr makes a VCZ store of their VCF, `vcz` computes the joint spectrum, and dadi fits a model of the split to it. The notebook is run whenever
# the documentation is built; its files are left in the folder where it runs.
#
# ## Simulate
#
# Two populations of 10,000 diploids each split from one of the same size 4,000 generations ago. 16 and 14 individuals are sampled.

# %%
import msprime
import numpy as np
import pysam

LENGTH, MUTATION_RATE = 4_000_000, 1.5e-8

demography = msprime.Demography()
for name in ("first", "second", "ancestor"):
    demography.add_population(name=name, initial_size=10_000)
demography.add_population_split(time=4_000, derived=["first", "second"], ancestral="ancestor")
ts = msprime.sim_ancestry({"first": 16, "second": 14}, demography=demography, sequence_length=LENGTH,
                          recombination_rate=1e-8, random_seed=1)
ts = msprime.sim_mutations(ts, rate=MUTATION_RATE, random_seed=2)
print(ts.num_sites, "sites")

# %% [markdown]
# ## Write a VCF, and make a store of it

# %%
names = [f"s{i:02}" for i in range(ts.num_individuals)]
with open("sim.vcf", "w") as file:
    # Positions are from 1 in a VCF.
    ts.write_vcf(file, individual_names=names, contig_id="1",
                 position_transform=lambda x: 1 + np.asarray(x, dtype=int))
pysam.tabix_compress("sim.vcf", "sim.vcf.gz", force=True)
pysam.tabix_index("sim.vcf.gz", preset="vcf", force=True);

# %%
# !vcf2zarr convert --no-progress sim.vcf.gz sim.vcz

# %% [markdown]
# ## Query it
#
# Populations are a dict of sample ids here; a TSV or a data frame does as well.

# %%
import vcz

db = vcz.connect("sim.vcz", populations={"first": names[:16], "second": names[16:]})
# %load_ext vcz

# %%
# %%vcz
SELECT diversity(call_genotype, 'first') / 4e6 AS pi_first, diversity(call_genotype, 'second') / 4e6 AS pi_second,
       divergence(call_genotype, 'first', 'second') / 4e6 AS dxy,
       fst_hudson(call_genotype, 'first', 'second') AS fst
FROM sim

# %% [markdown]
# π of a population of 10,000 diploids is expected to be 4 × 10,000 × 1.5 × 10⁻⁸ = 0.0006.

# %%
joint = db.joint_sfs("sim", "first", "second", project=(16, 16),
                     where="is_biallelic(variant_allele) AND is_snp(variant_allele)")
vcz.plot.joint_sfs(joint);

# %% [markdown]
# ## Fit a model with dadi
#
# The spectrum goes to dadi by a file. (The cells that count sites without variation are masked in it.)

# %%
import dadi

vcz.save_spectrum("joint.fs", joint)
data = dadi.Spectrum.from_file("joint.fs")
print(data.pop_ids, data.sample_sizes, data.S())

# %% [markdown]
# The model: sizes of both populations relative to the ancestor, and the time of the split in units of 2N generations. What the simulation took is 1, 1 and
# 4,000 / 20,000 = 0.2.


# %%
def split(parameters, sizes, points):
    nu1, nu2, time = parameters
    grid = dadi.Numerics.default_grid(points)
    density = dadi.PhiManip.phi_1D_to_2D(grid, dadi.PhiManip.phi_1D(grid))
    density = dadi.Integration.two_pops(density, grid, time, nu1, nu2)
    return dadi.Spectrum.from_phi(density, sizes, (grid, grid))


model = dadi.Numerics.make_extrap_func(split)
points = [20, 30, 40]
best, likelihood = dadi.Inference.opt([1.5, 0.7, 0.1], data, model, points, maxeval=100,
                                      lower_bound=[0.1, 0.1, 0.01], upper_bound=[10, 10, 2])
expected = model(best, data.sample_sizes, points)
theta = dadi.Inference.optimal_sfs_scaling(expected, data)
size = theta / (4 * MUTATION_RATE * LENGTH)
print(f"N of the ancestor {size:,.0f}, first {best[0] * size:,.0f}, second {best[1] * size:,.0f}")
print(f"split {best[2] * 2 * size:,.0f} generations ago")

# %%
assert abs(size / 10_000 - 1) < 0.15 and abs(best[2] * 2 * size / 4_000 - 1) < 0.3

# %%
import matplotlib.pyplot as plt

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
vcz.plot.joint_sfs(joint, ax=left)
left.set_title("data")
vcz.plot.joint_sfs(dadi.Inference.optimally_scaled_sfs(expected, data).filled(0), ax=right, names=("first", "second"))
right.set_title("model");
