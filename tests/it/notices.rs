//! Sites that statistics leave out: in the session's notices, and in EXPLAIN ANALYZE as metrics of the operator that computes them.

use std::sync::Arc;

use arrow::util::pretty::pretty_format_batches;
use datafusion::prelude::SessionContext;
use datafusion_vcz::scan::VczSettings;
use datafusion_vcz::scan::notices::{NoticeSink, Notices};

use crate::common::{create, fixtures, run, session};

/// Of the 571 sites of the fixture `missing`, those where not all 48 copies are called.
const LEFT_OUT: usize = 450;
/// Those where fewer than 40 copies are called.
const PROJECTED_LEFT_OUT: usize = 17;

async fn missing(partitions: usize) -> SessionContext {
    let ctx = session(partitions, 64);
    let store = fixtures().join("missing.vcz.zip");
    let populations = fixtures().join("missing.populations.tsv");
    create(&ctx, "t", &store, Some(&populations)).await;
    ctx
}

async fn shown(ctx: &SessionContext, sql: &str) -> String {
    let batches = run(ctx, sql).await;
    pretty_format_batches(&batches).unwrap().to_string()
}

/// The sum of a metric over all operators that have it; `None` if none has.
fn metric(plan: &str, name: &str) -> Option<usize> {
    let name = format!("{name}=");
    let found = plan.match_indices(&name);
    // `joint_sfs_…` is not `sfs_…`.
    let whole = found.filter(|(at, _)| plan[..*at].ends_with([' ', '[']));
    let values = whole.map(|(at, _)| {
        let rest = &plan[at + name.len()..];
        let end = rest.find(|c: char| !c.is_ascii_digit());
        rest[..end.unwrap_or(rest.len())].parse::<usize>().unwrap()
    });
    values.reduce(|sum, value| sum + value)
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_analyze_shows_them() {
    let sfs = "sfs(call_genotype)";
    let windows =
        "FROM (SELECT *, unnest(genome_bins(variant_position, 4000, 1000)) AS w FROM t) GROUP BY w";
    let bins = "FROM t GROUP BY variant_contig, genome_bin(variant_position, 4000)";
    let by_operator = [
        ("AggregateExec: mode=", format!("SELECT {sfs} FROM t")),
        (
            "AggregateExec: mode=",
            format!("SELECT array_length(variant_allele), {sfs} FROM t GROUP BY 1"),
        ),
        (
            "AggregateRunsExec: mode=Partial",
            format!("SELECT {sfs} {bins}"),
        ),
        (
            "AggregateRunsExec: mode=Partial",
            format!("SELECT w, {sfs} {windows}"),
        ),
    ];
    for partitions in [1, 3] {
        let ctx = missing(partitions).await;
        for (operator, sql) in &by_operator {
            let plan = shown(&ctx, &format!("EXPLAIN ANALYZE {sql}")).await;
            assert_eq!(
                metric(&plan, "sfs_sites_left_out"),
                Some(LEFT_OUT),
                "{sql}\n{plan}"
            );
            let lines: Vec<&str> = plan.lines().collect();
            let with = |line: &&&str| line.contains("sfs_sites_left_out");
            let with: Vec<_> = lines.iter().filter(with).collect();
            // One operator, that which takes the sites.
            assert!(
                with.len() == 1 && with[0].contains(operator),
                "{sql}\n{plan}"
            );
            assert!(
                !shown(&ctx, &format!("EXPLAIN {sql}"))
                    .await
                    .contains("left_out")
            );
        }
        let both = "EXPLAIN ANALYZE SELECT sfs(call_genotype, 'first'), sfs(call_genotype, 'second'), sfs_folded(call_genotype),
                    joint_sfs(call_genotype, 'first', 'second'), diversity(call_genotype) FROM t";
        let plan = shown(&ctx, both).await;
        let [first, second] =
            ["sfs_sites_left_out", "sfs_sites_left_out_2"].map(|name| metric(&plan, name).unwrap());
        assert!(first > 0 && second > 0 && first != second, "{plan}");
        assert_eq!(
            metric(&plan, "sfs_folded_sites_left_out"),
            Some(LEFT_OUT),
            "{plan}"
        );
        assert_eq!(
            metric(&plan, "joint_sfs_sites_left_out"),
            Some(LEFT_OUT),
            "{plan}"
        );
        assert!(!plan.contains("diversity_sites"), "{plan}");
        let projected =
            "EXPLAIN ANALYZE SELECT project_sfs(call_genotype, 40), project_sfs_folded(call_genotype, 48),
                    project_joint_sfs(call_genotype, 'first', 'second', 1, 20) FROM t";
        let plan = shown(&ctx, projected).await;
        for (function, left_out) in [
            ("project_sfs", PROJECTED_LEFT_OUT),
            ("project_sfs_folded", LEFT_OUT),
        ] {
            let name = format!("{function}_sites_left_out");
            assert_eq!(metric(&plan, &name), Some(left_out), "{plan}");
        }
        assert!(
            metric(&plan, "project_joint_sfs_sites_left_out") > Some(0),
            "{plan}"
        );
        let none = shown(
            &ctx,
            "EXPLAIN ANALYZE SELECT sfs(call_genotype) FROM t WHERE variant_position < 0",
        )
        .await;
        assert!(
            metric(&none, "sfs_sites_left_out").is_none_or(|sites| sites == 0),
            "{none}"
        );
    }
}

/// The notices of the session, from now on.
fn collected(ctx: &SessionContext) -> Arc<Notices> {
    let notices = Arc::new(Notices::default());
    let state = ctx.state_ref();
    let mut state = state.write();
    let extensions = &mut state.config_mut().options_mut().extensions;
    let settings = extensions.get_mut::<VczSettings>().unwrap();
    settings.notices = NoticeSink(Some(Arc::clone(&notices)));
    notices
}

/// Sites that are left out only because some samples are haploid there.
#[tokio::test(flavor = "multi_thread")]
async fn haploid_samples_are_a_reason() {
    let ctx = missing(2).await;
    let notices = collected(&ctx);
    let counts = "SELECT genotype_counts(call_genotype) AS g, call_genotype FROM t";
    let complete = format!("FROM ({counts}) WHERE g['missing'] = 0");
    let counted = shown(
        &ctx,
        &format!(
            "SELECT count(*) FILTER (WHERE g['haploid'] > 0) || ' of ' || count(*) AS n {complete}"
        ),
    )
    .await;
    let counted = counted
        .lines()
        .nth(3)
        .unwrap()
        .trim_matches(['|', ' '])
        .to_string();
    assert!(!counted.starts_with("0 "), "{counted}");
    assert!(notices.take().is_empty());
    shown(&ctx, &format!("SELECT sfs(call_genotype) {complete}")).await;
    let said = notices.take();
    let wanted = format!("sfs of 48 copies left out {counted} sites: ");
    assert!(
        said.len() == 1 && said[0].starts_with(&wanted) && said[0].contains("haploid samples"),
        "{said:?} {wanted}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn notices_agree_with_explain_analyze() {
    let ctx = missing(2).await;
    let notices = collected(&ctx);
    let wanted = format!("sfs of 48 copies left out {LEFT_OUT} of 571 sites: ");
    for explain in ["", "EXPLAIN ANALYZE "] {
        let plan = shown(&ctx, &format!("{explain}SELECT sfs(call_genotype) FROM t")).await;
        let said = notices.take();
        assert!(said.len() == 1 && said[0].starts_with(&wanted), "{said:?}");
        let metric = metric(&plan, "sfs_sites_left_out");
        assert_eq!(metric, (!explain.is_empty()).then_some(LEFT_OUT), "{plan}");
    }
    // Planning alone finds contigs; nothing is left out.
    shown(
        &ctx,
        "EXPLAIN SELECT sfs(call_genotype) FROM t WHERE variant_contig = 'chr1'",
    )
    .await;
    let said = notices.take();
    assert!(
        said.len() == 1 && said[0].contains("did you mean '1'?"),
        "{said:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mask_without_intervals() {
    let ctx = missing(1).await;
    let notices = collected(&ctx);
    let mask = "CREATE VIEW nothing AS SELECT 'a' AS contig, 0 AS start, 1 AS end WHERE false";
    run(&ctx, mask).await;
    let sites =
        "SELECT count(*) FROM t WHERE is_accessible(variant_contig, variant_position, 'nothing')";
    shown(&ctx, sites).await;
    assert_eq!(
        notices.take(),
        ["mask 'nothing' has no intervals, so no base is accessible"]
    );
}

/// INFO fields that count all samples are not those of the samples that a new store has.
#[tokio::test(flavor = "multi_thread")]
async fn copied_counts_of_all_samples_are_told() {
    let ctx = missing(1).await;
    let notices = collected(&ctx);
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let site = "variant_contig, variant_position, variant_allele";
    let counts = "5 AS \"variant_AC\", 0.5 AS \"variant_AF\", 7 AS \"variant_DP\"";
    let all = at("all.vcz");
    run(
        &ctx,
        &format!("COPY (SELECT {site}, {counts}, call_genotype FROM t) TO '{all}'"),
    )
    .await;
    run(
        &ctx,
        &format!("CREATE EXTERNAL TABLE a STORED AS VCZ LOCATION '{all}'"),
    )
    .await;
    let chosen = "select_samples(call_genotype, ['s00', 's03']) AS call_genotype";
    for (name, columns, told) in [
        (
            "same.vcz",
            format!("{site}, \"variant_AC\", call_genotype"),
            false,
        ),
        (
            "computed.vcz",
            format!("{site}, 2 * \"variant_AC\" AS \"variant_AC\", {chosen}"),
            false,
        ),
        (
            "chosen.vcz",
            format!("{site}, \"variant_AC\", \"variant_AF\", \"variant_DP\", {chosen}"),
            true,
        ),
    ] {
        run(
            &ctx,
            &format!("COPY (SELECT {columns} FROM a) TO '{}'", at(name)),
        )
        .await;
        let sentences = notices.take().join("\n");
        let expected = "variant_AC, variant_AF are written as in the table";
        assert_eq!(sentences.contains(expected), told, "{name}: {sentences}");
    }
}
