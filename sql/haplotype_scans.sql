-- Scans for extended haplotypes: nSL and iHS of a population, XP-EHH and XP-nSL of two; standardised, with the highest scores.
--   cargo run -- sql -f sql/haplotype_scans.sql

CREATE EXTERNAL TABLE sim STORED AS VCZ LOCATION 'tests/fixtures/sim.vcz.zip'
  OPTIONS ('vcz.populations' 'tests/fixtures/sim.populations.tsv');

-- Scores depend on the frequency of the allele, so they are standardised among rows of similar allele counts. A negative score: the carriers of the
-- reference have the longer haplotypes.
SELECT contig, position, allele_count, score, (score - avg(score) OVER bin) / stddev(score) OVER bin AS standardised
FROM vcz_nsl('sim', 'first') WHERE score IS NOT NULL
WINDOW bin AS (PARTITION BY allele_count / 4)
ORDER BY abs(standardised) DESC, row LIMIT 10;

-- The proportion of extreme iHS in windows, which is less noisy than single scores (Voight et al. 2006). Its windows without a score are left out.
SELECT contig, genome_bin(position, 25000) AS w, count(*) AS scores, avg(CASE WHEN abs(standardised) > 2 THEN 1.0 ELSE 0.0 END) AS extreme
FROM (SELECT contig, position, (score - avg(score) OVER bin) / stddev(score) OVER bin AS standardised
      FROM vcz_ihs('sim', 'first') WHERE score IS NOT NULL
      WINDOW bin AS (PARTITION BY allele_count / 4))
GROUP BY 1, 2 ORDER BY extreme DESC, 1, 2 LIMIT 10;

-- Two populations: scores are standardised over the whole genome. High ones: longer haplotypes in 'first'.
SELECT contig, position, e.score AS xpehh, n.score AS xpnsl,
       (e.score - avg(e.score) OVER ()) / stddev(e.score) OVER () AS xpehh_standardised,
       (n.score - avg(n.score) OVER ()) / stddev(n.score) OVER () AS xpnsl_standardised
FROM vcz_xpehh('sim', 'first', 'second') AS e JOIN vcz_xpnsl('sim', 'first', 'second') AS n USING (contig, position, row)
WHERE e.score IS NOT NULL AND n.score IS NOT NULL
ORDER BY xpehh_standardised DESC, row LIMIT 10;

-- Against the derived allele: variant_AA has the ancestral one. Where it is ALT, the score of 1 over 0 is ancestral over derived, and its sign changes.
SELECT n.contig, n.position, CASE WHEN t.variant_AA = t.variant_allele[1] THEN n.score WHEN t.variant_AA = t.variant_allele[2] THEN -n.score END AS derived
FROM vcz_nsl('sim', 'first') AS n JOIN sim AS t ON n.contig = t.variant_contig AND n.position = t.variant_position
WHERE is_biallelic(t.variant_allele)
ORDER BY derived DESC NULLS LAST, 1, 2 LIMIT 10;
