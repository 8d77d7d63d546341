-- Patterson's D and f-statistics of four populations, with standard errors from the block jackknife; and every pair of populations.
--   cargo run -- sql -f sql/f_statistics.sql

CREATE EXTERNAL TABLE sim STORED AS VCZ LOCATION 'tests/fixtures/sim.vcz.zip'
  OPTIONS ('vcz.populations' 'tests/fixtures/sim.populations.tsv');

-- Four cohorts, counted in one pass over the genotypes. Populations of the populations file can be given by name: 'first'.
CREATE VIEW sites AS
SELECT variant_contig, variant_position,
       allele_counts(call_genotype, (SELECT array_agg(sample_id) FROM vcz_samples('sim') WHERE sample_index < 8)) AS a,
       allele_counts(call_genotype, (SELECT array_agg(sample_id) FROM vcz_samples('sim') WHERE sample_index BETWEEN 8 AND 14)) AS b,
       allele_counts(call_genotype, (SELECT array_agg(sample_id) FROM vcz_samples('sim') WHERE sample_index BETWEEN 15 AND 22)) AS c,
       allele_counts(call_genotype, (SELECT array_agg(sample_id) FROM vcz_samples('sim') WHERE sample_index > 22)) AS d
FROM sim;

-- D and f4 of (((a, b), c), d). D has the sign of BABA - ABBA. Both are symmetric in the alleles, so no ancestral allele is needed.
SELECT patterson_d(a, b, c, d) AS d, f4(a, b, c, d) AS f4, f3(c, a, d) AS f3_of_c, f2(a, b) AS f2_of_a_b, pbs(a, b, d) AS pbs_of_a
FROM sites;

-- The same with standard errors: z is the estimate divided by its standard error. Blocks are 50 kb here, because the simulated genome is short;
-- for real genomes take 5,000,000.
WITH terms AS (
  SELECT variant_contig, variant_position, site_patterson_d(a, b, c, d) AS d, site_f4(a, b, c, d) AS f4 FROM sites
),
blocks AS (
  SELECT variant_contig, genome_bin(variant_position, 50000) AS block,
         exact_sum(d['num']) AS baba_minus_abba, exact_sum(d['den']) AS baba_plus_abba,
         exact_sum(f4) AS f4, count(f4) AS sites
  FROM terms GROUP BY variant_contig, block
),
tests AS (
  SELECT 'D' AS statistic, jackknife(baba_minus_abba, baba_plus_abba, sites) AS j FROM blocks
  UNION ALL
  SELECT 'f4', jackknife(f4, sites, sites) FROM blocks
)
SELECT statistic, j['estimate'] AS estimate, j['se'] AS se, j['z'] AS z, j['blocks'] AS blocks FROM tests ORDER BY statistic;

-- Every pair of populations of the populations file.
SELECT p['population1'] AS population1, p['population2'] AS population2,
       fst_hudson(p['ac1'], p['ac2']) AS fst, net_divergence(p['ac1'], p['ac2']) AS da,
       shared_polymorphism(p['ac1'], p['ac2']) AS polymorphism
FROM (SELECT unnest(population_pair_counts(call_genotype)) AS p FROM sim) GROUP BY 1, 2 ORDER BY 1, 2;
