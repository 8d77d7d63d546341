-- Sample quality: call rate, heterozygosity, inbreeding and private variants of every individual, and outliers.
--   cargo run -- sql -f sql/sample_qc.sql

CREATE EXTERNAL TABLE sim STORED AS VCZ LOCATION 'tests/fixtures/sim.vcz.zip'
  OPTIONS ('vcz.populations' 'tests/fixtures/sim.populations.tsv');

-- One row per individual. Inbreeding is relative to the expected heterozygosity of all samples together.
CREATE VIEW individuals AS
SELECT s['sample'] AS sample, s['hom_ref'] AS hom_ref, s['het'] AS het, s['hom_alt'] AS hom_alt, s['missing'] AS missing,
       s['singletons'] AS singletons, s['private_sites'] AS private_sites, s['inbreeding'] AS inbreeding,
       s['hom_ref'] + s['het'] + s['hom_alt'] + s['haploid'] + s['missing'] AS sites
FROM (SELECT unnest(sample_counts(call_genotype)) AS s FROM sim WHERE is_biallelic(variant_allele));

SELECT sample, 1 - missing / CAST(sites AS DOUBLE) AS call_rate, het / CAST(sites - missing AS DOUBLE) AS heterozygosity,
       inbreeding, singletons, private_sites
FROM individuals ORDER BY sample;

-- Distance from the mean in standard deviations, on which samples can be filtered.
SELECT sample, (inbreeding - avg(inbreeding) OVER ()) / nullif(stddev(inbreeding) OVER (), 0) AS inbreeding_z,
       (private_sites - avg(private_sites) OVER ()) / nullif(stddev(private_sites) OVER (), 0) AS private_sites_z
FROM individuals ORDER BY abs(inbreeding_z) DESC, sample LIMIT 5;

-- Within each population, with the population's own H_e.
SELECT population, s['sample'] AS sample, s['inbreeding'] AS inbreeding, s['singletons'] AS singletons
FROM (SELECT 'first' AS population, unnest(sample_counts(call_genotype, 'first')) AS s FROM sim
      UNION ALL
      SELECT 'second', unnest(sample_counts(call_genotype, 'second')) FROM sim)
ORDER BY population, sample;

-- Inbreeding in windows of 100 kb; an extreme value in a single window may be a copy-number variant.
SELECT w AS window_start, s['sample'] AS sample, s['inbreeding'] AS inbreeding
FROM (SELECT genome_bin(variant_position, 100000) AS w, unnest(sample_counts(call_genotype)) AS s FROM sim GROUP BY w)
WHERE s['inbreeding'] < -0.5 OR s['inbreeding'] > 0.5 ORDER BY w, sample LIMIT 10;
