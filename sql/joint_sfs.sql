-- Joint site frequency spectra of two populations.
--   cargo run -- sql -f sql/joint_sfs.sql

CREATE EXTERNAL TABLE sim STORED AS VCZ LOCATION 'tests/fixtures/sim.vcz.zip'
  OPTIONS ('vcz.populations' 'tests/fixtures/sim.populations.tsv');

-- Sites where all copies of both populations are called: (N1 + 1) × (N2 + 1) cells.
SELECT joint_sfs(call_genotype, 'first', 'second') AS joint_sfs FROM sim;

-- Projected to 8 × 8 copies, unfolded and folded.
SELECT project_joint_sfs(call_genotype, 'first', 'second', 8, 8) AS projected,
       project_joint_sfs_folded(call_genotype, 'first', 'second', 8, 8) AS folded
FROM sim;

-- As rows, which works for any number of copies and includes sites with missing calls.
SELECT derived_count(a) AS derived_first, derived_count(b) AS derived_second, count(*) AS sites
FROM (SELECT allele_counts(call_genotype, 'first') AS a, allele_counts(call_genotype, 'second') AS b FROM sim)
GROUP BY 1, 2 ORDER BY sites DESC, 1, 2 LIMIT 10;
