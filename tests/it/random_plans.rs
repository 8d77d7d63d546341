//! Random statements over UNION, CTE, filters, LIMIT, joins, subqueries, and tables and Parquet files stored before: the answer with
//! DataFusion's leaf pushdown, without it, and over tables that hold the counts already, so that no call on genotypes is planned at all.
//! The stores have the same samples under other populations, in another order, and another number of samples.
//!
//! `VCZ_PLANS_SECONDS=600 cargo test --test it random_plans` runs for ten minutes instead of a fixed number of statements;
//! `VCZ_PLANS_SEED=n` begins with another statement.

use std::time::{Duration, Instant};

use arrow::util::pretty::pretty_format_batches;
use datafusion::prelude::SessionContext;

use crate::common::{create, fixtures, run, session, with_sample_ids, work_dir};

/// Statements without a time given.
const STATEMENTS: u64 = 120;

/// SplitMix64: small, and the same everywhere.
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len() as u64) as usize]
    }
}

/// Filters that the scan takes, and others that it does not.
const FILTERS: [&str; 9] = [
    "variant_position > 60000",
    "variant_contig = 'chr2'",
    "variant_position BETWEEN 10000 AND 250000 AND variant_contig <> 'chrX'",
    "random() < 2",
    "(SELECT true)",
    "k < 2",
    "false",
    "variant_position IN (SELECT variant_position FROM {y} WHERE variant_position % 3 = 0)",
    "is_segregating({first})",
];

/// The stores: `x`; its samples under exchanged populations; its samples in the opposite order; others.
const TABLES: [&str; 4] = ["x", "y", "z", "w"];

/// The columns of the tables of counts.
const COUNTS: &str = "variant_contig, variant_position, {first} AS ac_first, {second} AS ac_second, {two} AS ac_two, {all} AS ac_all, \
                      {het} AS het";

/// The names of these counts.
const NAMES_OF_COUNTS: &[(&str, &str)] = &[
    ("{columns_last}", "ac_first, ac_second, ac_two, ac_all, het"),
    ("{first}", "ac_first"),
    ("{second}", "ac_second"),
    ("{two}", "ac_two"),
    ("{all}", "ac_all"),
    ("{het}", "het"),
];

/// Aggregates of a column's own samples, of its other columns, and of both.
const AGGREGATES: [&str; 11] = [
    "count(*) AS a0",
    "sum(variant_position) AS a1",
    "sum(k) AS a2",
    "sfs({first}) AS a3",
    "segregating_sites({two}) AS a4",
    "sum({het}['het']) AS a5",
    "sum(list_sum({all})) AS a6",
    "diversity({second}) AS a7",
    "sum(variant_position) FILTER (WHERE is_segregating({second})) AS a8",
    "max(derived_count({first}) + k) AS a9",
    "fst_hudson({first}, {second}) AS a10",
];

/// A query in which `{x}`, `{y}`, `{z}` and `{w}` are tables, `{first}`, `{second}`, `{two}`, `{all}`, `{het}` counts, and `{stored}` is what was
/// stored before, if anything.
struct Statement {
    stored: Option<Stored>,
    query: String,
}

/// A relation that is stored before a query reads it.
struct Stored {
    relation: String,
    storage: Storage,
}

#[derive(Clone, Copy)]
enum Storage {
    /// CREATE TABLE … AS.
    Table,
    /// COPY … TO a Parquet file.
    Parquet,
}

