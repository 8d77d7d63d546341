"""Statements that are written to stop a server: nested, multiplied and huge. All are made from a seed."""

import random


def doubled(levels, operator="UNION ALL"):
    """A common table expression that names the one before it twice, `levels` times."""
    sql = "WITH t0 AS (SELECT 1 AS a)"
    for level in range(1, levels):
        sql += f", t{level} AS (SELECT * FROM t{level - 1} {operator} SELECT * FROM t{level - 1})"
    return f"{sql} SELECT * FROM t{levels - 1}"


def nested(opening, inside, closing, levels):
    return opening * levels + inside + closing * levels


def joined(item, times, by=", "):
    return by.join(item.format(n=n) for n in range(times))


# Those that once stopped a server.
KNOWN = {
    "49 levels of CAST": "SELECT " + nested("CAST(", "1", " AS INT)", 49),
    "30 levels of WITH": doubled(30),
    "concat of 2,000 literals": "SELECT concat(" + joined("'literal {n}'", 2000) + ") FROM sim",
    "concat of 2,000 long literals": "SELECT concat(" + joined("'" + "x" * 500 + "'", 2000) + ") FROM sim",
    "concat of a column and 2,000 literals": "SELECT concat(variant_contig, " + joined("'" + "y" * 500 + "'", 2000) + ") FROM sim",
    "5,000 grouping sets": "SELECT count(*) FROM sim GROUP BY GROUPING SETS (" + joined("(variant_position)", 5000) + ")",
    "5,000 other grouping sets": "SELECT count(*) FROM sim GROUP BY GROUPING SETS (" + joined("(variant_position + {n})", 5000) + ")",
}

POSITION = "variant_position"
GENOTYPES = "call_genotype"

# Those made from functions of this project that once took memory or time beyond the limits.
OWN = {
    "20 columns of windows": "SELECT count(a0) FROM (SELECT " + joined(f"unnest(genome_bins({POSITION}, 8000, 1)) AS a{{n}}", 20) + " FROM sim)",
    "windows of every base": f"SELECT count(*) FROM (SELECT unnest(genome_bins({POSITION}, 100000000, 1)) FROM sim)",
    "lists of windows": f"SELECT sum(cardinality(genome_bins({POSITION}, 300000, 1))) FROM sim",
    "20 lists of windows": "SELECT " + joined(f"sum(cardinality(genome_bins({POSITION}, 100000 + {{n}}, 1)))", 20) + " FROM sim",
    "constant windows": "SELECT " + joined("cardinality(genome_bins(1{n}6777216, 16777216, 1))", 10),
    "bins of long intervals": f"SELECT sum(cardinality(interval_bins(1, {POSITION} * 100, 1))) FROM sim",
    "a long projection": "SELECT project_sfs([1, 2], 60000000)",
    "a large joint spectrum": "SELECT joint_sfs([1, 2], [1, 2], 8000, 8000)",
    "projections of every row": f"SELECT project_joint_sfs([{POSITION}, 2000], [2000, {POSITION}], 2000, 2000) FROM sim",
    "projections by row": f"SELECT project_joint_sfs([{POSITION}, 2000], [2000, {POSITION}], 2000, 2000) FROM sim GROUP BY {POSITION}",
    "frames of haplotypes": "SELECT "
    + joined(f"garud_h({GENOTYPES}) OVER (ORDER BY {POSITION} ROWS BETWEEN 10{{n:02}} PRECEDING AND CURRENT ROW)", 20)
    + " FROM sim",
    "lists over rows": "SELECT " + joined(f"cardinality(array_agg({GENOTYPES}) OVER (ORDER BY {POSITION} + {{n}}))", 5) + " FROM sim",
    "strings over rows": "SELECT length(string_agg(concat(variant_contig, '" + "x" * 250 + f"'), ',') OVER (ORDER BY {POSITION})) FROM sim",
    "lists of everything": f"SELECT array_agg(sim.{GENOTYPES}) OVER () FROM sim",
    "20 tables of pairs": "SELECT count(*) FROM (" + joined("SELECT * FROM vcz_ld('sim')", 20, " UNION ALL ") + ")",
}

