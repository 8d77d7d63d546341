//! Queries on workers, each a process of its own: the same answers as here, errors that name the worker, nothing left behind.
//!
//! `tests/cluster/run.sh` also runs the other tests of queries with every session on workers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use arrow::array::{AsArray, RecordBatch};
use arrow::util::pretty::pretty_format_batches;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::StreamExt;

use crate::common::{create, fails, fixtures, on_workers, plan, run, work_dir};

/// A worker process.
struct Worker {
    process: Child,
    /// Where coordinators reach it.
    address: String,
    /// Where its metrics are.
    metrics: String,
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Worker {
    fn start(arguments: &[&str]) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_vcz"))
            .args(["serve", "--worker", "--bind", "127.0.0.1:0"])
            .args(["--metrics-bind", "127.0.0.1:0", "--worker-partitions", "2"])
            .args(arguments)
            .current_dir(crate::common::top())
            .env("RUST_LOG", "error,datafusion_vcz=info")
            // A GPU's kernels would be compiled meanwhile, and count as the worker's time.
            .env("CUDA_VISIBLE_DEVICES", "")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let mut of_line = |before: &str| {
            let line = lines.next().unwrap().unwrap();
            let rest = line
                .split_once(before)
                .unwrap_or_else(|| panic!("{line}"))
                .1;
            let end = rest.find([' ', '/']).unwrap_or(rest.len());
            rest[..end].to_string()
        };
        let address = of_line("worker at ");
        let metrics = of_line("http://");
        // Its log must not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Self {
            process,
            address,
            metrics,
        }
    }

    fn signal(&self, signal: &str) {
        let pid = self.process.id().to_string();
        assert!(
            Command::new("kill")
                .args([signal, &pid])
                .status()
                .unwrap()
                .success()
        );
    }

    /// A number of its metrics.
    fn metric(&self, name: &str) -> u64 {
        let mut stream = TcpStream::connect(&self.metrics).unwrap();
        let request = format!(
            "GET /metrics HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
            self.metrics
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("{name}: {text}"))
            .trim()
            .parse()
            .unwrap()
    }

    /// Processor time that it has used, but for the thread that compiles the kernels of a GPU after the start.
    fn cpu(&self) -> u64 {
        let of = |stat: &str| {
            let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
            fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
        };
        let process = format!("/proc/{}", self.process.id());
        let all = of(&std::fs::read_to_string(format!("{process}/stat")).unwrap());
        let threads = std::fs::read_dir(format!("{process}/task")).unwrap();
        // A thread may end meanwhile.
        let stats = threads
            .filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("stat")).ok());
        let compiling: u64 = stats
            .filter(|stat| stat.contains("(vcz-gpu-start)"))
            .map(|stat| of(&stat))
            .sum();
        all.saturating_sub(compiling)
    }
}

fn workers(n: usize) -> Vec<Worker> {
    (0..n).map(|_| Worker::start(&[])).collect()
}

fn addresses(workers: &[Worker]) -> Vec<String> {
    workers
        .iter()
        .map(|worker| worker.address.clone())
        .collect()
}

/// A session of `partitions` partitions, however small the work.
fn here(partitions: usize) -> SessionContext {
    let config = SessionConfig::new()
        .with_target_partitions(partitions)
        .with_information_schema(true)
        .set_usize("datafusion.optimizer.repartition_file_min_size", 1);
    datafusion_vcz::session::context(config, Arc::new(RuntimeEnv::default())).unwrap()
}

async fn with_sim(ctx: &SessionContext) {
    let populations = fixtures().join("sim.populations.tsv");
    create(
        ctx,
        "sim",
        &fixtures().join("sim.vcz.zip"),
        Some(&populations),
    )
    .await;
}

fn text(batches: &[RecordBatch]) -> String {
    pretty_format_batches(batches).unwrap().to_string()
}

