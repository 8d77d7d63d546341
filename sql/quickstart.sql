-- Quickstart: one store, its spectrum, a joint spectrum, and windowed diversity.
--   cargo run -- sql -f sql/quickstart.sql
-- Paths are relative to the current folder, which must be the top of the repository.

CREATE EXTERNAL TABLE sim STORED AS VCZ LOCATION 'tests/fixtures/sim.vcz.zip'
  OPTIONS ('vcz.populations' 'tests/fixtures/sim.populations.tsv');

-- The contigs of the store, with numbers and ranges of variants.
SELECT variant_contig, count(*) AS variants, min(variant_position) AS first_position, max(variant_position) AS last_position
FROM sim GROUP BY variant_contig ORDER BY variant_contig;

-- The site frequency spectrum of one population.
SELECT sfs(call_genotype, 'first') AS sfs FROM sim;

-- The joint spectrum of both, projected down to 6 × 6 copies, folded.
SELECT project_joint_sfs_folded(call_genotype, 'first', 'second', 6, 6) AS joint_sfs FROM sim;

-- Diversity, divergence and FST in windows of 100 kb, as sums over sites.
SELECT variant_contig, genome_bin(variant_position, 100000) AS window_start,
       count(*) AS sites,
       diversity(call_genotype, 'first') AS pi_first,
       divergence(call_genotype, 'first', 'second') AS dxy,
       fst_hudson(call_genotype, 'first', 'second') AS fst
FROM sim GROUP BY 1, 2 ORDER BY 1, 2;