fn statement(random: &mut Random) -> Statement {
    let relation = relation(random, 3, false);
    let mut aggregates: Vec<&str> = (0..1 + random.below(4))
        .map(|_| random.pick(&AGGREGATES))
        .collect();
    aggregates.sort_unstable();
    aggregates.dedup();
    let filter = match random.below(3) {
        0 => format!(" WHERE {}", random.pick(&FILTERS)),
        _ => String::new(),
    };
    let storage = [Storage::Table, Storage::Parquet][random.below(2) as usize];
    let (stored, query) = match random.below(6) {
        // Counts are stored, and every statistic takes them.
        0 | 1 => {
            let relation = format!(
                "SELECT variant_contig, variant_position, k, {{first}} AS c_first, {{second}} AS c_second, {{two}} AS c_two, \
                 {{all}} AS c_all, {{het}} AS c_het FROM ({relation}) AS r"
            );
            let query = query(random, "{stored}", &aggregates, &filter);
            let of_stored = ["first", "second", "two", "all", "het"]
                .iter()
                .fold(query, |query, name| {
                    query.replace(&format!("{{{name}}}"), &format!("c_{name}"))
                });
            (Some(Stored { relation, storage }), of_stored)
        }
        // Genotypes are stored, without the names of samples and populations.
        2 => {
            let named = |text: &str| {
                ["{first}", "{second}", "{two}", "{het}"]
                    .iter()
                    .any(|name| text.contains(name))
            };
            aggregates.retain(|aggregate| !named(aggregate));
            aggregates.push("diversity({all}) AS b0");
            let filter = if named(&filter) { "" } else { &filter };
            let query = query(random, "{stored}", &aggregates, filter);
            (Some(Stored { relation, storage }), query)
        }
        // Genotypes of one table are stored, and the query reads that table, too: it knows the names.
        3 => {
            let only_x = |text: String| {
                ["{y}", "{z}", "{w}"]
                    .iter()
                    .fold(text, |text, table| text.replace(table, "{x}"))
            };
            let relation = only_x(relation);
            let query = only_x(query(random, "{stored}", &aggregates, &filter));
            let order = if query.contains(" GROUP BY ") {
                " ORDER BY 1"
            } else {
                ""
            };
            let query = format!(
                "SELECT * FROM ({query}) AS q WHERE (SELECT count(*) FROM {{x}}) > 0{order}"
            );
            (Some(Stored { relation, storage }), query)
        }
        _ => (
            None,
            query(random, &format!("({relation})"), &aggregates, &filter),
        ),
    };
    Statement { stored, query }
}

/// A query of `aggregates` over `relation`, of all rows or in groups.
fn query(random: &mut Random, relation: &str, aggregates: &[&str], filter: &str) -> String {
    let aggregates = aggregates.join(", ");
    match random.below(3) {
        0 => format!("SELECT {aggregates} FROM {relation} AS r{filter}"),
        1 => format!(
            "SELECT variant_contig, {aggregates} FROM {relation} AS r{filter} GROUP BY variant_contig ORDER BY variant_contig"
        ),
        _ => format!("SELECT k, {aggregates} FROM {relation} AS r{filter} GROUP BY k ORDER BY k"),
    }
}

/// A query with the columns variant_contig, variant_position, genotypes or counts, and k; in this order if `ordered`, as the branches of
/// UNION need it.
fn relation(random: &mut Random, depth: u64, ordered: bool) -> String {
    if depth == 0 || random.below(5) == 0 {
        // No k of one table is one of the other's, so that a LIMIT cannot choose between rows that are alike but for their populations.
        let leaves = [
            ("{x}", 1),
            ("{x}", 2),
            ("{x}", 2),
            ("{y}", 3),
            ("{y}", 3),
            ("{z}", 4),
            ("{z}", 4),
            ("{w}", 5),
        ];
        let (table, k) = leaves[random.below(leaves.len() as u64) as usize];
        return format!("SELECT {{columns}}, {k} AS k FROM {table}");
    }
    let below = depth - 1;
    match random.below(9) {
        0 | 1 => format!(
            "({}) UNION ALL ({})",
            relation(random, below, true),
            relation(random, below, true)
        ),
        2 => format!(
            "SELECT * FROM ({}) AS r WHERE {}",
            relation(random, below, ordered),
            random.pick(&FILTERS)
        ),
        3 => format!(
            "SELECT * FROM ({}) AS r LIMIT {}",
            relation(random, below, ordered),
            random.pick(&["0", "1000000"])
        ),
        4 => format!(
            "SELECT * FROM ({}) AS r ORDER BY variant_position, variant_contig, k, {{all}} LIMIT {}",
            relation(random, below, ordered),
            random.below(4000)
        ),
        5 => format!(
            "WITH c AS ({}) SELECT * FROM c UNION ALL SELECT * FROM c WHERE {}",
            relation(random, below, ordered),
            random.pick(&FILTERS)
        ),
        6 => format!(
            "SELECT r.* FROM ({}) AS r JOIN (VALUES (1), (3)) AS n(m) ON r.k = n.m",
            relation(random, below, ordered)
        ),
        7 if !ordered => format!(
            "SELECT k, variant_position, {{columns_last}}, variant_contig FROM ({}) AS r",
            relation(random, below, ordered)
        ),
        _ => format!(
            "({}) UNION ALL BY NAME ({})",
            relation(random, below, ordered),
            relation(random, below, ordered)
        ),
    }
}