const QUERIES: [&str; 22] = [
    // What DataFusion's encoding of plans leaves out.
    "SELECT variant_position, is_complete(polarize(allele_counts(call_genotype), variant_allele, variant_allele[2])) AS c FROM sim WHERE variant_position % 50 = 0 ORDER BY variant_contig, variant_position",
    "SELECT sum(hash) AS s, count(*) AS n FROM (SELECT variant_position % 7 AS hash FROM sim WHERE NOT EXISTS (SELECT 1 FROM vcz_contigs('sim') WHERE contig = variant_contig AND contig = 'chr2'))",
    "SELECT count(DISTINCT variant_position % 100) AS n, variant_contig FROM sim GROUP BY GROUPING SETS ((variant_contig), ()) ORDER BY 1, 2",
    "SELECT variant_contig, row_number() OVER (PARTITION BY variant_contig ORDER BY variant_position) AS r, lag(variant_position) OVER (PARTITION BY variant_contig ORDER BY variant_position) AS l FROM sim WHERE variant_position % 20 = 0 ORDER BY 1, 2",
    "SELECT count(*) AS n FROM sim a FULL JOIN (SELECT variant_contig AS c, variant_position + 5 AS p FROM sim) b ON a.variant_contig = b.c AND a.variant_position = b.p",
    "SELECT count(*) AS n FROM sim WHERE variant_position NOT IN (SELECT variant_position * 2 FROM sim WHERE variant_position < 5000)",
    "SELECT sfs(call_genotype), sfs(call_genotype, 'first') FROM sim",
    "SELECT joint_sfs(call_genotype, 'first', 'second') FROM sim WHERE is_segregating(allele_counts(call_genotype))",
    "SELECT variant_contig, genome_bin(variant_position, 20000) AS w, diversity(call_genotype, 'first') AS pi, count(*) AS n FROM sim GROUP BY 1, 2 ORDER BY 1, 2",
    "SELECT contig, w, tajimas_d(ac) AS d, fst_hudson(a, b) AS fst FROM (SELECT variant_contig AS contig, unnest(genome_bins(variant_position, 50000, 10000)) AS w, allele_counts(call_genotype) AS ac, allele_counts(call_genotype, 'first') AS a, allele_counts(call_genotype, 'second') AS b FROM sim) GROUP BY contig, w ORDER BY contig, w",
    "SELECT g.contig, g.window_start, d.pi FROM genome_windows('sim', 50000) g LEFT JOIN (SELECT variant_contig, genome_bin(variant_position, 50000) AS w, diversity(call_genotype) AS pi FROM sim WHERE is_accessible(variant_contig, variant_position, 'tests/fixtures/sim.accessible.bed') GROUP BY 1, 2) d ON g.contig = d.variant_contig AND g.window_start = d.w ORDER BY 1, 2",
    "SELECT variant_position, allele_counts(call_genotype, (SELECT array_agg(sample_id) FROM vcz_samples('sim') WHERE sample_index < 9)) AS ac FROM sim ORDER BY variant_contig, variant_position, ac LIMIT 7",
    "SELECT sfs(polarize(allele_counts(call_genotype), variant_allele, variant_allele[2])) AS s FROM sim",
    "SELECT p['population'] AS name, diversity(p['ac']) AS pi FROM (SELECT unnest(population_counts(call_genotype)) AS p FROM sim) GROUP BY 1 ORDER BY 1",
    "SELECT variant_contig, sample_counts(call_genotype) AS c FROM sim GROUP BY 1 ORDER BY 1",
    "SELECT variant_contig, garud_h(call_genotype) AS h, haplotype_count(call_genotype, 'first') AS n FROM sim WHERE variant_position % 3 = 0 GROUP BY 1 ORDER BY 1",
    "SELECT variant_position, sfs(call_genotype) OVER (PARTITION BY variant_contig ORDER BY variant_position ROWS 3 PRECEDING) AS s FROM sim WHERE variant_position % 20 = 0 ORDER BY variant_contig, 1",
    "SELECT sum(hash) FROM (SELECT variant_position % 977 AS hash FROM sim WHERE variant_position > (SELECT avg(variant_position) FROM sim))",
    "SELECT count(*) FROM sim a JOIN sim b ON a.variant_contig = b.variant_contig AND a.variant_position = b.variant_position + 1",
    "SELECT project_sfs(ac, 5) AS s FROM (SELECT allele_counts(call_genotype) AS ac FROM sim UNION ALL SELECT allele_counts(call_genotype) FROM sim WHERE variant_position < 50000)",
    "SELECT mean_r2(call_genotype, 'first') AS r2 FROM sim WHERE variant_position % 20 = 0",
    "SELECT call_genotype, select_samples(call_genotype, 'second') AS g FROM sim WHERE variant_position % 100 = 0 ORDER BY variant_contig, variant_position",
];

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_the_same_bits() {
    std::env::set_current_dir(crate::common::top()).unwrap();
    let all = workers(3);
    for (n, partitions) in [(1, 2), (2, 3), (3, 1)] {
        let local = here(partitions);
        with_sim(&local).await;
        let distributed = on_workers(here(partitions), addresses(&all[..n]));
        with_sim(&distributed).await;
        for sql in QUERIES {
            let wanted = text(&run(&local, sql).await);
            let before: u64 = all
                .iter()
                .map(|worker| worker.metric("vcz_worker_tasks_total"))
                .sum();
            assert_eq!(
                text(&run(&distributed, sql).await),
                wanted,
                "{n} workers: {sql}"
            );
            let after: u64 = all
                .iter()
                .map(|worker| worker.metric("vcz_worker_tasks_total"))
                .sum();
            assert!(after > before, "{n} workers: no worker was asked: {sql}");
        }
    }
}

