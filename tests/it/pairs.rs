//! Functions over pairs, of random genotypes: they give what their definitions give, to the last bit, in any partitions and batches; and
//! pairs of samples in any memory.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{Float64Type, Int32Type, Int64Type};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::TaskContext;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions, collect, displayable,
};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_vcz::session::operators::in_two_steps;
use futures::TryStreamExt;
use futures::future::join_all;

use crate::common::{create, fails, fixtures, plan, run, session, unpack};
use crate::pair_definitions::{Genotypes, Related, SamplePair, eigenvalues};
use crate::partitions::bits;
use crate::random_store::{Random, prepare, put_genotypes};

const BASES: i64 = 3_000;
const EDGES: [f64; 4] = [0.0, 100.0, 1_000.0, 20_000.0];

/// The columns of a query, in one batch.
async fn columns(ctx: &SessionContext, sql: &str) -> Vec<ArrayRef> {
    bits(ctx, sql).await.batch.columns().to_vec()
}

fn wholes(column: &ArrayRef) -> Vec<i64> {
    column.as_primitive::<Int64Type>().values().to_vec()
}

fn numbers(column: &ArrayRef) -> Vec<Option<f64>> {
    column.as_primitive::<Float64Type>().iter().collect()
}

fn in_bits(column: &ArrayRef) -> Vec<Option<u64>> {
    numbers(column)
        .into_iter()
        .map(|of| of.map(f64::to_bits))
        .collect()
}

/// Every code of the store, and where its variants are, in the store's order.
async fn read(store: &Path) -> Genotypes {
    let ctx = &session(1, 8192);
    create(ctx, "t", store, None).await;
    let sql = "SELECT arrow_cast(variant_contig, 'Utf8') AS c, arrow_cast(variant_position, 'Int64') AS p, call_genotype FROM t";
    let found = columns(ctx, sql).await;
    let calls = found[2].as_fixed_size_list();
    let first = calls.values().as_fixed_size_list();
    let (samples, ploidy) = (calls.value_length() as usize, first.value_length() as usize);
    let codes = arrow::compute::cast(first.values(), &arrow::datatypes::DataType::Int64).unwrap();
    Genotypes {
        samples,
        ploidy,
        contigs: found[0]
            .as_string::<i32>()
            .iter()
            .map(|c| c.unwrap().to_string())
            .collect(),
        positions: wholes(&found[1]),
        rows: wholes(&codes)
            .chunks(samples * ploidy)
            .map(<[i64]>::to_vec)
            .collect(),
    }
}

const FIELDS: [&str; 9] = [
    "sites",
    "ibs0",
    "ibs1",
    "ibs2",
    "het_het",
    "opposite",
    "het1",
    "het2",
    "distance_sites",
];

fn pairs_of(found: &[ArrayRef]) -> Vec<SamplePair> {
    let counts: Vec<Vec<i64>> = found[..FIELDS.len()].iter().map(wholes).collect();
    let distances = in_bits(&found[FIELDS.len()]);
    let pair = |at: usize| SamplePair {
        counts: std::array::from_fn(|of| counts[of][at]),
        distance: distances[at].unwrap(),
    };
    (0..distances.len()).map(pair).collect()
}

