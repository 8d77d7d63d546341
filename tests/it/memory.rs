//! Memory: reservations that EXPLAIN ANALYZE shows, pools that are too small, and no growth with the length of a store.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::util::pretty::pretty_format_batches;
use datafusion::common::DataFusionError;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_plan::displayable;
use datafusion::prelude::{SessionConfig, SessionContext};

use crate::common::{create, entries, fixtures, row, run, session, shared_data, work_dir};

/// A session whose queries may take `bytes` of memory together.
fn bounded(bytes: usize) -> SessionContext {
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_limit(bytes, 1.0)
        .build()
        .unwrap();
    let config = SessionConfig::new().with_target_partitions(4);
    datafusion_vcz::session::context(config, Arc::new(runtime)).unwrap()
}

/// The largest store at hand, a populations file, and bytes that cannot hold one of its decoded genotype chunks.
fn largest_store() -> (PathBuf, PathBuf, usize) {
    match shared_data() {
        Some(folder) => (
            folder.join("gambX.vcz.zip"),
            folder.join("gambX.populations.tsv"),
            150_000,
        ),
        None => (
            fixtures().join("sim.vcz.zip"),
            fixtures().join("sim.populations.tsv"),
            40_000,
        ),
    }
}

/// Waits for the tasks of queries that are over, or failed, to be gone.
async fn gives_everything_back(ctx: &SessionContext) {
    let pool = &ctx.runtime_env().memory_pool;
    for _ in 0..500 {
        if pool.reserved() == 0 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("{} bytes of memory were not given back", pool.reserved());
}

const SFS: &str = "SELECT sfs(call_genotype, 'first') FROM t";
const SCAN: &str = "SELECT variant_contig, genome_bin(variant_position, 10000) AS start, \
    diversity(call_genotype, 'first'), divergence(call_genotype, 'first', 'second'), \
    fst_hudson(call_genotype, 'first', 'second') FROM t GROUP BY 1, 2";

#[tokio::test(flavor = "multi_thread")]
async fn spectra_and_scans_fit_in_300_mb_and_show_what_they_reserve() {
    let (store, populations, _) = largest_store();
    let ctx = bounded(300 << 20);
    create(&ctx, "t", &store, Some(&populations)).await;
    let free = datafusion_vcz::session::context(SessionConfig::new(), Arc::default()).unwrap();
    create(&free, "t", &store, Some(&populations)).await;
    let sfs = row(&ctx, SFS).await;
    assert_eq!(sfs, row(&free, SFS).await, "a limit changes the answer");
    let rows = |batches: Vec<arrow::array::RecordBatch>| {
        batches.iter().map(|batch| batch.num_rows()).sum::<usize>()
    };
    let windows = rows(run(&ctx, SCAN).await);
    assert!(windows > 10);
    assert_eq!(windows, rows(run(&free, SCAN).await));
    for sql in [SFS, SCAN] {
        let plan = run(&ctx, &format!("EXPLAIN ANALYZE {sql}")).await;
        let plan = pretty_format_batches(&plan).unwrap().to_string();
        let at = plan
            .find("memory_reserved=")
            .unwrap_or_else(|| panic!("no reservation in\n{plan}"));
        let reserved = &plan[at + "memory_reserved=".len()..];
        assert!(
            reserved.starts_with(|c: char| ('1'..='9').contains(&c)),
            "nothing reserved in\n{plan}"
        );
        for metric in [
            "bytes_fetched=",
            "bytes_decoded=",
            "chunks_read=",
            "fetch_time=",
            "decode_time=",
            "count_time=",
        ] {
            assert!(plan.contains(metric), "no {metric} in\n{plan}");
        }
    }
    gives_everything_back(&ctx).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_below_one_chunk_is_an_error_that_names_the_scan() {
    let (store, populations, too_little) = largest_store();
    let ctx = bounded(too_little);
    create(&ctx, "t", &store, Some(&populations)).await;
    for sql in [SFS, "SELECT call_genotype FROM t"] {
        let failed = match ctx.sql(sql).await {
            Ok(frame) => frame.collect().await.map(|_| ()),
            Err(error) => Err(error),
        };
        let error = failed.expect_err("more memory than the pool has");
        assert!(
            matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)),
            "{sql}\n{error}"
        );
        assert!(error.to_string().contains("VczScan"), "{sql}\n{error}");
        // What needs no chunk of genotypes still works, so nothing was kept.
        assert_eq!(run(&ctx, "SELECT count(*) FROM t").await.len(), 1);
    }
    gives_everything_back(&ctx).await;
}

