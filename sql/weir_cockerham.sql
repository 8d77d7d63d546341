-- Weir and Cockerham's FST of diploids, along the genome and site by site, with F_IS and F_IT; heterozygosity, inbreeding and
-- Hardy-Weinberg tests.
--   cargo run -- sql -f sql/weir_cockerham.sql

CREATE EXTERNAL TABLE sim STORED AS VCZ LOCATION 'tests/fixtures/sim.vcz.zip'
  OPTIONS ('vcz.populations' 'tests/fixtures/sim.populations.tsv');

-- Over all sites; with the haploid form, which uses copies instead of individuals; and with Hudson's FST.
SELECT fst_weir_cockerham(call_genotype, 'first', 'second') AS fst,
       fst_weir_cockerham_haploid(call_genotype, 'first', 'second') AS fst_of_copies,
       fst_hudson(call_genotype, 'first', 'second') AS fst_hudson,
       inbreeding(call_genotype, 'first') AS f_first, inbreeding(call_genotype, 'second') AS f_second
FROM sim;

-- In windows of 50 kb, with the weighted and mean estimates of `vcftools --weir-fst-pop`.
WITH sites AS (
  SELECT variant_contig, variant_position, site_fst_weir_cockerham(call_genotype, 'first', 'second') AS wc FROM sim
)
SELECT variant_contig, genome_bin(variant_position, 50000) AS window_start, count(wc) AS sites,
       exact_sum(wc['a']) / nullif(exact_sum(wc['a'] + wc['b'] + wc['c']), 0) AS weighted_fst,
       exact_sum(wc['a'] / nullif(wc['a'] + wc['b'] + wc['c'], 0))
         / nullif(count(wc['a'] / nullif(wc['a'] + wc['b'] + wc['c'], 0)), 0) AS mean_fst
FROM sites GROUP BY variant_contig, window_start ORDER BY variant_contig, window_start;

-- F_IS, F_ST and F_IT from the same variance components.
SELECT 1 - exact_sum(wc['c']) / nullif(exact_sum(wc['b'] + wc['c']), 0) AS f_is,
       exact_sum(wc['a']) / nullif(exact_sum(wc['a'] + wc['b'] + wc['c']), 0) AS f_st,
       1 - exact_sum(wc['c']) / nullif(exact_sum(wc['a'] + wc['b'] + wc['c']), 0) AS f_it
FROM (SELECT site_fst_weir_cockerham(call_genotype, 'first', 'second') AS wc FROM sim);

-- The sites that deviate most from Hardy-Weinberg proportions.
SELECT variant_contig, variant_position, observed_heterozygosity(z) AS h_o, expected_heterozygosity(z) AS h_e, hwe_exact(z) AS p
FROM (SELECT variant_contig, variant_position, zygosity_counts(call_genotype) AS z FROM sim)
ORDER BY p, variant_position LIMIT 5;
