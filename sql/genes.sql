-- Statistics per gene, including genes without variants. The join with intervals is executed on bins: EXPLAIN shows vcz_join_bins.
--   cargo run -- sql -f sql/genes.sql

CREATE EXTERNAL TABLE sim STORED AS VCZ LOCATION 'tests/fixtures/sim.vcz.zip'
  OPTIONS ('vcz.populations' 'tests/fixtures/sim.populations.tsv');

-- Features of a GFF3 file (of GTF: STORED AS GTF, and attributes['gene_id']); start and stop are 1-based, both ends inclusive. Any other table
-- with a contig, a start and a stop can take its place.
CREATE EXTERNAL TABLE features STORED AS GFF3 LOCATION 'tests/fixtures/sim.genes.gff3.gz';

CREATE VIEW genes AS SELECT attributes['ID'] AS gene, contig, start, stop, strand FROM features WHERE type = 'gene';

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

-- Exons only: a site in several exons (of several transcripts) counts once for its gene.
WITH exons AS (
  SELECT DISTINCT m.attributes['Parent'] AS gene, e.contig, e.start, e.stop
  FROM features e JOIN features m ON e.attributes['Parent'] = m.attributes['ID'] WHERE e.type = 'exon'
),
sites AS (
  SELECT DISTINCT gene, variant_contig, variant_position, variant_allele[2] AS alt, allele_counts(call_genotype, 'first') AS ac
  FROM sim JOIN exons ON variant_contig = contig AND variant_position BETWEEN start AND stop
)
SELECT gene, count(*) AS sites, segregating_sites(ac) AS segregating, diversity(ac) AS pi_sum FROM sites GROUP BY gene ORDER BY gene;
