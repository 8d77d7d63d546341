-- Linkage disequilibrium by distance: r², D', σ_D² and the moments of two populations; strong pairs; variants pruned of them.
--   cargo run -- sql -f sql/ld_decay.sql

CREATE EXTERNAL TABLE sim STORED AS VCZ LOCATION 'tests/fixtures/sim.vcz.zip'
  OPTIONS ('vcz.populations' 'tests/fixtures/sim.populations.tsv');

-- The decay of r² and of σ_D² = ΣDD / Σπ2 with distance. Pairs are of one contig, so a genome is grouped by contig.
SELECT variant_contig, b['bin_start'] AS bin_start, b['bin_stop'] AS bin_stop, b['pairs'] AS pairs, b['mean_r2'] AS mean_r2,
       b['mean_d_prime'] AS mean_d_prime, b['sum_dd'] / b['sum_pi2'] AS sigma_d2
FROM (SELECT variant_contig, unnest(ld_decay(call_genotype, 'first', variant_position, [1, 100, 1000, 5000, 20000])) AS b
      FROM sim WHERE is_biallelic(variant_allele) GROUP BY variant_contig)
ORDER BY 1, 2;

-- Kelly's ZnS in windows, of haplotypes and of genotypes without phase.
SELECT variant_contig, genome_bin(variant_position, 25000) AS w, mean_r2(call_genotype, 'first') AS zns,
       mean_r2_genotypes(call_genotype, 'first') AS zns_genotypes
FROM sim GROUP BY 1, 2 ORDER BY 1, 2 LIMIT 10;

-- moments' statistics of two populations, as means over pairs.
SELECT m['bin_start'] AS bin_start, m['statistic'] AS statistic, m['sum'] / nullif(m['pairs'], 0) AS mean
FROM (SELECT unnest(ld_moments(call_genotype, 'first', 'second', variant_position, [0, 1000, 5000])) AS m
      FROM sim WHERE is_biallelic(variant_allele) AND is_segregating(allele_counts(call_genotype)) AND variant_contig = 'chr1'
            AND variant_position <= 100000)
ORDER BY 1, 2;

-- Pairs in strong disequilibrium, and the variants that are left when the later one of each is dropped.
SELECT contig, position1, position2, r2, d_prime, r2_genotypes FROM vcz_ld('sim', 'first', 2000, 0.99) ORDER BY row1, row2 LIMIT 10;
SELECT contig, count(*) AS kept FROM vcz_ld_prune('sim', 'first', 50000, 0.2) GROUP BY contig ORDER BY contig;
