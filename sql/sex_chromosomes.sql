-- Contigs on which samples are haploid (X with males, Y, MT): the number of copies N of each population on each contig, and its spectra.
--   cargo run -- sql -f sql/sex_chromosomes.sql

CREATE EXTERNAL TABLE missing STORED AS VCZ LOCATION 'tests/fixtures/missing.vcz.zip'
  OPTIONS ('vcz.populations' 'tests/fixtures/missing.populations.tsv');

-- N of every population on every contig, by one scan: the most copies that are called at a site. A haploid call has one copy, so of 10
-- individuals of which 4 are males N is 20 on autosomes and 16 on X. (No site has more copies than this N, so the spectrum of a larger one
-- would be empty.)
SELECT variant_contig, p['population'] AS population, p['copies'] AS all_diploid, max(allele_number(p['ac'])) AS n
FROM (SELECT variant_contig, unnest(population_counts(call_genotype)) AS p FROM missing)
GROUP BY 1, 2, 3 ORDER BY 1, 2;

-- The spectra of each contig, with this N after the population.
SELECT variant_contig, sfs(call_genotype, 'first', CASE variant_contig WHEN 'X' THEN 24 ELSE 26 END) AS sfs FROM missing GROUP BY 1 ORDER BY 1;

-- The spectra of all contigs and populations as rows, each with its N.
WITH sites AS (
  SELECT variant_contig, p['population'] AS population, allele_number(p['ac']) AS called, derived_count(p['ac']) AS d
  FROM (SELECT variant_contig, unnest(population_counts(call_genotype)) AS p FROM missing)
), most AS (
  SELECT variant_contig, population, max(called) AS n FROM sites GROUP BY 1, 2
)
SELECT variant_contig, population, n, d AS bin, count(*) AS sites
FROM sites JOIN most USING (variant_contig, population) WHERE called = n
GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 4;