/// The statement with these values for the names in braces, besides those of `TABLES`.
fn filled(statement: &str, prefix: &str, values: &[(&str, &str)]) -> String {
    let mut text = statement.to_string();
    for table in TABLES {
        text = text.replace(&format!("{{{table}}}"), &format!("{prefix}{table}"));
    }
    values
        .iter()
        .fold(text, |text, (name, value)| text.replace(name, value))
}

/// The statement over the stores.
fn over_stores(statement: &str) -> String {
    let values = [
        (
            "{columns}",
            "variant_contig, variant_position, call_genotype",
        ),
        ("{columns_last}", "call_genotype"),
        ("{first}", "allele_counts(call_genotype, 'first')"),
        ("{second}", "allele_counts(call_genotype, 'second')"),
        ("{two}", "allele_counts(call_genotype, ['s01', 's07'])"),
        ("{all}", "allele_counts(call_genotype)"),
        ("{het}", "genotype_counts(call_genotype, 'second')"),
    ];
    filled(statement, "", &values)
}

/// The statement over the stores, with the counts in the branches of UNION: so stores with other numbers of samples can be united.
fn counted_in_branches(statement: &str) -> String {
    let columns = over_stores(COUNTS);
    filled(
        statement,
        "",
        &[&[("{columns}", columns.as_str())][..], NAMES_OF_COUNTS].concat(),
    )
}

/// The statement over tables of counts.
fn over_counts(statement: &str) -> String {
    const COLUMNS: &str =
        "variant_contig, variant_position, ac_first, ac_second, ac_two, ac_all, het";
    filled(
        statement,
        "counts_",
        &[&[("{columns}", COLUMNS)][..], NAMES_OF_COUNTS].concat(),
    )
}

/// Whether genotypes of one of `tables` and of one of `others` may be united in a statement.
fn may_unite(statement: &Statement, tables: &[&str], others: &[&str]) -> bool {
    let relation = statement
        .stored
        .as_ref()
        .map(|stored| stored.relation.as_str());
    let text = format!("{} {}", relation.unwrap_or(""), statement.query);
    let has = |tables: &[&str]| tables.iter().any(|table| text.contains(table));
    has(tables) && has(others)
}

/// Whether a statement may be refused for this reason: it unites genotypes of different samples.
fn is_expected(statement: &Statement, refusal: &str) -> bool {
    match refusal {
        TWO_WIDTHS => may_unite(statement, &["{w}"], &["{x}", "{y}", "{z}"]),
        OTHER_SAMPLES => may_unite(statement, &["{w}", "{z}"], &["{x}", "{y}"]),
        _ => false,
    }
}

/// Why a statement has no answer, however it is planned.
const NO_COPIES: &str = "needs the number of copies N";
/// Why genotypes are not counted above a UNION.
const TWO_WIDTHS: &str = "genotypes of a UNION of stores with different numbers of samples";
/// Why populations of genotypes of different samples are not known, where calls cannot be made in the branches, as below a LIMIT.
const OTHER_SAMPLES: &str = "no table of the query has the same samples";

/// The rows, or the words of an error that is expected: a spectrum of counts with different numbers of copies is refused, and so are
/// genotypes of different numbers of samples.
async fn answer(
    ctx: &SessionContext,
    statement: &Statement,
    fill: fn(&str) -> String,
) -> Result<String, &'static str> {
    let mut sql = fill(&statement.query);
    let parquet = format!("'{}'", work_dir().join("stored.parquet").display());
    let stored = statement
        .stored
        .as_ref()
        .map(|Stored { relation, storage }| {
            let relation = fill(relation);
            match storage {
                Storage::Table => ("stored", format!("CREATE TABLE stored AS {relation}")),
                Storage::Parquet => (parquet.as_str(), format!("COPY ({relation}) TO {parquet}")),
            }
        });
    if let Some((name, _)) = &stored {
        sql = sql.replace("{stored}", name);
    }
    let rows = async {
        if let Some((_, store)) = &stored {
            ctx.sql("DROP TABLE IF EXISTS stored")
                .await?
                .collect()
                .await?;
            ctx.sql(store).await?.collect().await?;
        }
        ctx.sql(&sql).await?.collect().await
    };
    match rows.await {
        Ok(batches) => Ok(pretty_format_batches(&batches).unwrap().to_string()),
        Err(error) => {
            let error = error.to_string();
            let known = [NO_COPIES, TWO_WIDTHS, OTHER_SAMPLES]
                .into_iter()
                .find(|known| error.contains(known));
            Err(known.unwrap_or_else(|| panic!("{stored:?}\n{sql}\n{error}")))
        }
    }
}