async fn compare_with_definitions(ctx: &SessionContext, store: &Path, place: &str) {
    let all = read(store).await;
    let fields = |of: &str| FIELDS.map(|field| format!("{of}['{field}']")).join(", ");
    let sql = format!(
        "SELECT {}, p['distance'] FROM (SELECT unnest(sample_pairs(call_genotype)) AS p FROM t)",
        fields("p")
    );
    let found = pairs_of(&columns(ctx, &sql).await);
    let each = (0..all.samples).flat_map(|i| (i + 1..all.samples).map(move |j| (i, j)));
    let wanted: Vec<SamplePair> = each.map(|(i, j)| all.sample_pair(i, j)).collect();
    assert_eq!(found, wanted, "{place}");
    let sql = format!(
        "SELECT {}, distance, kinship FROM vcz_sample_pairs('t')",
        FIELDS.join(", ")
    );
    let streamed = columns(ctx, &sql).await;
    assert_eq!(pairs_of(&streamed), wanted, "{place}");
    let kinship: Vec<_> = wanted.iter().map(Genotypes::kinship).collect();
    assert_eq!(in_bits(&streamed[FIELDS.len() + 1]), kinship, "{place}");

    let found = columns(
        ctx,
        "SELECT p['sites'], p['differences'] FROM (SELECT unnest(haplotype_pairs(call_genotype)) AS p FROM t)",
    )
    .await;
    let copies = all.samples * all.ploidy;
    let each = (0..copies).flat_map(|i| (i + 1..copies).map(move |j| (i, j)));
    let wanted: Vec<_> = each.map(|(i, j)| all.haplotype_pair(i, j)).collect();
    let found: Vec<_> = wholes(&found[0])
        .into_iter()
        .zip(wholes(&found[1]))
        .collect();
    assert_eq!(found, wanted, "{place}");

    let found = columns(
        ctx,
        "SELECT p['gcta'], p['vanraden'], p['sites'] FROM (SELECT unnest(grm(call_genotype)) AS p FROM t)",
    )
    .await;
    let (gcta, vanraden, sites) = (in_bits(&found[0]), in_bits(&found[1]), wholes(&found[2]));
    let each = (0..all.samples).flat_map(|i| (0..=i).map(move |j| (i, j)));
    for (at, (i, j)) in each.enumerate() {
        let found = Related {
            gcta: gcta[at],
            vanraden: vanraden[at],
            sites: sites[at],
        };
        assert_eq!(found, all.related(i, j), "{place}: {i} {j}");
    }

    let sql = format!("SELECT row1, row2, n, r2 FROM vcz_ld('t', {BASES}, 0.1) ORDER BY 1, 2");
    let found = columns(ctx, &sql).await;
    let r2 = in_bits(&found[3]);
    let [one, two, n] = [0, 1, 2].map(|at| wholes(&found[at]));
    let found: Vec<_> = (0..r2.len())
        .map(|at| (one[at], two[at], n[at], r2[at].unwrap()))
        .collect();
    assert_eq!(found, all.linked(BASES, 0.1), "{place}");
    let sql = format!("SELECT row FROM vcz_ld_prune('t', {BASES}, 0.1) ORDER BY 1");
    let found = wholes(&columns(ctx, &sql).await[0]);
    assert_eq!(found, all.pruned(BASES, 0.1), "{place}");

    let sql = format!(
        "SELECT arrow_cast(c, 'Utf8'), b['bin_start'], b['pairs'], b['defined'], b['mean_r2'], b['sum_dd'] FROM
         (SELECT variant_contig AS c, unnest(ld_decay(call_genotype, variant_position, {EDGES:?})) AS b FROM t GROUP BY 1)"
    );
    let found = columns(ctx, &sql).await;
    let contigs = found[0].as_string::<i32>();
    let (starts, r2, dd) = (numbers(&found[1]), numbers(&found[4]), numbers(&found[5]));
    let (pairs, defined) = (wholes(&found[2]), wholes(&found[3]));
    let wanted = all.decay(&EDGES);
    for at in 0..contigs.len() {
        let bin = EDGES
            .iter()
            .position(|edge| Some(*edge) == starts[at])
            .unwrap();
        let key = (contigs.value(at).to_string(), bin);
        let wanted = wanted.get(&key).copied().unwrap_or((0, 0, f64::NAN, 0.0));
        assert_eq!(
            (pairs[at], defined[at]),
            (wanted.0, wanted.1),
            "{place} {key:?}"
        );
        match r2[at] {
            Some(r2) => assert!(
                (r2 - wanted.2).abs() < 1e-12,
                "{place} {key:?} {r2} {}",
                wanted.2
            ),
            None => assert!(wanted.1 == 0, "{place} {key:?}"),
        }
        let dd = dd[at].unwrap();
        assert!(
            (dd - wanted.3).abs() < 1e-9,
            "{place} {key:?} {dd} {}",
            wanted.3
        );
    }

    let found = columns(ctx, "SELECT mean_r2(call_genotype) FROM t").await;
    match (numbers(&found[0])[0], all.mean_r2()) {
        (Some(found), Some(wanted)) => {
            assert!((found - wanted).abs() < 1e-12, "{place} {found} {wanted}")
        }
        (found, wanted) => assert_eq!(found, wanted, "{place}"),
    }
    compare_moments(ctx, &all, place).await;
    for (scaling, wanted) in [
        ("patterson", all.scaled_covariance()),
        ("covariance", all.covariance()),
    ] {
        compare_components(ctx, &all, scaling, wanted, place).await;
    }
}

