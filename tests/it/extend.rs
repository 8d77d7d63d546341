//! Statistics that another crate adds, by the public traits: they take populations, and work in groups, windows and partitions, as those of
//! this crate do.

use arrow::datatypes::DataType;
use arrow::util::pretty::pretty_format_batches;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{DocSection, Documentation};
use datafusion::prelude::SessionContext;
use datafusion_vcz::functions::{
    CellStatistic, SiteTerms, SumStatistic, aggregate_of_cells, aggregate_of_sums,
};

use crate::common::{create, fails, fixtures, plan, run, session};

/// `divergence` once more.
struct Between;

impl SumStatistic<2, 1, 0> for Between {
    const NAME: &'static str = "between";

    fn site([a, b]: [&[i32]; 2]) -> Option<SiteTerms<1, 0>> {
        let n = |counts: &[i32]| counts.iter().map(|&copies| f64::from(copies)).sum::<f64>();
        let same: f64 = a
            .iter()
            .zip(b)
            .map(|(&a, &b)| f64::from(a) * f64::from(b))
            .sum();
        let pairs = n(a) * n(b);
        (pairs > 0.0).then(|| SiteTerms {
            terms: [1.0 - same / pairs],
            counts: [],
        })
    }

    fn value(sums: SiteTerms<1, 0>) -> Option<f64> {
        Some(sums.terms[0])
    }

    fn documentation() -> Documentation {
        Documentation::builder(DocSection::default(), "As divergence.", "between(ac1, ac2)").build()
    }
}

/// The number of sites with exactly `d` derived copies, as a list of one number.
#[derive(Debug)]
struct SitesWith(u64);

impl CellStatistic<1> for SitesWith {
    const NAME: &'static str = "sites_with";
    const NUMBERS: &'static [&'static str] = &["d"];

    fn new(_copies: [Option<u64>; 1], numbers: &[i64]) -> Result<Self> {
        let d = numbers.first().and_then(|&d| u64::try_from(d).ok());
        d.map(Self).ok_or_else(|| {
            datafusion::common::exec_datafusion_err!("sites_with: d must not be negative")
        })
    }

    fn cell(&self, [ac]: [&[i32]; 1]) -> Result<Option<u64>> {
        Ok(Some(
            ac.iter()
                .skip(1)
                .map(|&copies| u64::from(copies.unsigned_abs()))
                .sum(),
        ))
    }

    fn return_type() -> DataType {
        DataType::Int64
    }

    fn value(&self, cells: &[(u64, u64)]) -> Result<ScalarValue> {
        let found = cells.iter().find(|(d, _)| *d == self.0);
        let sites = found.map_or(0, |&(_, sites)| sites);
        Ok(ScalarValue::Int64(i64::try_from(sites).ok()))
    }

    fn documentation() -> Documentation {
        Documentation::builder(
            DocSection::default(),
            "Sites of a bin.",
            "sites_with(ac, d)",
        )
        .build()
    }
}

async fn extended(partitions: usize, batch_size: usize) -> SessionContext {
    let ctx = session(partitions, batch_size);
    ctx.register_udaf(aggregate_of_sums::<Between, 2, 1, 0>());
    ctx.register_udaf(aggregate_of_cells::<SitesWith, 1>());
    let (store, populations) = ("sim.vcz.zip", "sim.populations.tsv");
    create(
        &ctx,
        "sim",
        &fixtures().join(store),
        Some(&fixtures().join(populations)),
    )
    .await;
    ctx
}

async fn shown(ctx: &SessionContext, sql: &str) -> String {
    pretty_format_batches(&run(ctx, sql).await)
        .unwrap()
        .to_string()
}

const WINDOWS: &str = "SELECT variant_contig, w, {} FROM (SELECT variant_contig, call_genotype, \
    unnest(genome_bins(variant_position, 50000, 10000)) AS w FROM sim) GROUP BY 1, 2 ORDER BY 1, 2";