/// What cannot be sent to workers runs here, with the same answer.
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_travel_runs_here() {
    let all = workers(2);
    let local = here(2);
    with_sim(&local).await;
    let ctx = on_workers(here(2), addresses(&all));
    with_sim(&ctx).await;
    run(&ctx, "SET datafusion.explain.format = 'indent'").await;
    for (sql, reason) in [
        (
            "SELECT count(*) FILTER (WHERE is_complete(add_counts(a, b))) AS n FROM (SELECT allele_counts(call_genotype, 'first') AS a, allele_counts(call_genotype, 'second') AS b FROM sim)",
            "FILTER or ORDER BY is_complete(",
        ),
        (
            "SELECT count(*) AS n FROM (SELECT variant_contig AS c, variant_position AS p, allele_counts(call_genotype, 'first') AS a FROM sim) x JOIN (SELECT variant_contig AS c, variant_position AS p, allele_counts(call_genotype, 'second') AS b FROM sim) y ON x.c = y.c AND x.p = y.p AND is_complete(add_counts(a, b))",
            "a join or a shuffle by is_complete(",
        ),
        (
            "SELECT mean_r2(call_genotype, 'first') AS r2 FROM sim WHERE variant_position < 20000",
            "no scan of a VCZ table can be divided",
        ),
        (
            "SELECT variant_position, count(*) FILTER (WHERE variant_position % 2 = 0) OVER (PARTITION BY variant_contig) AS n FROM sim ORDER BY variant_contig, variant_position LIMIT 9",
            "OVER with FILTER",
        ),
        (
            "SELECT variant_position, lag(nullif(variant_position % 3, 0)) IGNORE NULLS OVER (PARTITION BY variant_contig ORDER BY variant_position) AS l FROM sim ORDER BY variant_contig, variant_position LIMIT 9",
            "IGNORE NULLS",
        ),
        (
            "WITH RECURSIVE r AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM r JOIN sim ON variant_position = x WHERE x < 3) SELECT count(*) FROM r",
            "recursive",
        ),
        (
            "SELECT count(*) FROM vcz_ld('sim', 100)",
            "no scan of a VCZ table can be divided",
        ),
    ] {
        assert_eq!(
            text(&run(&ctx, sql).await),
            text(&run(&local, sql).await),
            "{sql}"
        );
        let shown = plan(&ctx, sql).await;
        assert!(
            shown.contains("runs on this machine alone") && shown.contains(reason),
            "{sql}: {shown}"
        );
    }
    let several =
        "SELECT count(*) FROM sim WHERE variant_position > (SELECT variant_position FROM sim)";
    let error = fails(&ctx, several).await;
    assert!(error.contains("more than one row"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_shows_stages_or_why_there_are_none() {
    let all = workers(2);
    let ctx = on_workers(here(2), addresses(&all));
    with_sim(&ctx).await;
    run(&ctx, "SET datafusion.explain.format = 'indent'").await;
    let sql = "SELECT variant_contig, diversity(call_genotype) FROM sim GROUP BY 1";
    let shown = plan(&ctx, sql).await;
    for part in [
        "runs on 2 of 2 workers: 1 MiB to decode",
        "Stage 1 ── tasks=2",
        "t1: DataSourceExec: VczSource",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let analyzed = text(&run(&ctx, &format!("EXPLAIN ANALYZE {sql}")).await);
    assert!(
        analyzed.contains("chunks") && analyzed.contains("Stage 1"),
        "{analyzed}"
    );
    run(&ctx, "SET vcz.distribute = 'auto'").await;
    let shown = plan(&ctx, sql).await;
    assert!(
        shown.contains("runs on this machine alone: about"),
        "{shown}"
    );
    run(&ctx, "SET vcz.distribute = 'never'").await;
    let shown = plan(&ctx, sql).await;
    assert!(
        !shown.contains("this machine") && !shown.contains("Stage"),
        "{shown}"
    );
    run(&ctx, "SET vcz.distribute = 'always'").await;
    let none = on_workers(here(2), vec!["127.0.0.1:1".to_string()]);
    with_sim(&none).await;
    let shown = plan(&none, sql).await;
    assert!(
        shown.contains("none of 1 workers can be used (127.0.0.1:1:"),
        "{shown}"
    );
    let rows = run(&none, sql).await;
    assert!(rows.iter().map(RecordBatch::num_rows).sum::<usize>() > 0);
}

const WINDOWS: &str = "\
runs on 2 of 2 workers: 1 MiB to decode
┌───── DistributedExec
│ SortPreservingMergeExec: [variant_contig@0 ASC NULLS LAST, w@1 ASC NULLS LAST]
│   [Stage 2] => NetworkCoalesceExec: output_partitions=4, input_tasks=2
└──────────────────────────────────────────────────
  ┌───── Stage 2 ── tasks=2, partitions=2
  │ SortExec: expr=[variant_contig@0 ASC NULLS LAST, w@1 ASC NULLS LAST], preserve_partitioning=[true]
  │   ProjectionExec: expr=[variant_contig@0 as variant_contig, genome_bin(sim.variant_position,Int64(50000))@1 as w, diversity(sim.call_genotype)@2 as pi]
  │     AggregateExec: mode=FinalPartitioned, gby=[variant_contig@0 as variant_contig, genome_bin(sim.variant_position,Int64(50000))@1 as genome_bin(sim.variant_position,Int64(50000))], aggr=[diversity(__datafusion_extracted_1) as diversity(sim.call_genotype)]
  │       [Stage 1] => NetworkShuffleExec: output_partitions=2, input_tasks=2
  └──────────────────────────────────────────────────
    ┌───── Stage 1 ── tasks=2, partitions=4
    │ RepartitionExec: partitioning=Hash([variant_contig@0, genome_bin(sim.variant_position,Int64(50000))@1], 4), input_partitions=1
    │   ShuffleInputExec
    │     AggregateRunsExec: mode=Partial, gby=[variant_contig@1 as variant_contig, genome_bin(CAST(variant_position@2 AS Int64), 50000) as genome_bin(sim.variant_position,Int64(50000))], aggr=[diversity(__datafusion_extracted_1) as diversity(sim.call_genotype)]
    │       DistributedLeafExec:
    │         t0: DataSourceExec: VczSource: store=sim.vcz.zip, columns=[variant_contig, variant_position], functions=[allele_counts(all)], variants=4000 of 7402, chunks=4 of 8, partitions=2, backend=host (vcz.backend = 'host')
    │         t1: DataSourceExec: VczSource: store=sim.vcz.zip, columns=[variant_contig, variant_position], functions=[allele_counts(all)], variants=3402 of 7402, chunks=4 of 8, partitions=2, backend=host (vcz.backend = 'host')
    └──────────────────────────────────────────────────
";
const SPECTRUM: &str = "\
runs on 2 of 2 workers: 1 MiB to decode
┌───── DistributedExec
│ AggregateExec: mode=Final, gby=[], aggr=[sfs(__datafusion_extracted_1) as sfs(sim.call_genotype,Utf8(\"first\"))]
│   CoalescePartitionsExec
│     [Stage 1] => NetworkCoalesceExec: output_partitions=4, input_tasks=2
└──────────────────────────────────────────────────
  ┌───── Stage 1 ── tasks=2, partitions=4
  │ AggregateExec: mode=Partial, gby=[], aggr=[sfs(__datafusion_extracted_1) as sfs(sim.call_genotype,Utf8(\"first\"))]
  │   DistributedLeafExec:
  │     t0: DataSourceExec: VczSource: store=sim.vcz.zip, columns=[], functions=[allele_counts(first)], variants=4000 of 7402, chunks=4 of 8, partitions=2, backend=host (vcz.backend = 'host')
  │     t1: DataSourceExec: VczSource: store=sim.vcz.zip, columns=[], functions=[allele_counts(first)], variants=3402 of 7402, chunks=4 of 8, partitions=2, backend=host (vcz.backend = 'host')
  └──────────────────────────────────────────────────
";

/// Partial aggregation is on the workers, of consecutive chunks; only states are shuffled or collected.
#[tokio::test(flavor = "multi_thread")]
async fn plans_of_windows_and_spectra() {
    let all = workers(2);
    let ctx = on_workers(here(2), addresses(&all));
    with_sim(&ctx).await;
    run(&ctx, "SET vcz.backend = 'host'").await;
    let folder = format!("{}/", fixtures().display());
    for (sql, wanted) in [
        (
            "SELECT variant_contig, genome_bin(variant_position, 50000) AS w, diversity(call_genotype) AS pi FROM sim GROUP BY 1, 2 ORDER BY 1, 2",
            WINDOWS,
        ),
        ("SELECT sfs(call_genotype, 'first') FROM sim", SPECTRUM),
    ] {
        let rows = run(&ctx, &format!("EXPLAIN FORMAT INDENT {sql}")).await;
        let plans: Vec<String> = rows
            .iter()
            .flat_map(|batch| {
                let plans = batch.column(1).as_string::<i32>();
                plans
                    .iter()
                    .flatten()
                    .map(str::to_string)
                    .collect::<Vec<_>>()
            })
            .collect();
        let physical = plans.last().unwrap().replace(&folder, "");
        assert_eq!(physical, wanted, "{physical}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn notices_of_workers_reach_the_session() {
    use datafusion_vcz::scan::VczSettings;
    use datafusion_vcz::scan::notices::{NoticeSink, Notices};
    let all = workers(2);
    let mut sentences = vec![];
    for distributed in [false, true] {
        let mut ctx = here(2);
        let notices = Arc::<Notices>::default();
        {
            let state = ctx.state_ref();
            let mut state = state.write();
            let extensions = &mut state.config_mut().options_mut().extensions;
            let settings = extensions.get_mut::<VczSettings>().unwrap();
            settings.notices = NoticeSink(Some(Arc::clone(&notices)));
        }
        if distributed {
            ctx = on_workers(ctx, addresses(&all));
        }
        create(&ctx, "missing", &fixtures().join("missing.vcz.zip"), None).await;
        run(
            &ctx,
            "SELECT variant_contig, sfs(call_genotype) FROM missing GROUP BY 1",
        )
        .await;
        sentences.push(notices.take());
    }
    assert!(
        sentences[0]
            .iter()
            .any(|notice| notice.contains("left out")),
        "{sentences:?}"
    );
    assert_eq!(sentences[0], sentences[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_store_at_the_same_place_is_refused() {
    let all = workers(2);
    let path = work_dir().join("cluster_other.vcz.zip");
    std::fs::copy(fixtures().join("sim.vcz.zip"), &path).unwrap();
    let ctx = on_workers(here(2), addresses(&all));
    create(&ctx, "t", &path, None).await;
    run(&ctx, "SELECT sfs(call_genotype) FROM t").await;
    // The same arrays with other genotypes, which workers have not opened.
    let all = workers(2);
    std::fs::remove_file(&path).unwrap();
    std::fs::copy(fixtures().join("chunks7.vcz.zip"), &path).unwrap();
    let other = on_workers(ctx, addresses(&all));
    let error = fails(&other, "SELECT sfs(call_genotype) FROM t").await;
    assert!(
        error.contains("are not those that the coordinator has opened"),
        "{error}"
    );
    assert!(
        error.contains("worker 127.0.0.1:") && error.contains("cluster_other"),
        "{error}"
    );
    std::fs::remove_file(&path).unwrap();
    let error = fails(&other, "SELECT sfs(call_genotype) FROM t").await;
    assert!(
        error.contains("there is no store") && error.contains("cluster_other"),
        "{error}"
    );
}

/// A store that takes long enough to count that something can happen meanwhile.
fn long_store() -> PathBuf {
    static STORE: OnceLock<PathBuf> = OnceLock::new();
    let lengthened =
        || crate::memory::lengthened(&fixtures().join("sim.vcz.zip"), "cluster_long", 8_000).0;
    STORE.get_or_init(lengthened).clone()
}

/// Kills at moments from before the first request to after the last row, of queries with and without shuffles.
#[tokio::test(flavor = "multi_thread")]
async fn a_query_survives_a_worker_that_is_killed_or_fails() {
    const ROUNDS: u32 = 6;
    let store = long_store();
    let local = here(2);
    create(&local, "long", &store, None).await;
    let queries = [
        "SELECT sfs(call_genotype) AS s, count(*) AS n FROM long",
        "SELECT variant_position % 97 AS k, diversity(call_genotype) AS pi FROM long WHERE variant_position % 5 = 0 GROUP BY 1 ORDER BY 1",
        "SELECT max(r) AS r, sum(p) AS s FROM (SELECT variant_position AS p, rank() OVER (PARTITION BY variant_position % 11 ORDER BY variant_position) AS r FROM long WHERE variant_position % 40 = 0)",
    ];
    let survivor = Worker::start(&[]);
    let (mut right, mut failed) = (0, 0);
    for sql in queries {
        let started = Instant::now();
        let wanted = text(&run(&local, sql).await);
        let length = started.elapsed();
        for round in 0..ROUNDS {
            let victim = Worker::start(&[]);
            let addresses = vec![survivor.address.clone(), victim.address.clone()];
            let ctx = on_workers(here(2), addresses);
            create(&ctx, "long", &store, None).await;
            let kill = tokio::task::spawn_blocking(move || {
                std::thread::sleep(length * round / (ROUNDS - 2));
                drop(victim);
            });
            let query = async {
                let rows = ctx.sql(sql).await.unwrap().collect().await;
                rows.map(|rows| text(&rows))
            };
            let query = tokio::time::timeout(Duration::from_secs(60), query);
            match query.await.expect("the query hangs") {
                Ok(found) => {
                    assert_eq!(found, wanted, "{sql}");
                    right += 1;
                }
                Err(error) => {
                    assert!(error.to_string().contains("worker 127.0.0.1:"), "{error}");
                    failed += 1;
                }
            }
            kill.await.unwrap();
            if round == ROUNDS - 1 {
                // The next query does without it.
                assert_eq!(text(&run(&ctx, sql).await), wanted);
            }
        }
    }
    let runs = 3 * ROUNDS;
    assert!(6 * right >= 5 * runs, "{right} answers and {failed} errors");
    let used = ticks_of_half_a_second(&[survivor]).await;
    assert!(
        used < 10,
        "something was left behind on the other worker, which used {used} ticks"
    );
}

/// A worker of another version, and something else that answers like one, are not used.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_of_another_version_is_left_out() {
    use datafusion_distributed::Worker as Server;
    let sql = "SELECT sfs(call_genotype) FROM sim";
    let local = here(2);
    with_sim(&local).await;
    let wanted = text(&run(&local, sql).await);
    for (version, reason) in [
        (
            "datafusion-vcz 0.0.1/1 partitions=2",
            "it is of version 0.0.1/1, and this is ",
        ),
        ("another 1", "it is no worker of datafusion-vcz"),
    ] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = Server::default().with_version(version);
        let serving = tonic::transport::Server::builder()
            .add_service(server.into_worker_server())
            .serve_with_incoming(tonic::transport::server::TcpIncoming::from(listener));
        let serving = tokio::spawn(serving);
        let ctx = on_workers(here(2), vec![address]);
        with_sim(&ctx).await;
        run(&ctx, "SET datafusion.explain.format = 'indent'").await;
        let shown = plan(&ctx, sql).await;
        assert!(
            shown.contains("none of 1 workers can be used") && shown.contains(reason),
            "{shown}"
        );
        assert_eq!(text(&run(&ctx, sql).await), wanted);
        serving.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_hangs_is_an_error_or_done_without() {
    let local = here(2);
    with_sim(&local).await;
    let sql = "SELECT sfs(call_genotype) FROM sim";
    let wanted = text(&run(&local, sql).await);
    let all = workers(2);
    let ctx = on_workers(here(2), addresses(&all));
    with_sim(&ctx).await;
    assert_eq!(text(&run(&ctx, sql).await), wanted);
    all[1].signal("-STOP");
    let started = Instant::now();
    let found = tokio::time::timeout(Duration::from_secs(60), async {
        ctx.sql(sql).await.unwrap().collect().await
    });
    let found = found.await.expect("the query hangs");
    if let Ok(rows) = &found {
        assert_eq!(text(rows), wanted);
    }
    assert!(
        started.elapsed() < Duration::from_secs(30),
        "{:?}",
        started.elapsed()
    );
    all[1].signal("-CONT");
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_stop_when_a_query_is_dropped() {
    let store = long_store();
    let all = workers(2);
    let ctx = on_workers(here(2), addresses(&all));
    create(&ctx, "long", &store, None).await;
    let sql = "SELECT variant_position % 7 AS k, sum(length(array_to_string(call_genotype[1], '-'))) AS n FROM long GROUP BY 1";
    let mut rows = ctx.sql(sql).await.unwrap().execute_stream().await.unwrap();
    let early = tokio::time::timeout(Duration::from_millis(300), rows.next()).await;
    assert!(early.is_err(), "the query was too fast to be dropped");
    drop(rows);
    tokio::time::sleep(Duration::from_millis(1000)).await;
    let used = ticks_of_half_a_second(&all).await;
    assert!(used < 10, "workers used {used} ticks of half a second");
}

/// The processor time that workers use in half a second, in ticks of 10 ms. Waiting takes few.
async fn ticks_of_half_a_second(workers: &[Worker]) -> u64 {
    let before: u64 = workers.iter().map(Worker::cpu).sum();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let after: u64 = workers.iter().map(Worker::cpu).sum();
    after.saturating_sub(before)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_keeps_its_memory_limit() {
    let all = [
        Worker::start(&["--memory-limit", "4m"]),
        Worker::start(&["--memory-limit", "4m"]),
    ];
    let ctx = on_workers(here(2), addresses(&all));
    with_sim(&ctx).await;
    let sql =
        "SELECT variant_position, joint_sfs(call_genotype, 'first', 'second') FROM sim GROUP BY 1";
    let error = fails(&ctx, sql).await;
    assert!(
        error.contains("Resources exhausted") && error.contains("worker 127.0.0.1:"),
        "{error}"
    );
    run(&ctx, "SELECT sfs(call_genotype) FROM sim").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_asked_for() {
    let folder = work_dir().join("cluster_token");
    std::fs::create_dir_all(&folder).unwrap();
    let (right, wrong) = (folder.join("right"), folder.join("wrong"));
    std::fs::write(&right, "0123456789abcdef-right\n").unwrap();
    std::fs::write(&wrong, "0123456789abcdef-wrong\n").unwrap();
    let all = [Worker::start(&[
        "--worker-token-file",
        right.to_str().unwrap(),
    ])];
    for (token, answers) in [(Some(&right), true), (Some(&wrong), false), (None, false)] {
        let config = datafusion_vcz::cluster::ClusterConfig {
            workers: addresses(&all),
            tls: None,
            token_file: token.cloned(),
        };
        let workers = datafusion_vcz::cluster::Workers::connect(&config)
            .await
            .unwrap();
        assert_eq!(
            workers.usable().len() == 1,
            answers,
            "{token:?}: {:?}",
            workers.unusable()
        );
        if !answers {
            let (_, reasons) = workers.unusable();
            assert!(reasons[0].contains("token"), "{reasons:?}");
        }
    }
    let mut exposed = Command::new(env!("CARGO_BIN_EXE_vcz"))
        .args(["serve", "--worker", "--bind", "0.0.0.0:0"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let status = exposed.wait().unwrap();
    let mut said = String::new();
    exposed
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert!(!status.success() && said.contains("--tls-cert"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_of_a_file_are_looked_up_again() {
    let all = workers(2);
    let file = work_dir().join("cluster_workers.txt");
    std::fs::write(&file, format!("# one\n{}\n", all[0].address)).unwrap();
    let config = datafusion_vcz::cluster::ClusterConfig {
        workers: vec![format!("file:{}", file.display())],
        ..Default::default()
    };
    let found = datafusion_vcz::cluster::Workers::connect(&config)
        .await
        .unwrap();
    assert_eq!(found.usable().len(), 1);
    std::fs::write(&file, format!("{}\n{}\n", all[0].address, all[1].address)).unwrap();
    let waited = Instant::now();
    while found.usable().len() < 2 {
        assert!(
            waited.elapsed() < Duration::from_secs(20),
            "{:?}",
            found.unusable()
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
