//! The host and a real GPU give the same: over the fixtures, the real stores where they are, and random stores. Where there
//! is no GPU these tests say on standard error that they did not run; with `VCZ_REQUIRE_GPU=1` that is a failure.
//!
//! To run them on another machine, copy the program of these tests and the source tree, and there, at its top:
//! `VCZ_REQUIRE_GPU=1 ./it gpu:: --nocapture`.

use std::io::Write;

use crate::backends::{
    Backends, Share, ask, compare_direct, compare_filters, compare_stores, stores, texts,
};
use crate::common;
use crate::random_store::{Random, prepare, put_field, put_genotypes};
use crate::rare_store::put_rare_alleles;

/// Whether there is a GPU to compare with. Says loudly why not.
pub async fn is_there() -> bool {
    let ctx = common::session(1, 8192);
    let store = common::fixtures().join("sim.vcz.zip");
    common::create(&ctx, "t", &store, None).await;
    common::run(&ctx, "SET vcz.backend = 'gpu'").await;
    let answer = ask(&ctx, "SELECT sfs(call_genotype) FROM t").await;
    match answer.batches {
        Ok(_) if answer.chunks.1 > 0 => true,
        found => {
            let reason = found
                .err()
                .unwrap_or_else(|| "no chunk was decoded on it".to_string());
            let required = std::env::var_os("VCZ_REQUIRE_GPU").is_some_and(|value| value == "1");
            assert!(!required, "{reason}");
            // Not by a macro, which the test harness keeps to itself.
            let said = writeln!(
                std::io::stderr(),
                "\nNOT RUN: whether a GPU gives the same as the host was NOT tested here: {reason}\n"
            );
            said.unwrap();
            false
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fixtures() {
    if is_there().await {
        let sizes = [(1, 8192), (2, 37), (16, 100)];
        let on_gpu = compare_stores(common::session, &stores(&common::fixtures()), &sizes, 1).await;
        assert!(on_gpu > 2000, "only {on_gpu} chunks");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn layouts() {
    if is_there().await {
        let folder = common::fixtures().join("layouts");
        let on_gpu = compare_stores(common::session, &stores(&folder), &[(2, 64)], 1).await;
        assert!(on_gpu > 2000, "only {on_gpu} chunks");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn real_stores() {
    let Some(folder) = common::shared_data() else {
        return;
    };
    if is_there().await {
        compare_stores(
            common::session,
            &stores(&folder),
            &[(1, 8192), (16, 1000)],
            1,
        )
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn random_stores() {
    if !is_there().await {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let fixtures = common::fixtures();
    let store = prepare(common::unpack, &fixtures, folder.path());
    let populations = fixtures.join("chunks7.populations.tsv");
    let mut on_gpu = 0;
    for seed in 1..=80 {
        let mut random = Random::new(seed);
        let metadata = put_genotypes(&store, &mut random);
        let field = put_field(&store, &mut random);
        let (partitions, batch_size) = random.one(&[(1, 8192), (3, 50), (16, 200)]);
        let both = Backends::new(common::session, partitions, batch_size).await;
        both.create("t", &store, Some(&populations)).await;
        on_gpu += both
            .compare(&format!("seed {seed}: {metadata} {field}"), Share::ALL)
            .await;
    }
    assert!(on_gpu > 5000, "only {on_gpu} chunks");
}

/// So many individuals that GPUs add rows in which few copies have the allele pair by pair.
#[tokio::test(flavor = "multi_thread")]
async fn rare_alleles() {
    if !is_there().await {
        return;
    }
    let fixtures = common::fixtures();
    for (seed, individuals, partitions) in [(1, 430, 1), (2, 900, 3), (3, 1300, 16)] {
        let folder = tempfile::tempdir().unwrap();
        let store = prepare(common::unpack, &fixtures, folder.path());
        put_rare_alleles(&store, &mut Random::new(seed), individuals);
        let both = Backends::new(common::session, partitions, 100).await;
        both.create("t", &store, None).await;
        let place = format!("{individuals} individuals");
        // So many components that the host has the matrix, too, from which they are found with the same bits.
        for call in [
            "grm(call_genotype)",
            "pca(call_genotype, 9)",
            "pca(call_genotype, 9, 'covariance')",
        ] {
            let sql = format!("SELECT {call} FROM t");
            both.same(&sql, &place).await;
            // After it has run, the plan shows where pairs were counted.
            let plan = texts(&both.gpu, &format!("EXPLAIN ANALYZE {sql}")).await;
            let plan = plan.concat().join("\n");
            let pairs = plan
                .lines()
                .find(|line| line.contains("PairsExec: mode=Single"));
            assert!(
                pairs.is_some_and(|pairs| pairs.contains("backend=gpu")),
                "{plan}"
            );
            let twice = "SELECT * FROM t UNION ALL SELECT * FROM t";
            both.same(&format!("SELECT {call} FROM ({twice})"), &place)
                .await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_of_calls() {
    if is_there().await {
        compare_filters(common::session, &common::fixtures()).await;
    }
}

/// Uncompressed chunks that cuFile reads into the device's memory, straight or not. Where there is no cuFile this says so;
/// with `VCZ_REQUIRE_CUFILE=1` that is a failure.
#[tokio::test(flavor = "multi_thread")]
async fn direct_storage() {
    if !is_there().await {
        return;
    }
    let ctx = common::session(1, 8192);
    let store = common::fixtures().join("sim.vcz.zip");
    common::create(&ctx, "t", &store, None).await;
    common::run(&ctx, "SET vcz.backend = 'gpu'").await;
    common::run(&ctx, "SET vcz.gpu_direct_storage = 'on'").await;
    let answer = ask(&ctx, "SELECT sfs(call_genotype) FROM t").await;
    if let Err(reason) = answer.batches {
        assert!(reason.contains("vcz.gpu_direct_storage = 'on'"), "{reason}");
        return cufile_was_not_tested(&reason);
    }
    let folder = tempfile::tempdir().unwrap();
    let layouts = common::fixtures().join("layouts");
    // cuFile does not take files of every file system; those it does not take are the host's.
    let plain = layouts.join("v2-uncompressed.vcz.zip");
    let plain = common::unpack(&plain, &folder.path().join("first"));
    common::create(&ctx, "plain", &plain, None).await;
    let answer = ask(&ctx, "SELECT sfs(call_genotype) FROM plain").await;
    if let Err(reason) = answer.batches {
        panic!("{reason}");
    }
    if answer.direct == 0 {
        let folder = folder.path().display();
        return cufile_was_not_tested(&format!(
            "it took no file of {folder}; another folder, such as TMPDIR=/dev/shm, may do"
        ));
    }
    compare_direct(common::session, common::unpack, &layouts, folder.path()).await;
}

/// Says so; a failure with `VCZ_REQUIRE_CUFILE=1`.
fn cufile_was_not_tested(reason: &str) {
    let required = std::env::var_os("VCZ_REQUIRE_CUFILE").is_some_and(|value| value == "1");
    assert!(!required, "{reason}");
    let said = writeln!(
        std::io::stderr(),
        "\nNOT RUN: reading files into a GPU's memory by cuFile was NOT tested here: {reason}\n"
    );
    said.unwrap();
}