async fn compare_moments(ctx: &SessionContext, all: &Genotypes, place: &str) {
    let sql = format!(
        "SELECT arrow_cast(c, 'Utf8'), m['bin_start'], m['pairs'], m['statistic'], m['sum'] FROM
         (SELECT variant_contig AS c, unnest(ld_moments(call_genotype, variant_position, {EDGES:?})) AS m FROM t GROUP BY 1)"
    );
    let found = columns(ctx, &sql).await;
    let contigs = found[0].as_string::<i32>();
    let statistics = found[3].as_string::<i32>();
    let (starts, pairs, sums) = (numbers(&found[1]), wholes(&found[2]), numbers(&found[4]));
    let wanted = all.moments(&EDGES);
    for at in 0..contigs.len() {
        let bin = EDGES.iter().position(|edge| Some(*edge) == starts[at]);
        let key = (contigs.value(at).to_string(), bin.unwrap());
        let (number, of_bin) = wanted.get(&key).copied().unwrap_or_default();
        let names = ["DD_0_0", "Dz_0_0_0", "pi2_0_0_0_0"];
        let of = names.iter().position(|name| *name == statistics.value(at));
        let (found, wanted) = (sums[at].unwrap(), of_bin[of.unwrap()]);
        assert_eq!(pairs[at], number, "{place} {key:?}");
        let is_near = (found - wanted).abs() <= 1e-12 * wanted.abs().max(1.0) * number as f64;
        assert!(is_near, "{place} {key:?} {of:?} {found} {wanted}");
    }
}

/// All components are those of the matrix `wanted`: its eigenvalues, and unit vectors that it stretches by them, at right angles.
async fn compare_components(
    ctx: &SessionContext,
    all: &Genotypes,
    scaling: &str,
    wanted: Option<Vec<Vec<f64>>>,
    place: &str,
) {
    let place = format!("{place} {scaling}");
    let components = format!(
        "(SELECT pca(call_genotype, {}, '{scaling}') AS c FROM t)",
        all.samples
    );
    let sql = format!("SELECT unnest(c['eigenvalues']), c['trace'] FROM {components}");
    let found = columns(ctx, &sql).await;
    let Some(matrix) = wanted else {
        assert_eq!(found[0].len(), 0, "{place}");
        return;
    };
    let values: Vec<f64> = numbers(&found[0]).into_iter().flatten().collect();
    let largest = values[0].max(1.0);
    let is_near = |a: f64, b: f64| (a - b).abs() <= 1e-8 * largest;
    let sql =
        format!("SELECT unnest(s['pc']) FROM (SELECT unnest(c['samples']) AS s FROM {components})");
    let parts: Vec<f64> = numbers(&columns(ctx, &sql).await[0])
        .into_iter()
        .flatten()
        .collect();
    let vector = |k: usize| parts[k..].iter().step_by(all.samples).copied();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();

    let trace: f64 = (0..all.samples).map(|at| matrix[at][at]).sum();
    assert!(is_near(numbers(&found[1])[0].unwrap(), trace), "{place}");
    for (found, wanted) in values.iter().zip(eigenvalues(matrix.clone())) {
        assert!(is_near(*found, wanted), "{place} {found} {wanted}");
    }
    let vectors: Vec<Vec<f64>> = (0..all.samples).map(|k| vector(k).collect()).collect();
    assert_eq!(
        (values.len(), parts.len()),
        (all.samples, all.samples.pow(2)),
        "{place}"
    );
    for (k, (value, of_value)) in values.iter().zip(&vectors).enumerate() {
        for (row, part) in matrix.iter().zip(of_value) {
            assert!(is_near(dot(row, of_value), value * part), "{place} {k}");
        }
        for (other, of_other) in vectors.iter().enumerate() {
            let wanted = f64::from(u8::from(k == other));
            assert!(
                (dot(of_value, of_other) - wanted).abs() < 1e-9,
                "{place} {k} {other}"
            );
        }
    }
}

