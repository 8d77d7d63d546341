-- Site frequency spectra: of complete sites, folded, projected, polarised by the ancestral allele, of a cohort, and as rows.
--   cargo run -- sql -f sql/sfs.sql

CREATE EXTERNAL TABLE sim STORED AS VCZ LOCATION 'tests/fixtures/sim.vcz.zip'
  OPTIONS ('vcz.populations' 'tests/fixtures/sim.populations.tsv');

-- Unfolded (with the reference as ancestral allele) and folded, of all samples, over SNPs that pass all filters.
SELECT sfs(call_genotype) AS sfs, sfs_folded(call_genotype) AS folded
FROM sim WHERE is_snp(variant_allele) AND is_pass(variant_filter);

-- Projected to 10 copies: includes sites with missing calls that have at least 10 called copies.
SELECT project_sfs(call_genotype, 'first', 10) AS projected FROM sim;

-- Polarised: the ancestral allele comes first, and sites whose ancestral allele is unknown are left out.
SELECT sfs(polarize(allele_counts(call_genotype, 'first'), variant_allele, "variant_AA")) AS polarised FROM sim;

-- A cohort selected with SQL: every third sample.
SELECT sfs(call_genotype, (SELECT array_agg(sample_id) FROM vcz_samples('sim') WHERE sample_index % 3 = 0)) AS sfs FROM sim;

-- As rows, including sites with missing calls.
SELECT derived_count(ac) AS derived, allele_number(ac) AS called, count(*) AS sites
FROM (SELECT allele_counts(call_genotype, 'first') AS ac FROM sim) GROUP BY 1, 2 ORDER BY 1, 2 LIMIT 10;

-- Every population at once.
SELECT p['population'] AS population, sfs(p['ac']) AS sfs, diversity(p['ac']) AS pi, segregating_sites(p['ac']) AS segregating
FROM (SELECT unnest(population_counts(call_genotype)) AS p FROM sim) GROUP BY 1 ORDER BY 1;
