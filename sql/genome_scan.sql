-- A genome scan: overlapping windows of 50 kb every 25 kb, with rates per accessible base, including empty windows.
--   cargo run -- sql -f sql/genome_scan.sql
--
-- Aggregate by window first, then join with the grid of windows, which also has the empty windows, and the accessible bases.

CREATE EXTERNAL TABLE sim STORED AS VCZ LOCATION 'tests/fixtures/sim.vcz.zip'
  OPTIONS ('vcz.populations' 'tests/fixtures/sim.populations.tsv');

WITH sites AS (
  SELECT variant_contig, call_genotype, unnest(genome_bins(variant_position, 50000, 25000)) AS window_start
  FROM sim
  WHERE is_accessible(variant_contig, variant_position, 'tests/fixtures/sim.accessible.bed')
),
windows AS (
  SELECT variant_contig, window_start,
         count(*) AS sites,
         diversity(call_genotype, 'first') AS pi_first,
         diversity(call_genotype, 'second') AS pi_second,
         divergence(call_genotype, 'first', 'second') AS dxy,
         fst_hudson(call_genotype, 'first', 'second') AS fst,
         theta_w(call_genotype, 'first') AS theta_w,
         tajimas_d(call_genotype, 'first') AS tajimas_d
  FROM sites GROUP BY variant_contig, window_start
)
SELECT g.contig, g.window_start, g.window_stop, g.accessible_bases,
       coalesce(w.sites, 0) AS sites,
       coalesce(w.pi_first, 0) / nullif(g.accessible_bases, 0) AS pi_first,
       coalesce(w.pi_second, 0) / nullif(g.accessible_bases, 0) AS pi_second,
       coalesce(w.dxy, 0) / nullif(g.accessible_bases, 0) AS dxy,
       coalesce(w.theta_w, 0) / nullif(g.accessible_bases, 0) AS theta_w,
       w.fst, w.tajimas_d
FROM genome_windows('sim', 50000, 25000, 'tests/fixtures/sim.accessible.bed') g
LEFT JOIN windows w ON w.variant_contig = g.contig AND w.window_start = g.window_start
ORDER BY g.contig, g.window_start;