#[tokio::test(flavor = "multi_thread")]
async fn added_statistics_equal_those_of_this_crate() {
    let ours =
        "divergence(call_genotype, 'first', 'second') AS a, sfs(call_genotype, 'first')[4] AS b";
    let added = "between(call_genotype, 'first', 'second') AS a, sites_with(call_genotype, 'first', 3) AS b";
    let mut all = vec![];
    for (partitions, batch_size) in [(1, 8192), (2, 100), (16, 1000)] {
        let ctx = extended(partitions, batch_size).await;
        for query in [
            "SELECT {} FROM sim".to_string(),
            "SELECT variant_contig, {} FROM sim GROUP BY 1 ORDER BY 1".to_string(),
            WINDOWS.to_string(),
        ] {
            let found = shown(&ctx, &query.replace("{}", added)).await;
            // The sums are of the same terms, rounded otherwise.
            let rounded = |columns: &str| {
                let query = query.replace("{}", columns);
                format!("SELECT * EXCLUDE (a), round(a, 9) AS a FROM ({query})")
            };
            // In any order, which the outer query does not keep.
            let mut lines = vec![];
            for columns in [added, ours] {
                let shown = shown(&ctx, &rounded(columns)).await;
                let mut of_query: Vec<String> = shown.lines().map(str::to_string).collect();
                of_query.sort_unstable();
                lines.push(of_query);
            }
            assert_eq!(lines[0], lines[1]);
            all.push(found);
        }
        // Cohorts by subqueries, counts in place of genotypes, and each population by name.
        let cohorts = "(SELECT array_agg(sample_id) FROM vcz_samples('sim') WHERE sample_index < 16), \
                       (SELECT array_agg(sample_id) FROM vcz_samples('sim') WHERE sample_index >= 16)";
        let same = format!(
            "SELECT between(call_genotype, {cohorts}) = between(call_genotype, 'first', 'second') AND \
                    between(allele_counts(call_genotype, 'first'), allele_counts(call_genotype, 'second')) = \
                    between(call_genotype, 'first', 'second') AS same FROM sim"
        );
        assert!(shown(&ctx, &same).await.contains("true"));
        let apart = "SELECT p['population'], sites_with(p['ac'], 3) AS b FROM \
                     (SELECT unnest(population_counts(call_genotype)) AS p FROM sim) GROUP BY 1 ORDER BY 1";
        let by_name = "SELECT 'first' AS \"p[population]\", sites_with(call_genotype, 'first', 3) AS b FROM sim \
                       UNION ALL SELECT 'second', sites_with(call_genotype, 'second', 3) FROM sim ORDER BY 1";
        let values =
            |text: String| -> Vec<String> { text.lines().skip(3).map(str::to_string).collect() };
        let (apart, by_name) = (shown(&ctx, apart).await, shown(&ctx, by_name).await);
        let last = |text: String| -> Vec<String> {
            let lines = values(text).into_iter();
            lines
                .filter_map(|line| line.split('|').nth(2).map(|b| b.trim().to_string()))
                .collect()
        };
        assert_eq!(last(apart), last(by_name));
        // Each window's sites are aggregated by step, once.
        let plan = plan(&ctx, &WINDOWS.replace("{}", added)).await;
        assert!(
            plan.contains("between_state") && plan.contains("sites_with_merge"),
            "{plan}"
        );
    }
    let (first, rest) = all.split_at(all.len() / 3);
    for others in rest.chunks(first.len()) {
        assert_eq!(first, others);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_and_nothing() {
    let ctx = extended(2, 1000).await;
    let nothing = "SELECT between(call_genotype, 'first', 'second') AS a, sites_with(call_genotype, 3) AS b FROM sim WHERE variant_position < 0";
    let text = shown(&ctx, nothing).await;
    assert!(text.contains("| 0.0 |   |"), "{text}");
    let message = fails(&ctx, "SELECT sites_with(call_genotype, -1) FROM sim").await;
    assert!(message.contains("d must not be negative"), "{message}");
    let message = fails(&ctx, "SELECT between(call_genotype, 'first') FROM sim").await;
    assert!(
        message.contains("2 are needed") || message.contains("compares 2 populations"),
        "{message}"
    );
}