/// Queries of every function over pairs.
fn queries() -> Vec<String> {
    let grouped = "FROM t GROUP BY 1, 2 ORDER BY 1, 2";
    let windows = "variant_contig, genome_bin(variant_position, 5000) AS w";
    vec![
        "SELECT sample_pairs(call_genotype) AS a, haplotype_pairs(call_genotype, 'first') AS b, grm(call_genotype) AS c,
                pca(call_genotype, 3) AS d, pca(call_genotype, 'second', 2, 'covariance') AS e FROM t"
            .to_string(),
        format!(
            "SELECT {windows}, sample_pairs(call_genotype, 'first') AS a, grm(call_genotype, 'second') AS c,
                    pca(call_genotype, 2, 'covariance') AS e, mean_r2(call_genotype) AS f, mean_r2_genotypes(call_genotype) AS g {grouped}"
        ),
        format!(
            "SELECT variant_contig, ld_decay(call_genotype, variant_position, {EDGES:?}) AS h,
                    ld_moments(call_genotype, variant_position, {EDGES:?}) AS i,
                    ld_moments(call_genotype, 'first', 'second', variant_position, {EDGES:?}) AS j,
                    ld_moments_genotypes(call_genotype, 'first', variant_position, {EDGES:?}) AS k FROM t GROUP BY 1 ORDER BY 1"
        ),
        "SELECT * FROM vcz_sample_pairs('t', 'second')".to_string(),
        format!("SELECT * FROM vcz_ld('t', 'first', {BASES}, 0.3) ORDER BY row1, row2"),
        format!("SELECT * FROM vcz_ld_prune('t', {BASES}, 0.3) ORDER BY row"),
        "SELECT * FROM vcz_nsl('t', 0) ORDER BY row".to_string(),
        "SELECT * FROM vcz_ihs('t', 0) ORDER BY row".to_string(),
        "SELECT * FROM vcz_xpnsl('t', 'first', 'second', 0) ORDER BY row".to_string(),
        "SELECT * FROM vcz_xpehh('t', 'first', 'second', 0) ORDER BY row".to_string(),
    ]
}

