-- Local PCA (Li and Ralph 2019): the principal components of each window of the genome, and how far the windows are from each other.
--   cargo run -- sql -f sql/local_pca.sql
--
-- A window's relationship matrix is approximated by its first two components, scaled by their norm, so that windows of different
-- diversity can be compared: M = (e1 v1 v1' + e2 v2 v2') / sqrt(e1^2 + e2^2), with unit vectors v. The squared distance of two windows is
-- then 2 - 2 * sum over their components i, j of e_i e_j (v_i . v_j)^2 / (norms). Windows that stand apart have another history, as in an
-- inversion or under selection.

CREATE EXTERNAL TABLE sim STORED AS VCZ LOCATION 'tests/fixtures/sim.vcz.zip'
  OPTIONS ('vcz.populations' 'tests/fixtures/sim.populations.tsv');

CREATE TABLE components AS
SELECT variant_contig AS contig, genome_bin(variant_position, 200000) AS window_start, count(*) AS sites,
       pca(call_genotype, 2, 'covariance') AS pca
FROM sim WHERE is_biallelic(variant_allele)
GROUP BY 1, 2 HAVING count(*) >= 100;

-- The share of the variance that the first two components of each window explain.
SELECT contig, window_start, sites,
       round(pca['eigenvalues'][1] / pca['trace'], 4) AS first, round(pca['eigenvalues'][2] / pca['trace'], 4) AS second
FROM components ORDER BY contig, window_start;

-- The distance of each window from the others, on average.
WITH scores AS (
  SELECT contig, window_start, pca['eigenvalues'] AS e, unnest(pca['samples']) AS s FROM components
),
vectors AS (
  SELECT contig, window_start, e, s['sample'] AS sample, s['pc'] AS pc FROM scores
),
products AS (
  SELECT a.contig AS contig1, a.window_start AS start1, b.contig AS contig2, b.window_start AS start2, a.e AS e1, b.e AS e2,
         sum(a.pc[1] * a.pc[1]) AS a1, sum(a.pc[2] * a.pc[2]) AS a2, sum(b.pc[1] * b.pc[1]) AS b1, sum(b.pc[2] * b.pc[2]) AS b2,
         sum(a.pc[1] * b.pc[1]) AS p11, sum(a.pc[1] * b.pc[2]) AS p12, sum(a.pc[2] * b.pc[1]) AS p21, sum(a.pc[2] * b.pc[2]) AS p22
  FROM vectors a JOIN vectors b ON a.sample = b.sample
  WHERE (a.contig, a.window_start) <> (b.contig, b.window_start)
  GROUP BY 1, 2, 3, 4, 5, 6
),
distances AS (
  SELECT contig1, start1,
         2 - 2 * (e1[1] * e2[1] * p11 * p11 / (a1 * b1) + e1[1] * e2[2] * p12 * p12 / (a1 * b2)
                + e1[2] * e2[1] * p21 * p21 / (a2 * b1) + e1[2] * e2[2] * p22 * p22 / (a2 * b2))
           / sqrt((e1[1] * e1[1] + e1[2] * e1[2]) * (e2[1] * e2[1] + e2[2] * e2[2])) AS squared
  FROM products
)
SELECT contig1 AS contig, start1 AS window_start, round(avg(sqrt(greatest(squared, 0))), 3) AS mean_distance
FROM distances GROUP BY 1, 2 ORDER BY mean_distance DESC, 1, 2 LIMIT 10;