/// A directory store `name` of `chunks` chunks of variants, those of the store `source` over and over, without a region
/// index and with the arrays that spectra and scans need. The chunks are links, so that many cost little. With it, the bytes
/// of one decoded chunk of genotypes.
pub fn lengthened(source: &Path, name: &str, chunks: u64) -> (PathBuf, u64) {
    let target = work_dir().join(name);
    let objects = entries(&fs::read(source).unwrap());
    let originals = work_dir().join(format!("{name}.chunks"));
    fs::create_dir_all(&originals).unwrap();
    let put = |key: &str, bytes: &[u8]| {
        let path = target.join(key);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    };
    for (key, bytes) in &objects {
        if key == ".zgroup"
            || key == ".zattrs"
            || key.starts_with("sample_id/")
            || key.starts_with("contig_id/")
        {
            put(key, bytes);
        }
    }
    let mut genotypes = 0;
    for array in [
        "variant_contig",
        "variant_position",
        "variant_allele",
        "call_genotype",
    ] {
        let object = |key: &str| {
            objects
                .iter()
                .find(|(known, _)| known == key)
                .map(|(_, bytes)| bytes)
        };
        let metadata = object(&format!("{array}/.zarray")).unwrap();
        let mut metadata: serde_json::Value = serde_json::from_slice(metadata).unwrap();
        let (rows, chunk) = (
            metadata["shape"][0].as_u64().unwrap(),
            metadata["chunks"][0].as_u64().unwrap(),
        );
        metadata["shape"][0] = (chunks * chunk).into();
        if array == "call_genotype" {
            assert_eq!(metadata["dtype"], "|i1");
            let lengths = metadata["chunks"].as_array().unwrap();
            genotypes = lengths.iter().map(|n| n.as_u64().unwrap()).product();
        }
        put(&format!("{array}/.zarray"), metadata.to_string().as_bytes());
        put(
            &format!("{array}/.zattrs"),
            object(&format!("{array}/.zattrs")).unwrap(),
        );
        let rest = ".0".repeat(metadata["shape"].as_array().unwrap().len() - 1);
        // The last chunk is padded, so it is none to repeat; nor need more than 100 be.
        let whole = (rows / chunk).min(100);
        let prefix = format!("{array}/");
        let mut links = 0;
        for (key, bytes) in objects.iter().filter(|(key, _)| key.starts_with(&prefix)) {
            let Some(index) = key[prefix.len()..]
                .strip_suffix(rest.as_str())
                .and_then(|at| at.parse::<u64>().ok())
            else {
                continue;
            };
            if index >= whole {
                continue;
            }
            let original = originals.join(format!("{array}.{index}"));
            fs::write(&original, bytes).unwrap();
            for copy in (index..chunks).step_by(whole as usize) {
                fs::hard_link(&original, target.join(format!("{array}/{copy}{rest}"))).unwrap();
                links += 1;
            }
        }
        assert!(
            links == chunks || array == "variant_contig",
            "{array} has {links} chunks of {chunks}"
        );
    }
    (target, genotypes)
}

