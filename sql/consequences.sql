-- Statistics by consequence, from the annotations of VEP (INFO field CSQ) or SnpEff (ANN).
--   cargo run -- sql -f sql/consequences.sql
--
-- The field has an entry for each transcript, `allele|consequence|impact|gene|…`, the most severe one first. As both programs declare it with
-- Number=., bio2zarr stores a list of entries for each variant; of a field with Number=1 take string_to_array(…, ',').

CREATE EXTERNAL TABLE vep STORED AS VCZ LOCATION 'tests/fixtures/consequences.vcz.zip'
  OPTIONS ('vcz.populations' 'tests/fixtures/consequences.populations.tsv');

-- By the most severe consequence: that of the first entry. For SnpEff write "variant_ANN".
SELECT split_part("variant_CSQ"[1], '|', 2) AS consequence, count(*) AS sites,
       diversity(call_genotype, 'first') AS pi_sum, theta_w(call_genotype, 'first') AS theta_w_sum,
       sfs_folded(call_genotype, 'first') AS sfs_folded
FROM vep GROUP BY 1 ORDER BY 2 DESC, 1;

-- By every consequence of every transcript, each site counted once for each of its consequences ('a&b' has two).
WITH entries AS (
  SELECT call_genotype, array_to_string("variant_CSQ", ',') AS csq FROM vep
),
sites AS (
  SELECT call_genotype,
         unnest(array_distinct(string_to_array(replace(regexp_replace(csq, '[^|,]*[|]([^|]*)[|][^,]*', '\1', 'g'), '&', ','), ','))) AS consequence
  FROM entries
)
SELECT consequence, count(*) AS sites, diversity(call_genotype, 'first') AS pi_sum, sfs_folded(call_genotype, 'first') AS sfs_folded
FROM sites GROUP BY consequence ORDER BY consequence;

-- One row for each entry, with its gene: sites and diversity by gene and impact. A site is counted for each transcript, so take the entries of
-- one transcript of each gene if there are several (here T1).
SELECT split_part(entry, '|', 4) AS gene, split_part(entry, '|', 3) AS impact,
       count(*) AS sites, segregating_sites(call_genotype, 'first') AS segregating, diversity(call_genotype, 'first') AS pi_sum
FROM (SELECT call_genotype, unnest("variant_CSQ") AS entry FROM vep)
WHERE split_part(entry, '|', 7) = 'T1' GROUP BY 1, 2 ORDER BY 1, 2;

-- Missense against synonymous sites. Both are sums over sites: for rates divide each by the number of bases where such a change is possible.
WITH sites AS (
  SELECT call_genotype, split_part("variant_CSQ"[1], '|', 2) AS consequence FROM vep
)
SELECT diversity(call_genotype, 'first') FILTER (WHERE consequence LIKE 'missense%') AS missense,
       diversity(call_genotype, 'first') FILTER (WHERE consequence = 'synonymous_variant') AS synonymous,
       diversity(call_genotype, 'first') FILTER (WHERE consequence LIKE 'missense%')
         / nullif(diversity(call_genotype, 'first') FILTER (WHERE consequence = 'synonymous_variant'), 0) AS ratio
FROM sites;