async fn context(partitions: usize, pushdown: bool) -> SessionContext {
    let ctx = session(partitions, 1000);
    let set = format!("SET datafusion.optimizer.enable_leaf_expression_pushdown = {pushdown}");
    run(&ctx, &set).await;
    let sim = fixtures().join("sim.vcz.zip");
    let populations = fixtures().join("sim.populations.tsv");
    create(&ctx, "x", &sim, Some(&populations)).await;
    // The same samples with the populations' names exchanged.
    let exchanged = work_dir().join("exchanged.tsv");
    let text = std::fs::read_to_string(&populations).unwrap();
    let text = text
        .replace("first", "other")
        .replace("second", "first")
        .replace("other", "second");
    std::fs::write(&exchanged, text).unwrap();
    create(&ctx, "y", &sim, Some(&exchanged)).await;
    // The same ids in the opposite order: as many samples, but others.
    let opposite = with_sample_ids(
        "sim.vcz.zip",
        &format!("opposite{partitions}.vcz"),
        |sample, n| format!("s{:02}", n - 1 - sample),
    );
    create(&ctx, "z", &opposite, Some(&populations)).await;
    // Other genotypes, of more samples.
    let more = fixtures().join("chunks7.vcz.zip");
    let populations = fixtures().join("chunks7.populations.tsv");
    create(&ctx, "w", &more, Some(&populations)).await;
    ctx
}

#[tokio::test(flavor = "multi_thread")]
async fn random_plans_agree() {
    let setting = |name: &str| {
        std::env::var(name)
            .ok()
            .and_then(|text| text.parse::<u64>().ok())
    };
    let seconds = setting("VCZ_PLANS_SECONDS");
    let seed = setting("VCZ_PLANS_SEED").unwrap_or(0);
    let pushed = context(3, true).await;
    let kept = context(1, false).await;
    for table in TABLES {
        let columns = over_stores(COUNTS);
        run(
            &pushed,
            &format!("CREATE TABLE counts_{table} AS SELECT {columns} FROM {table}"),
        )
        .await;
    }
    let begun = Instant::now();
    let (mut statements, mut refused, mut in_branches) = (0, 0, 0);
    loop {
        let done = match seconds {
            Some(seconds) => begun.elapsed() > Duration::from_secs(seconds),
            None => statements == STATEMENTS,
        };
        if done {
            break;
        }
        let number = seed + statements;
        let statement = statement(&mut Random(number));
        let shown = over_stores(&format!(
            "{} {}",
            statement
                .stored
                .as_ref()
                .map_or("", |stored| &stored.relation),
            statement.query
        ));
        let expected = answer(&pushed, &statement, over_counts).await;
        statements += 1;
        // Stored counts with different numbers of copies have no spectrum, also where all but one branch of a UNION turn out empty.
        if expected.is_err() {
            refused += 1;
            continue;
        }
        for (ctx, how) in [(&pushed, "with"), (&kept, "without")] {
            let found = answer(ctx, &statement, over_stores).await;
            let is_refused = found
                .as_ref()
                .is_err_and(|refusal| is_expected(&statement, refusal));
            if !is_refused {
                assert_eq!(
                    found, expected,
                    "statement {number}, {how} leaf pushdown: {shown}"
                );
            }
            if is_refused || number % 4 == 0 {
                in_branches += u64::from(is_refused);
                let found = answer(ctx, &statement, counted_in_branches).await;
                assert_eq!(
                    found, expected,
                    "statement {number}, {how} leaf pushdown, counted in branches: {shown}"
                );
            }
        }
    }
    println!(
        "{statements} statements from {seed} on, {refused} of them refused, {} only counted in the branches of UNION",
        in_branches / 2
    );
    assert!(in_branches > 0, "no UNION of different numbers of samples");
    assert!(
        refused < statements / 4,
        "too few statements have an answer"
    );
}