/// Runs queries in the program, and gives the first line of each answer's text and the most kilobytes that were resident.
#[cfg(feature = "cli")]
fn peak_of(store: &Path, sql: &str) -> (String, u64) {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};
    let table = store.file_stem().unwrap().to_str().unwrap();
    let create = format!(
        "CREATE EXTERNAL TABLE \"{table}\" STORED AS VCZ LOCATION '{}'",
        store.display()
    );
    let mut child = Command::new(env!("CARGO_BIN_EXE_vcz"))
        .args(["sql", "-q", "--format", "csv"])
        .args(["-c", "SET datafusion.execution.target_partitions = 2"])
        // Without the libraries of a GPU, which take hundreds of megabytes.
        .args(["-c", "SET vcz.backend = 'host'"])
        .args(["-c", &create])
        .args(["-c", sql])
        // Fills the pipe, so that the program waits here, with all that came before behind it.
        .args([
            "-c",
            "SELECT value AS waiting FROM generate_series(1, 300000)",
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut answer = String::new();
    let mut line = String::new();
    while output.read_line(&mut line).unwrap() > 0 && line.trim() != "waiting" {
        answer.push_str(&line);
        line.clear();
    }
    let waiting = line.trim() == "waiting";
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(waiting, "{sql} did not answer: {answer}");
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .expect("VmHWM");
    (answer, peak.trim().trim_end_matches(" kB").parse().unwrap())
}

#[cfg(feature = "cli")]
#[test]
fn peak_memory_does_not_grow_with_the_length_of_a_store() {
    if !cfg!(target_os = "linux") {
        eprintln!("NOT RUN: peak resident memory is read from /proc, which only Linux has");
        return;
    }
    let (source, _, _) = largest_store();
    const CHUNKS: u64 = 200;
    const TIMES: u64 = 16;
    let (short, chunk) = lengthened(&source, "short.vcz", CHUNKS);
    let (long, _) = lengthened(&source, "long.vcz", TIMES * CHUNKS);
    // How work falls on threads, each with a heap of its own, makes some 10 MB of difference from run to run, and positions
    // stay in memory as they are stored: so a tenth more may be resident, and a twentieth of what is decoded beside that.
    let added = (TIMES - 1) * CHUNKS * chunk;
    assert!(added > 50_000_000, "too little to be seen: {added} bytes");
    let number = |answer: &str| {
        answer
            .lines()
            .nth(1)
            .expect("an answer")
            .parse::<u64>()
            .unwrap()
    };
    for sql in [
        "SELECT sum(n) FROM (SELECT unnest(sfs(call_genotype)) AS n FROM \"TABLE\")",
        "SELECT sum(s) FROM (SELECT genome_bin(variant_position, 10000), segregating_sites(call_genotype) AS s, \
         diversity(call_genotype) FROM \"TABLE\" GROUP BY 1)",
        "SELECT sum(s['hom_ref']) FROM (SELECT unnest(sample_counts(call_genotype)) AS s FROM \"TABLE\")",
        "SELECT sum(h['sites']) FROM (SELECT garud_h(call_genotype) AS h FROM \"TABLE\" \
         GROUP BY genome_bin(variant_position, 100000))",
        // Reads the positions while planning, as there is no region index.
        "SELECT count(*) FROM \"TABLE\" WHERE variant_position > 100000",
    ] {
        // The least of two, as other things add to what is resident.
        let measure = |store: &Path, table: &str| {
            let sql = sql.replace("TABLE", table);
            let ((answer, first), (_, second)) = (peak_of(store, &sql), peak_of(store, &sql));
            (number(&answer), first.min(second))
        };
        let (short_answer, short_peak) = measure(&short, "short");
        let (long_answer, long_peak) = measure(&long, "long");
        eprintln!(
            "{short_peak} kB resident for {CHUNKS} chunks, {long_peak} kB for {}, {added} bytes of genotypes more: {sql}",
            TIMES * CHUNKS
        );
        assert!(
            long_peak * 10 <= short_peak * 11 + added / 1000 / 2,
            "from {short_peak} to {long_peak} kB: {sql}"
        );
        assert!(short_answer > 0, "{sql}");
        assert!(
            long_answer >= (TIMES - 1) * short_answer,
            "{long_answer} is not about {TIMES} times {short_answer}: {sql}"
        );
    }
}

/// How a query in the program ended with a memory limit of 100 MB and so many partitions and rows a batch, what it printed, and the most kilobytes that were resident.
#[cfg(all(feature = "cli", target_os = "linux"))]
fn with_100_mb(partitions: usize, batch: usize, sql: &str) -> (bool, String, u64) {
    use std::io::Read;
    use std::process::{Command, Stdio};
    let partitions = format!("SET datafusion.execution.target_partitions = {partitions}");
    let mut child = Command::new(env!("CARGO_BIN_EXE_vcz"))
        .args(["sql", "-q", "--format", "csv", "-m", "100M"])
        .args(["-b", &batch.to_string()])
        .args(["-c", &partitions])
        // Without the libraries of a GPU, which take hundreds of megabytes.
        .args(["-c", "SET vcz.backend = 'host'"])
        .args(["-c", sql])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut peak = 0;
    let status = loop {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let now = status.lines().find_map(|line| {
            let kilobytes = line.strip_prefix("VmHWM:")?;
            kilobytes.trim().trim_end_matches(" kB").parse().ok()
        });
        peak = peak.max(now.unwrap_or(0));
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        std::thread::sleep(std::time::Duration::from_millis(3));
    };
    let mut printed = String::new();
    let (out, err) = (child.stdout.as_mut(), child.stderr.as_mut());
    out.unwrap().read_to_string(&mut printed).unwrap();
    err.unwrap().read_to_string(&mut printed).unwrap();
    (status.success(), printed, peak)
}

/// Spectra are dense where they are returned, so a large N makes them large however few sites there are.
#[cfg(all(feature = "cli", target_os = "linux"))]
#[test]
fn spectra_stay_within_the_memory_limit() {
    let counts = |copies: u64| {
        format!(
            "with_metadata(make_array({copies} - value % 7, value % 7), 'vcz.copies', '{copies}')"
        )
    };
    let total = |spectra: &str| {
        format!("SELECT sum(array_length(s)) AS bins FROM (SELECT {spectra}) AS spectra")
    };
    let rows = |n: u64| format!("FROM generate_series(1, {n})");
    let grouped = |copies: u64, n: u64, groups: u64| {
        let (counts, rows) = (counts(copies), rows(n));
        format!("sfs({counts}) AS s {rows} GROUP BY value % {groups}")
    };
    let alone = |n: u64| format!("sfs({}) AS s {}", counts(100_000_000), rows(n));
    let over = |frame: &str| {
        let (counts, rows) = (counts(10_000), rows(4_000));
        format!("sfs({counts}) OVER ({frame}) AS s {rows}")
    };
    let sliding = "ORDER BY value ROWS BETWEEN 9 PRECEDING AND 9 FOLLOWING";
    let exhausted = None;
    let all_windows = Some(4_000 * 10_001);
    let cases = [
        // 200 MB in 2,500 groups, which are merged in one batch even if they are spilled.
        (2, 8192, grouped(10_000, 20_000, 2_500), exhausted),
        // 160 MB in 20,000 groups, which are spilled and merged in several batches.
        (
            1,
            1000,
            grouped(1_000, 40_000, 20_000),
            Some(20_000 * 1_001),
        ),
        // 800 MB in one value, from one partition and from several.
        (2, 8192, alone(10), exhausted),
        (2, 8192, alone(20_000), exhausted),
        (
            2,
            8192,
            format!(
                "project_joint_sfs({c}, {c}, 7000, 7000) AS s {}",
                rows(10),
                c = counts(10_000)
            ),
            exhausted,
        ),
        // 320 MB, which pass through the window operator in batches of 8 MB.
        (2, 100, over("ORDER BY value"), all_windows),
        (2, 100, over(sliding), all_windows),
        // One batch has them all.
        (2, 8192, over("ORDER BY value"), exhausted),
        (2, 8192, over(sliding), exhausted),
        // The frame, or its end, is that of the partition, so the operator holds all rows.
        (2, 100, over(""), exhausted),
        (
            2,
            100,
            over("ORDER BY value ROWS BETWEEN CURRENT ROW AND 5000 FOLLOWING"),
            exhausted,
        ),
    ];
    for (partitions, batch, spectra, expected) in cases {
        let sql = total(&spectra);
        let (succeeded, printed, peak) = with_100_mb(partitions, batch, &sql);
        eprintln!("{peak} kB resident: {sql}");
        match expected {
            Some(bins) => {
                assert!(succeeded, "{sql}\n{printed}");
                assert_eq!(printed.trim(), format!("bins\n{bins}"), "{sql}");
            }
            None => {
                assert!(!succeeded, "{sql}\n{printed}");
                assert!(printed.contains("Resources exhausted"), "{sql}\n{printed}");
            }
        }
        assert!(peak < 320_000, "{peak} kB resident: {sql}\n{printed}");
    }
}

/// Where memory is bounded, also by SET, repartitioning has one input: with several, DataFusion 55 can wait for ever once it spills.
#[tokio::test]
async fn repartitioning_has_one_input_where_memory_is_bounded() {
    let sql = "SELECT variant_position % 100 AS k, count(*) FROM t GROUP BY 1";
    let plan = async |ctx: &SessionContext| {
        let frame = ctx.sql(sql).await.unwrap();
        displayable(frame.create_physical_plan().await.unwrap().as_ref())
            .indent(true)
            .to_string()
    };
    let inputs = |plan: &str| {
        let at = plan.find("RepartitionExec: partitioning=Hash").unwrap();
        plan[at..]
            .lines()
            .next()
            .unwrap()
            .contains("input_partitions=1")
    };
    let store = fixtures().join("sim.vcz.zip");
    let free = session(4, 100);
    create(&free, "t", &store, None).await;
    let found = plan(&free).await;
    assert!(!inputs(&found), "{found}");
    let (first, session_id) = (run(&free, sql).await, free.session_id());
    run(&free, "SET datafusion.runtime.memory_limit = '1G'").await;
    let found = plan(&free).await;
    assert!(inputs(&found), "{found}");
    assert!(found.contains("CoalescePartitionsExec"), "{found}");
    assert_eq!(free.session_id(), session_id);
    let rows = |batches: &[RecordBatch]| batches.iter().map(RecordBatch::num_rows).sum::<usize>();
    assert_eq!(rows(&run(&free, sql).await), rows(&first));
}

/// Functions count the lists of windows that they return, as long as anything uses them.
#[tokio::test(flavor = "multi_thread")]
async fn lists_of_windows_are_counted() {
    let sql =
        "SELECT count(*) FROM (SELECT unnest(genome_bins(variant_position, 20000, 1)) FROM t)";
    let all = session(4, 8192);
    create(&all, "t", &fixtures().join("sim.vcz.zip"), None).await;
    let expected = row(&all, sql).await;
    for (function, windows) in [
        (sql, "genome_bins"),
        (
            "SELECT interval_bins(1, variant_position, 1) FROM t",
            "interval_bins",
        ),
    ] {
        let ctx = bounded(16 << 20);
        create(&ctx, "t", &fixtures().join("sim.vcz.zip"), None).await;
        let error = ctx
            .sql(function)
            .await
            .unwrap()
            .collect()
            .await
            .unwrap_err();
        assert!(
            matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)),
            "{error}"
        );
        let error = error.to_string();
        assert!(
            error.contains(&format!("{windows}: no memory for")),
            "{error}"
        );
        assert!(
            error.contains("use larger windows or steps, or set datafusion.execution.batch_size"),
            "{error}"
        );
        drop(error);
        gives_everything_back(&ctx).await;
        run(&ctx, "SET datafusion.execution.batch_size = 10").await;
        if function == sql {
            assert_eq!(row(&ctx, sql).await, expected);
        }
        gives_everything_back(&ctx).await;
    }
}

