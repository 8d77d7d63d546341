-- A scan for selection: haplotype homozygosity (H12), Fay and Wu's normalised H, and the population branch statistic, in windows.
--   cargo run -- sql -f sql/selection_scan.sql

CREATE EXTERNAL TABLE sim STORED AS VCZ LOCATION 'tests/fixtures/sim.vcz.zip'
  OPTIONS ('vcz.populations' 'tests/fixtures/sim.populations.tsv');

-- Overlapping windows: sites are aggregated by steps of 25 kb, and the states of the steps are merged. The population of the scan is 'first'.
-- The branch is that of the first half of 'first', against its second half and 'second'.
CREATE VIEW scan AS
SELECT variant_contig, w AS window_start, count(*) AS sites,
       garud_h(call_genotype, 'first') AS haplotypes,
       fay_wu_h_norm(call_genotype, 'first') AS fay_wu_h,
       tajimas_d(call_genotype, 'first') AS tajimas_d,
       pbs(call_genotype, (SELECT array_agg(sample_id) FROM vcz_samples('sim') WHERE sample_index < 8),
           (SELECT array_agg(sample_id) FROM vcz_samples('sim') WHERE sample_index BETWEEN 8 AND 14), 'second') AS pbs
FROM (SELECT variant_contig, call_genotype, unnest(genome_bins(variant_position, 50000, 25000)) AS w
      FROM sim WHERE is_biallelic(variant_allele) AND is_snp(variant_allele))
GROUP BY variant_contig, w;

SELECT variant_contig, window_start, sites, haplotypes['h12'] AS h12, haplotypes['h2_h1'] AS h2_h1, haplotypes['count'] AS haplotypes,
       fay_wu_h, tajimas_d, pbs
FROM scan ORDER BY variant_contig, window_start;

-- The windows with the lowest sum of ranks; rank 1 is the most extreme value of a statistic.
SELECT variant_contig, window_start, h12_rank, h_rank, pbs_rank
FROM (SELECT variant_contig, window_start,
             rank() OVER (ORDER BY haplotypes['h12'] DESC NULLS LAST) AS h12_rank,
             rank() OVER (ORDER BY fay_wu_h ASC NULLS LAST) AS h_rank,
             rank() OVER (ORDER BY pbs DESC NULLS LAST) AS pbs_rank
      FROM scan)
ORDER BY h12_rank + h_rank + pbs_rank, variant_contig, window_start LIMIT 10;

-- Windows of 200 consecutive sites of a contig, as in scikit-allel's moving_garud_h.
SELECT variant_contig, block, min(variant_position) AS first_site, garud_h(call_genotype, 'first')['h12'] AS h12
FROM (SELECT variant_contig, variant_position, call_genotype,
             site_bin(row_number() OVER (PARTITION BY variant_contig ORDER BY variant_position), 200) AS block FROM sim)
GROUP BY variant_contig, block ORDER BY h12 DESC LIMIT 10;
