-- Statistics per gene, including genes without variants. The join with intervals is executed on bins: EXPLAIN shows vcz_join_bins.
--   cargo run -- sql -f sql/genes.sql

CREATE EXTERNAL TABLE sim STORED AS VCZ LOCATION 'tests/fixtures/sim.vcz.zip'
  OPTIONS ('vcz.populations' 'tests/fixtures/sim.populations.tsv');

-- 1-based, both ends inclusive.
CREATE EXTERNAL TABLE genes STORED AS CSV LOCATION 'tests/fixtures/sim.genes.tsv'
  OPTIONS ('format.delimiter' E'\t', 'format.has_header' 'true');

WITH sums AS (
  SELECT g.gene, count(*) AS sites,
         diversity(s.call_genotype, 'first') AS pi_sum,
         fst_hudson(s.call_genotype, 'first', 'second') AS fst
  FROM sim s JOIN genes g ON s.variant_contig = g.contig AND s.variant_position BETWEEN g.start AND g.stop
  WHERE is_accessible(s.variant_contig, s.variant_position, 'tests/fixtures/sim.accessible.bed')
  GROUP BY g.gene
),
lengths AS (
  SELECT gene, accessible_bases(contig, start, stop, 'tests/fixtures/sim.accessible.bed') AS bases FROM genes
)
SELECT l.gene, l.bases, coalesce(s.sites, 0) AS sites, coalesce(s.pi_sum, 0) / nullif(l.bases, 0) AS pi, s.fst
FROM lengths l LEFT JOIN sums s ON s.gene = l.gene ORDER BY l.gene;