const GROWING: [&str; 12] = [
    "SELECT v, array_agg(v) OVER (ORDER BY v) AS a FROM numbers",
    "SELECT v, array_agg(v) OVER (PARTITION BY v % 3 ORDER BY v DESC) AS a FROM numbers",
    "SELECT v, array_agg(v) OVER (ORDER BY v ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS a FROM numbers",
    "SELECT v, array_agg(v) FILTER (WHERE v % 2 = 0) OVER (ORDER BY v) AS a, sum(v) OVER (ORDER BY v) AS s FROM numbers",
    "SELECT v, array_agg(v) FILTER (WHERE NULLIF(v % 3, 1) = 0) OVER (PARTITION BY v % 2) AS a FROM numbers",
    "SELECT v, array_agg(v) FILTER (WHERE v % 3 = 0) OVER (ORDER BY v ROWS BETWEEN 3 PRECEDING AND 2 FOLLOWING) AS a FROM numbers",
    "SELECT v, string_agg(CAST(v AS VARCHAR), '-') FILTER (WHERE v > 90) OVER () AS a FROM numbers",
    "SELECT v, string_agg(CAST(v AS VARCHAR), '-') OVER (ORDER BY v) AS a FROM numbers",
    "SELECT v, array_agg([v, NULL]) OVER () AS a FROM numbers",
    "SELECT v % 7 AS k, array_agg(v ORDER BY v DESC) AS a, string_agg(CAST(v AS VARCHAR), ',' ORDER BY v) AS s FROM numbers GROUP BY 1",
    "SELECT v % 7 AS k, array_agg(DISTINCT v % 5 ORDER BY v % 5) AS a FROM numbers GROUP BY 1",
    "SELECT array_agg(v ORDER BY v)[3] AS third, array_agg(NULLIF(v, 2) ORDER BY v) IGNORE NULLS AS a FROM numbers WHERE v < 9",
];