# Each makes a statement of a size.
KINDS = {
    "cast": lambda n: "SELECT " + nested("CAST(", POSITION, " AS BIGINT)", n) + " FROM sim",
    "wrong cast": lambda n: "SELECT " + nested("CAST(", "1 2", " AS BIGINT)", n),
    "try_cast": lambda n: "SELECT " + nested("TRY_CAST(", "1", " AS BIGINT", n),
    "case": lambda n: "SELECT " + nested(f"CASE WHEN {POSITION} > 1 THEN ", "1", " ELSE 0 END", n) + " FROM sim",
    "case arms": lambda n: f"SELECT CASE {POSITION} " + joined("WHEN {n} THEN '{n}' ", 40 * n, "") + "END FROM sim",
    "parentheses": lambda n: "SELECT " + nested("(", "1", ")", n),
    "not": lambda n: "SELECT " + nested("NOT (", "TRUE", ")", n),
    "not words": lambda n: "SELECT " + "NOT " * (20 * n) + "TRUE",
    "signs": lambda n: "SELECT " + "- " * (20 * n) + "1",
    "functions": lambda n: "SELECT " + nested("abs(", POSITION, ")", n) + " FROM sim",
    "wrong functions": lambda n: "SELECT " + nested("extract(year FROM ", "1 2", ")", n),
    "colons": lambda n: "SELECT 1" + "::BIGINT" * (20 * n),
    "brackets": lambda n: "SELECT " + nested("[", "1", "]", n),
    "braces": lambda n: "SELECT " + nested("{{a: ".replace("{{", "{"), "1", "}", n),
    "index": lambda n: "SELECT [1]" + "[1]" * (20 * n),
    "plus": lambda n: "SELECT 1" + f" + {POSITION}" * (20 * n) + " FROM sim",
    "or": lambda n: "SELECT count(*) FROM sim WHERE " + joined(f"{POSITION} = {{n}} AND {POSITION} > {{n}}", 10 * n, " OR "),
    "subqueries": lambda n: "SELECT " + nested(f"(SELECT max({POSITION}) FROM sim WHERE {POSITION} < ", "9", ")", n),
    "tables": lambda n: "SELECT count(*) FROM " + nested("(SELECT * FROM ", "sim", ")", n),
    "wrong tables": lambda n: "SELECT * FROM " + nested("(", "sim a b", ")", n),
    "exists": lambda n: "SELECT count(*) FROM sim s WHERE "
    + joined(f"EXISTS (SELECT 1 FROM sim t WHERE t.{POSITION} = s.{POSITION} + {{n}})", 2 * n, " AND "),
    "in": lambda n: f"SELECT count(*) FROM sim WHERE {POSITION} IN (" + joined("{n}", 1000 * n) + ")",
    "in twice": lambda n: f"SELECT count(*) FROM sim WHERE {POSITION} NOT IN ("
    + joined("{n}", 400 * n) + f") AND {POSITION} IN (" + joined("{n}", 400 * n) + ")",
    "values": lambda n: "SELECT count(*) FROM (VALUES " + joined("({n}, 'x{n}')", 500 * n) + ")",
    "arrays": lambda n: "SELECT [" + joined("{n}", 500 * n) + "]",
    "union": lambda n: joined("SELECT {n} AS a", 5 * n, " UNION ALL "),
    "union distinct": lambda n: joined(f"SELECT {POSITION} + {{n}} AS a FROM sim", 2 * n, " UNION "),
    "intersect": lambda n: joined(f"SELECT {POSITION} AS a FROM sim", n, " INTERSECT "),
    "with union": lambda n: doubled(n),
    "with join": lambda n: "WITH t0 AS (SELECT 1 AS a)"
    + "".join(f", t{i} AS (SELECT x.a FROM t{i - 1} x JOIN t{i - 1} y ON x.a = y.a)" for i in range(1, n)) + f" SELECT * FROM t{n - 1}",
    "with subquery": lambda n: "WITH t0 AS (SELECT 1 AS a)"
    + "".join(f", t{i} AS (SELECT (SELECT max(a) FROM t{i - 1}) + (SELECT min(a) FROM t{i - 1}) AS a)" for i in range(1, n))
    + f" SELECT * FROM t{n - 1}",
    "with many": lambda n: f"WITH t AS (SELECT * FROM sim WHERE {POSITION} < 9) SELECT count(*) FROM "
    + " CROSS JOIN ".join(f"t t{i}" for i in range(4 * n)),
    "join": lambda n: "SELECT count(*) FROM sim s0" + joined(f" JOIN sim s{{n}}_ ON s0.{POSITION} = s{{n}}_.{POSITION}", n, ""),
    "cross join": lambda n: "SELECT count(*) FROM " + joined("sim s{n}", n),
    "inequality join": lambda n: "SELECT count(*) FROM sim s0"
    + joined(f" JOIN sim s{{n}}_ ON s0.{POSITION} < s{{n}}_.{POSITION}", n % 5 + 1, ""),
    "cube": lambda n: "SELECT count(*) FROM sim GROUP BY CUBE (" + joined(f"{POSITION} % {{n}}2", n) + ")",
    "cubes": lambda n: "SELECT count(*) FROM sim GROUP BY " + joined(f"CUBE ({POSITION} + {{n}}, {POSITION} - {{n}})", n),
    "rollup": lambda n: "SELECT count(*) FROM sim GROUP BY ROLLUP (" + joined(f"{POSITION} % {{n}}3", 5 * n) + ")",
    "sets": lambda n: "SELECT count(*) FROM sim GROUP BY GROUPING SETS (" + joined(f"({POSITION}, {POSITION} % {{n}}3)", 30 * n) + ")",
    "columns": lambda n: "SELECT " + joined(f"{POSITION} AS a{{n}}", 250 * n) + " FROM sim LIMIT 1",
    "constants": lambda n: "SELECT " + joined("{n} AS a{n}", 400 * n),
    "stars": lambda n: "SELECT * FROM (SELECT " + joined("s{n}.*", n) + " FROM " + joined("sim s{n}", n) + " LIMIT 1)",
    "sums": lambda n: "SELECT " + joined(f"sum({POSITION} + {{n}})", 60 * n) + " FROM sim",
    "distinct": lambda n: "SELECT " + joined(f"count(DISTINCT {POSITION} + {{n}})", 10 * n) + " FROM sim",
    "windows": lambda n: "SELECT " + joined(f"sum({POSITION}) OVER (PARTITION BY {POSITION} % {{n}}7 ORDER BY {POSITION})", 5 * n) + " FROM sim",
    "named windows": lambda n: "SELECT " + joined("sum(variant_position) OVER w AS a{n}", 10 * n)
    + " FROM sim WINDOW w AS (PARTITION BY " + joined(f"{POSITION} + {{n}}", 10 * n) + ")",
    "order": lambda n: "SELECT 1 FROM sim ORDER BY " + joined(f"{POSITION} % {{n}}9", 20 * n),
    "group": lambda n: "SELECT count(*) FROM sim GROUP BY " + joined(f"{POSITION} % {{n}}9", 20 * n),
    "filter": lambda n: "SELECT * FROM " + nested("(SELECT a + a AS a FROM ", f"(SELECT {POSITION} AS a FROM sim)", ")", n) + " WHERE a > 1",
    "wide filter": lambda n: "SELECT * FROM (SELECT greatest(" + joined(f"{POSITION}", 100 * n) + ") AS a FROM sim) WHERE greatest("
    + joined("a", 100 * n) + ") > 1",
    "having": lambda n: "SELECT greatest(" + joined(f"{POSITION}", 100 * n) + f") AS a FROM sim GROUP BY {POSITION} HAVING greatest("
    + joined("a", 100 * n) + ") > 1",
    "strings": lambda n: "SELECT length(a) FROM " + nested("(SELECT a || a AS a FROM ", "(SELECT variant_contig AS a FROM sim)", ")", n),
    "concat": lambda n: "SELECT concat(" + joined("variant_contig", 400 * n) + ") FROM sim",
    "long": lambda n: "SELECT concat(variant_contig, '" + "x" * (20_000 * n) + "') FROM sim",
    "replace": lambda n: "SELECT length(replace(replace('" + "a" * (200 * n) + "', 'a', '" + "a" * (200 * n) + "'), 'a', '"
    + "a" * (200 * n) + "')) FROM sim",
    "lists": lambda n: "SELECT cardinality(a) FROM " + nested("(SELECT array_concat(a, a) AS a FROM ", "(SELECT [1, 2] AS a)", ")", n),
    "join of lists": lambda n: "SELECT array_to_string([" + joined("{n}", 100 * n) + "], '" + "x" * (1000 * n) + "') FROM sim",
    "recursive": lambda n: "WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r) SELECT sum(i) FROM r" + joined(" CROSS JOIN r r{n}", n % 3, ""),
    "series": lambda n: f"SELECT count(*) FROM generate_series(1, 1000000{'0' * (n % 7)}) a, generate_series(1, 1000000) b",
    "aggregates of strings": lambda n: "SELECT length(string_agg(a, a)) FROM (SELECT concat(variant_contig, '" + "x" * (500 * n) + "') AS a FROM sim)",
    "genotypes": lambda n: "SELECT " + joined("sfs(call_genotype, 'first') AS a{n}", 10 * n) + " FROM sim",
    "genome bins": lambda n: f"SELECT count(*) FROM (SELECT unnest(genome_bins({POSITION}, 1{'0' * (n % 13)}, 1)) AS b FROM sim) GROUP BY b",
    "columns of bins": lambda n: "SELECT count(a0) FROM (SELECT " + joined(f"unnest(genome_bins({POSITION}, {n ** 3}, 1)) AS a{{n}}", n) + " FROM sim)",
    "interval bins": lambda n: f"SELECT interval_bins(1, {POSITION} * 1{'0' * (n % 13)}, 1) FROM sim",
    "bins of bins": lambda n: "SELECT count(*) FROM " + nested(
        f"(SELECT unnest(genome_bins({POSITION}, {20 * n}, 1)) AS {POSITION} FROM ", "sim", ")", n % 4 + 1),
    "spectra": lambda n: f"SELECT sfs([1, 2], {7 ** (n % 12)}), sfs_folded([1, {POSITION}], {7 ** (n % 11)}) FROM sim",
    "spectra by position": lambda n: f"SELECT sfs([1, 2], {n ** 4}) FROM sim GROUP BY {POSITION}",
    "project": lambda n: f"SELECT project_sfs({GENOTYPES}, 'first', {7 ** (n % 12)}) FROM sim",
    "projected counts": lambda n: f"SELECT project_joint_sfs([{10 ** (n % 9)}, 1], [1, {10 ** (n % 9)}], {10 ** (n % 9)}, {10 ** (n % 9)}) FROM sim",
    "projected rows": lambda n: f"SELECT project_joint_sfs([{POSITION}, {100 * n}], [{100 * n}, {POSITION}], {100 * n}, {100 * n}) OVER (ORDER BY {POSITION}) FROM sim",
    "joint spectra": lambda n: f"SELECT joint_sfs([1, 2], [1, 2], {n * n * 5}, {n * n * 5}) FROM sim GROUP BY {POSITION} % {n}",
    "pca by position": lambda n: f"SELECT pca({GENOTYPES}, {n}) FROM sim GROUP BY {POSITION}",
    "pairs by position": lambda n: f"SELECT sample_pairs({GENOTYPES}) FROM sim GROUP BY {POSITION} % {n * n * n}",
    "pairs over rows": lambda n: f"SELECT sample_pairs({GENOTYPES}) OVER (ORDER BY {POSITION} ROWS BETWEEN {n ** 4} PRECEDING AND CURRENT ROW) FROM sim",
    "haplotypes": lambda n: "SELECT " + joined(
        f"garud_h({GENOTYPES}) OVER (ORDER BY {POSITION} ROWS BETWEEN {n * n}{{n}} PRECEDING AND CURRENT ROW)", n) + " FROM sim",
    "linkage": lambda n: "SELECT count(*) FROM (" + joined(f"SELECT * FROM vcz_ld('sim', 'first', {n ** 4})", n, " UNION ALL ") + ")",
    "filters of calls": lambda n: "SELECT sfs(" + nested("filter_calls(", GENOTYPES, ", call_genotype_phased, true)", n) + ") FROM sim",
    "samples": lambda n: f"SELECT allele_counts({GENOTYPES}, [" + joined("'sample_{n}'", 300 * n) + "]) FROM sim",
    "selected samples": lambda n: "SELECT " + joined(f"select_samples({GENOTYPES}, [" + "'s{n}', " * n + "'s1'])", n) + " FROM sim",
    "the same samples": lambda n: "SELECT " + joined(
        f"diversity({GENOTYPES}, (SELECT array_agg(sample_id) FROM vcz_samples('sim') WHERE sample_index <> {{n}}))", n) + " FROM sim",
    "explain": lambda n: "EXPLAIN VERBOSE " + doubled(min(n, 12)),
}


def statements(number, seed=17):
    """`number` statements by name: kinds in turn, of sizes that double a few times around what is allowed."""
    chance = random.Random(seed)
    kinds = list(KINDS)
    made = {}
    while len(made) < number:
        chance.shuffle(kinds)
        for kind in kinds:
            size = chance.choice([5, 8, 12, 16, 20, 30, 44, 60])
            made[f"{kind} of {size}"] = KINDS[kind](size)
            if len(made) == number:
                break
    return made
