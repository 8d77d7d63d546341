-- Relatives: the KING-robust kinship of each pair of individuals (Manichaikul et al. 2010), with the sites at which they share no allele.
--   cargo run -- sql -f sql/relatedness.sql
--
-- Kinship is near 0.5 for duplicates, 0.25 for parents and full siblings, 0.125 for second degree and 0 for unrelated individuals; the
-- degrees are divided at odd powers of 2^(-1/2). Parents share an allele at every site, full siblings do not. This simulation is of a short
-- sequence with few ancestors, so its individuals look more related than they are.

CREATE EXTERNAL TABLE sim STORED AS VCZ LOCATION 'tests/fixtures/sim.vcz.zip'
  OPTIONS ('vcz.populations' 'tests/fixtures/sim.populations.tsv');

WITH pairs AS (
  SELECT unnest(sample_pairs(call_genotype)) AS p
  FROM sim WHERE is_biallelic(variant_allele) AND is_pass(variant_filter)
),
kinship AS (
  SELECT p['sample1'] AS sample1, p['sample2'] AS sample2, p['sites'] AS sites, p['ibs0'] AS ibs0,
         kinship_king(p['het_het'], p['opposite'], p['het1'], p['het2']) AS kinship
  FROM pairs
)
SELECT sample1, sample2, sites, ibs0, round(kinship, 4) AS kinship,
       CASE WHEN kinship > power(2, -1.5) THEN 'duplicates'
            WHEN kinship > power(2, -2.5) AND ibs0 < 0.001 * sites THEN 'parent and child'
            WHEN kinship > power(2, -2.5) THEN 'full siblings'
            WHEN kinship > power(2, -3.5) THEN 'second degree'
            WHEN kinship > power(2, -4.5) THEN 'third degree'
            ELSE 'unrelated' END AS relationship
FROM kinship
ORDER BY kinship DESC NULLS LAST, sample1, sample2 LIMIT 10;

-- The same from the relationship matrix of VanRaden (2008): twice the kinship, relative to the allele frequencies of these individuals.
WITH pairs AS (
  SELECT unnest(grm(call_genotype)) AS r
  FROM sim WHERE is_biallelic(variant_allele) AND is_pass(variant_filter)
)
SELECT r['sample1'] AS sample1, r['sample2'] AS sample2, round(r['vanraden'], 4) AS vanraden, round(r['gcta'], 4) AS gcta
FROM pairs WHERE r['sample1'] <> r['sample2']
ORDER BY r['vanraden'] DESC, sample1, sample2 LIMIT 5;