/// A store with random genotypes of a few hundred variants, and its description.
fn random_store(folder: &Path, seed: u64) -> (std::path::PathBuf, String) {
    let folder = folder.join(seed.to_string());
    fs::create_dir_all(&folder).unwrap();
    let store = prepare(unpack, &fixtures(), &folder);
    let metadata = put_genotypes(&store, &mut Random::new(seed));
    (store, format!("seed {seed}: {metadata}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn random_genotypes_by_definition() {
    let folder = tempfile::tempdir().unwrap();
    let populations = fixtures().join("chunks7.populations.tsv");
    for seed in 1..=6 {
        let (store, place) = random_store(folder.path(), seed);
        let ctx = session(
            [1, 2, 16][seed as usize % 3],
            [8192, 7, 100][seed as usize / 2 % 3],
        );
        create(&ctx, "t", &store, Some(&populations)).await;
        compare_with_definitions(&ctx, &store, &place).await;
    }
}

/// Biallelic complete genotypes, in which most rows have a rare allele, of the fixture from which the random stores are made.
#[tokio::test(flavor = "multi_thread")]
async fn fixtures_by_definition() {
    for (partitions, name) in [(1, "chunks7"), (16, "chunks7"), (2, "missing")] {
        let ctx = session(partitions, 1000);
        let store = fixtures().join(format!("{name}.vcz.zip"));
        create(
            &ctx,
            "t",
            &store,
            Some(&fixtures().join(format!("{name}.populations.tsv"))),
        )
        .await;
        compare_with_definitions(&ctx, &store, name).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_and_batches_do_not_show() {
    let folder = tempfile::tempdir().unwrap();
    let populations = fixtures().join("chunks7.populations.tsv");
    for seed in 11..=14 {
        let (store, place) = random_store(folder.path(), seed);
        let mut wanted = vec![];
        for (partitions, batch) in [(1, 8192), (2, 1000), (16, 7)] {
            let ctx = session(partitions, batch);
            create(&ctx, "t", &store, Some(&populations)).await;
            for (at, sql) in queries().iter().enumerate() {
                let found = bits(&ctx, sql).await;
                let Some(wanted) = wanted.get(at) else {
                    wanted.push(found.rows);
                    continue;
                };
                assert!(
                    found.rows == *wanted,
                    "{place}: {partitions} {batch} {sql}\n{}",
                    found.text
                );
            }
        }
    }
}

/// Begins these partitions of `plan`, one of each context, and returns their states.
async fn states<'a>(
    plan: &Arc<dyn ExecutionPlan>,
    partitions: impl IntoIterator<Item = (usize, &'a Arc<TaskContext>)>,
) -> Vec<RecordBatch> {
    let begin = |(at, context): (usize, &Arc<TaskContext>)| plan.execute(at, Arc::clone(context));
    let begun: Vec<_> = partitions.into_iter().map(begin).collect();
    let read = begun
        .into_iter()
        .map(|states| states.unwrap().try_collect::<Vec<_>>());
    let read = join_all(read).await.into_iter();
    read.flat_map(Result::unwrap).collect()
}

/// The operator that evaluates the state of all partitions: again, at the same time, after it was dropped, and without rows.
#[tokio::test(flavor = "multi_thread")]
async fn executions_have_their_own_state() {
    let ctx = session(4, 100);
    create(&ctx, "t", &fixtures().join("sim.vcz.zip"), None).await;
    let pairs = async |sql: &str| {
        let plan = ctx.sql(sql).await.unwrap();
        let plan = plan.create_physical_plan().await.unwrap();
        let shown = displayable(plan.as_ref()).indent(false).to_string();
        assert!(shown.contains("PairsExec: mode=Single"), "{shown}");
        assert!(!shown.contains("AggregateExec"), "{shown}");
        plan
    };
    let one = pairs("SELECT sample_pairs(call_genotype) AS p, count(*) AS n FROM t").await;
    assert_eq!(one.properties().partitioning.partition_count(), 1);
    let new = || Arc::new(TaskContext::from(&ctx.state()));
    let same = new();
    let wanted = collect(Arc::clone(&one), new()).await.unwrap();
    assert_eq!(wanted.iter().map(RecordBatch::num_rows).sum::<usize>(), 1);
    // At the same time, of one context and of several.
    let contexts = [new(), Arc::clone(&same), Arc::clone(&same), new()];
    let tasks = contexts.map(|context| tokio::spawn(collect(Arc::clone(&one), context)));
    for task in tasks {
        assert_eq!(task.await.unwrap().unwrap(), wanted);
    }
    // After executions that were dropped, before they began and while they run.
    drop(one.execute(0, Arc::clone(&same)).unwrap());
    let mut dropped = one.execute(0, Arc::clone(&same)).unwrap();
    let begun = tokio::time::timeout(Duration::from_micros(300), dropped.try_next()).await;
    drop((begun, dropped));
    assert_eq!(collect(Arc::clone(&one), same).await.unwrap(), wanted);
    // With its children again.
    let again = Arc::clone(&one).transform_up(|node| {
        let children: Vec<_> = node.children().into_iter().cloned().collect();
        Ok(match children.is_empty() {
            true => Transformed::no(node),
            false => {
                let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
                Transformed::yes(node.replace_children(children, options)?)
            }
        })
    });
    assert_eq!(collect(again.unwrap().data, new()).await.unwrap(), wanted);

    let none = pairs("SELECT grm(call_genotype) AS p FROM t WHERE variant_position % 2 = 2").await;
    let batches = collect(none, new()).await.unwrap();
    assert_eq!(batches[0].num_rows(), 1);
    // An error in one partition is that of the query.
    let last = run(&ctx, "SELECT max(variant_position) FROM t").await;
    let last = last[0].column(0).as_primitive::<Int32Type>().value(0);
    let broken = format!("SELECT grm(call_genotype), sum(1 / (variant_position - {last})) FROM t");
    let error = collect(pairs(&broken).await, new()).await.unwrap_err();
    assert!(error.to_string().contains("ivide by zero"), "{error}");
}

/// The partitions of one execution add to one state, in whatever order they begin and end; no row is lost or counted twice.
#[tokio::test(flavor = "multi_thread")]
async fn partitions_have_one_state() {
    let ctx = session(4, 100);
    create(&ctx, "t", &fixtures().join("sim.vcz.zip"), None).await;
    let sql = "SELECT sample_pairs(call_genotype) AS p, sum(8 / (variant_position % 2)) FILTER (WHERE variant_position % 2 = 1) AS n FROM t";
    let alone = session(1, 8192);
    create(&alone, "t", &fixtures().join("sim.vcz.zip"), None).await;
    let wanted = run(&alone, sql).await;

    let plan = ctx.sql(sql).await.unwrap();
    let plan = plan.create_physical_plan().await.unwrap();
    // As in a cluster; otherwise the operator evaluates the state itself.
    let plan = in_two_steps(plan).unwrap();
    let mut pairs = None;
    plan.apply(|node| {
        if node.name() == "PairsExec" {
            pairs = Some(Arc::clone(node));
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .unwrap();
    let pairs = &pairs.expect("PairsExec");
    let partitions = pairs.properties().partitioning.partition_count();
    assert_eq!(partitions, 4);

    let new = || Arc::new(TaskContext::from(&ctx.state()));
    let mut executions = vec![];
    let one = &new();
    executions.push((1, states(pairs, (0..4).map(|at| (at, one))).await));
    // Each ends before the next begins.
    let mut in_order = vec![];
    for at in [2, 0, 3, 1] {
        in_order.extend(states(pairs, [(at, one)]).await);
    }
    executions.push((4, in_order));
    // All begin, and each is read to its end before the next.
    let begun: Vec<_> = (0..4)
        .map(|at| pairs.execute(at, Arc::clone(one)).unwrap())
        .collect();
    let mut read = vec![];
    for states in begun {
        read.extend(states.try_collect::<Vec<_>>().await.unwrap());
    }
    executions.push((1, read));
    // With a context each, as in tasks of a cluster.
    let contexts: Vec<_> = (0..4).map(|_| new()).collect();
    executions.push((4, states(pairs, contexts.iter().enumerate()).await));
    // Beside another execution.
    let (other, beside) = (new(), new());
    let (found, _) = tokio::join!(
        states(pairs, (0..4).map(|at| (at, &other))),
        states(pairs, (0..4).map(|at| (at, &beside))),
    );
    executions.push((1, found));
    // A partition begins once.
    let begun = pairs.execute(0, Arc::clone(one)).unwrap();
    assert!(pairs.execute(0, Arc::clone(one)).is_err());
    drop(begun);
    // After one that was dropped before it was read.
    drop(pairs.execute(3, Arc::clone(one)).unwrap());
    executions.push((1, states(pairs, (0..4).map(|at| (at, one))).await));

    for (number, states) in executions {
        let rows: usize = states.iter().map(RecordBatch::num_rows).sum();
        assert_eq!(rows, number);
        let merged = Arc::clone(&plan).transform_down(|node| {
            Ok(match Arc::ptr_eq(&node, pairs) {
                true => Transformed::yes(MemorySourceConfig::try_new_exec(
                    std::slice::from_ref(&states),
                    pairs.schema(),
                    None,
                )? as Arc<dyn ExecutionPlan>),
                false => Transformed::no(node),
            })
        });
        let found = collect(merged.unwrap().data, new()).await.unwrap();
        assert_eq!(found, wanted);
    }
}

fn bounded(bytes: usize, partitions: usize) -> SessionContext {
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_limit(bytes, 1.0)
        .build()
        .unwrap();
    let config = SessionConfig::new().with_target_partitions(partitions);
    datafusion_vcz::session::context(config, Arc::new(runtime)).unwrap()
}

/// The table function selects the pairs that a filter does; in bounded memory, too.
#[tokio::test(flavor = "multi_thread")]
async fn pairs_of_samples_are_selected_by_kinship() {
    for name in ["sim", "missing"] {
        let store = fixtures().join(format!("{name}.vcz.zip"));
        let whole = session(2, 8192);
        create(&whole, "t", &store, None).await;
        let by_pair = |sql: &str| format!("SELECT * FROM ({sql}) ORDER BY sample1, sample2");
        let filtered = by_pair("SELECT * FROM vcz_sample_pairs('t') WHERE kinship >= 0.1");
        let wanted = bits(&whole, &filtered).await;
        assert!(wanted.rows.len() > 1, "{name}");
        let ctx = bounded(20 << 20, 2);
        create(&ctx, "t", &store, None).await;
        let found = bits(&ctx, &by_pair("SELECT * FROM vcz_sample_pairs('t', 0.1)")).await;
        assert!(found.rows == wanted.rows, "{name}\n{}", found.text);
        let plan = plan(&ctx, "SELECT * FROM vcz_sample_pairs('t', 0.1)").await;
        assert!(plan.contains(", passes=1, memory=0.0 MB"), "{plan}");
    }
}

/// Counts that cannot fit are refused before anything is read, with what else to do.
#[tokio::test(flavor = "multi_thread")]
async fn counts_that_do_not_fit_are_refused() {
    let ctx = bounded(20 << 10, 2);
    create(&ctx, "t", &fixtures().join("sim.vcz.zip"), None).await;
    let started = std::time::Instant::now();
    let error = fails(&ctx, "SELECT sample_pairs(call_genotype) FROM t").await;
    assert!(error.contains("the memory limit is 0.0 MB"), "{error}");
    assert!(error.contains("vcz_sample_pairs('table'"), "{error}");
    let error = fails(&ctx, "SELECT haplotype_pairs(call_genotype) FROM t").await;
    assert!(
        error.contains("name a population of fewer samples"),
        "{error}"
    );
    assert!(!error.contains("vcz_sample_pairs"), "{error}");
    assert!(started.elapsed().as_secs() < 5, "{:?}", started.elapsed());
    let free = bounded(64 << 20, 2);
    create(&free, "t", &fixtures().join("sim.vcz.zip"), None).await;
    run(&free, "SELECT sample_pairs(call_genotype) FROM t").await;
}