/// `array_agg` and `string_agg` give what those of DataFusion give, and their values in OVER, which grow with their frames, are accounted.
#[tokio::test(flavor = "multi_thread")]
async fn values_that_grow_with_their_frames_are_counted() {
    let numbers = |rows: usize| {
        format!(
            "CREATE OR REPLACE VIEW numbers AS SELECT value AS v FROM generate_series(1, {rows})"
        )
    };
    // In one partition, so that values come in the order of their rows.
    let stock = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1));
    let free = session(1, 16);
    for ctx in [&stock, &free] {
        run(ctx, &numbers(100)).await;
    }
    for sql in GROWING {
        let ordered = format!("SELECT * FROM ({sql}) ORDER BY 1");
        let expected = pretty_format_batches(&run(&stock, &ordered).await).unwrap();
        let found = pretty_format_batches(&run(&free, &ordered).await).unwrap();
        assert_eq!(found.to_string(), expected.to_string(), "{sql}");
    }
    // Values of 3,000 rows take 36 MB, those of one batch at most 26 MB, twice while its column is made. Every row gets all that FILTER keeps.
    let growing = "SELECT array_agg(v) OVER (ORDER BY v) AS a FROM numbers";
    let filtered = "SELECT array_agg(v) FILTER (WHERE v % 2 = 0) OVER () AS a FROM numbers";
    let cases = [
        (growing, 2_000_000, None),
        (growing, 80_000_000, Some(3000 * 3001 / 2)),
        (filtered, 40_000_000, None),
        (filtered, 120_000_000, Some(3000 * 1500)),
    ];
    for (over, bytes, fits) in cases {
        let ctx = bounded(bytes);
        run(&ctx, "SET datafusion.execution.batch_size = 1024").await;
        run(&ctx, &numbers(3000)).await;
        let sum = format!("SELECT sum(cardinality(a)) AS n FROM ({over})");
        let answer = ctx.sql(&sum).await.unwrap().collect().await;
        match answer {
            Ok(batches) => {
                let expected = fits.unwrap_or_else(|| panic!("{over}: {bytes}"));
                let shown = pretty_format_batches(&batches).unwrap().to_string();
                assert!(shown.contains(&format!("| {expected} |")), "{shown}");
            }
            Err(error) => {
                assert!(fits.is_none(), "{over}: {bytes}: {error}");
                let exhausted = matches!(error.find_root(), DataFusionError::ResourcesExhausted(_));
                assert!(exhausted, "{error}");
                let reason = "a value of array_agg in OVER has every row of its frame";
                assert!(error.to_string().contains(reason), "{error}");
            }
        }
        gives_everything_back(&ctx).await;
    }
}
