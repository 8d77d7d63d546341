-- Two populations, from a VCF: diversity within and between, FST, spectra and the joint spectrum.
--   cargo run -- sql -f sql/two_populations.sql
--
-- From a VCF (bgzip-compressed and indexed) and a file of the samples' populations (columns sample_id and population):
--   pip install 'bio2zarr[vcf]'
--   vcf2zarr convert in.vcf.gz in.vcz
-- Then put in.vcz, your populations file and the names of two populations in place of those below. VCF files list sites that vary; if yours also has
-- sites that were called and do not vary, the rates per base may be taken over these sites instead: divide by count(*).

CREATE EXTERNAL TABLE sim STORED AS VCZ LOCATION 'tests/fixtures/sim.vcz.zip'
  OPTIONS ('vcz.populations' 'tests/fixtures/sim.populations.tsv');

-- What is in the store.
SELECT population, samples, copies FROM vcz_populations('sim');
SELECT contig, length, variants FROM vcz_contigs('sim');

-- π of each population, d_xy and d_a per base, FST and Tajima's D, by contig. If contigs have no lengths in the header, type them in.
WITH sums AS (
  SELECT variant_contig, count(*) AS sites,
         segregating_sites(call_genotype, 'first') AS segregating_first, segregating_sites(call_genotype, 'second') AS segregating_second,
         diversity(call_genotype, 'first') AS pi_first, diversity(call_genotype, 'second') AS pi_second,
         divergence(call_genotype, 'first', 'second') AS dxy, net_divergence(call_genotype, 'first', 'second') AS da,
         fst_hudson(call_genotype, 'first', 'second') AS fst,
         tajimas_d(call_genotype, 'first') AS tajimas_d_first, tajimas_d(call_genotype, 'second') AS tajimas_d_second
  FROM sim GROUP BY variant_contig
)
SELECT contig, sites, segregating_first, segregating_second,
       pi_first / length AS pi_first, pi_second / length AS pi_second, dxy / length AS dxy, da / length AS da,
       fst, tajimas_d_first, tajimas_d_second
FROM sums JOIN vcz_contigs('sim') ON contig = variant_contig ORDER BY contig_index;

-- Spectra of complete sites (with missing calls: project_sfs(call_genotype, 'first', 20)), and folded ones, which need no ancestral allele.
SELECT sfs(call_genotype, 'first') AS sfs_first, sfs(call_genotype, 'second') AS sfs_second,
       sfs_folded(call_genotype, 'first') AS folded_first, sfs_folded(call_genotype, 'second') AS folded_second
FROM sim;

-- The joint spectrum as a matrix, whose row i and column j count sites with i derived copies in the first and j in the second population.
SELECT joint_sfs(call_genotype, 'first', 'second') AS joint_sfs FROM sim;

-- The same as rows, without the empty cells, for a file: COPY (SELECT …) TO 'joint.tsv'.
SELECT r['i'] AS first, r['j'] AS second, r['sites'] AS sites
FROM (SELECT unnest(spectrum_rows(joint_sfs(call_genotype, 'first', 'second'))) AS r FROM sim)
WHERE r['sites'] > 0 ORDER BY 1, 2;
