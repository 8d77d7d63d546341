-- Contigs on which some samples are haploid (X with males, Y, MT): the number of copies N of each population on each contig, and its spectra.
--   cargo run -- sql -f sql/sex_chromosomes.sql

CREATE EXTERNAL TABLE missing STORED AS VCZ LOCATION 'tests/fixtures/missing.vcz.zip'
  OPTIONS ('vcz.populations' 'tests/fixtures/missing.sexes.tsv');

-- N of every population on every contig, by one scan: the most copies that are called at a site. A haploid call has one copy, so of 10
-- individuals of which 4 are males N is 20 on autosomes and 16 on X. (No site has more copies than this N, so the spectrum of a larger one
-- would be empty.)
CREATE VIEW copies AS
SELECT variant_contig, p['population'] AS population, max(allele_number(p['ac'])) AS n
FROM (SELECT variant_contig, unnest(population_counts(call_genotype)) AS p FROM missing) GROUP BY 1, 2;

-- What the sexes say it should be: two copies, but one of a male's X. A difference is a sample whose calls do not fit its sex, or a population
-- that has no site where all of its samples are called.
SELECT variant_contig, c.population, n, 2 * females + CASE variant_contig WHEN 'X' THEN males ELSE 2 * males END AS by_sex
FROM copies c JOIN (
  SELECT population, count(*) FILTER (WHERE sex = 'F') AS females, count(*) FILTER (WHERE sex = 'M') AS males
  FROM (SELECT unnest(populations) AS population, attributes['sex'] AS sex FROM vcz_samples('missing')) GROUP BY population
) s ON s.population = c.population
ORDER BY 1, 2;

-- The spectra of every population on every contig, each with its N: sfs(ac, n) takes the n of each group.
WITH sites AS (
  SELECT variant_contig, p['population'] AS population, p['ac'] AS ac
  FROM (SELECT variant_contig, unnest(population_counts(call_genotype)) AS p FROM missing)
)
SELECT s.variant_contig, s.population, n, sfs(ac, n) AS sfs, diversity(ac) AS pi_sum
FROM sites s JOIN copies c ON c.variant_contig = s.variant_contig AND c.population = s.population
GROUP BY 1, 2, 3 ORDER BY 1, 2;

-- Females have two copies of X, like of autosomes, so a cohort of them needs no n.
SELECT variant_contig, sfs(call_genotype, (SELECT array_agg(sample_id) FROM vcz_samples('missing') WHERE attributes['sex'] = 'F')) AS sfs
FROM missing GROUP BY 1 ORDER BY 1;

-- Males have one copy of X each. Their N is that of the scan, again.
WITH sites AS (
  SELECT variant_contig,
         allele_counts(call_genotype, (SELECT array_agg(sample_id) FROM vcz_samples('missing') WHERE attributes['sex'] = 'M')) AS ac
  FROM missing
),
most AS (
  SELECT variant_contig, max(allele_number(ac)) AS n FROM sites GROUP BY variant_contig
)
SELECT s.variant_contig, n, sfs(ac, n) AS sfs FROM sites s JOIN most m ON m.variant_contig = s.variant_contig GROUP BY 1, 2 ORDER BY 1;
