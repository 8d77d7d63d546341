//! Spectra that COPY writes as files. That other programs read them: `tests/python`.

use std::path::Path;

use crate::common::{create, fixtures, plain_session, run};

/// What COPY of `query` writes to `name`.
async fn written(query: &str, name: &str, options: &str) -> Vec<u8> {
    let ctx = plain_session();
    let populations = fixtures().join("sim.populations.tsv");
    let store = fixtures().join("sim.vcz.zip");
    create(&ctx, "sim", &store, Some(&populations)).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    let shown = path.display();
    run(&ctx, &format!("COPY ({query}) TO '{shown}' {options}")).await;
    std::fs::read(Path::new(&path)).unwrap()
}

async fn text(query: &str, name: &str, options: &str) -> String {
    String::from_utf8(written(query, name, options).await).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn names_and_folding_travel_with_the_spectrum() {
    let joint = "SELECT joint_sfs(call_genotype, 'first', 'second') FROM sim";
    let fs = text(joint, "joint.fs", "").await;
    let head = fs.lines().next().unwrap();
    assert!(head.ends_with(" unfolded \"first\" \"second\""), "{head}");
    assert_eq!(fs.lines().count(), 3);

    let folded = "SELECT sfs_folded(call_genotype, 'first') AS s FROM sim";
    let fs = text(folded, "one.fs", "").await;
    let (head, rest) = fs.split_once('\n').unwrap();
    let cells: usize = head.split(' ').next().unwrap().parse().unwrap();
    assert!(head.ends_with(" folded \"first\""), "{head}");
    assert_eq!(rest.lines().next().unwrap().split(' ').count(), cells);

    // Through a subquery, a projection and polarize.
    let deep = "SELECT s FROM (SELECT joint_sfs_folded(a, b) AS s FROM (SELECT allele_counts(call_genotype, 'second') AS a, \
                polarize(allele_counts(call_genotype, 'first'), variant_allele, variant_allele[1]) AS b FROM sim))";
    let head = text(deep, "joint.fs", "").await;
    assert!(head.starts_with(|c: char| c.is_ascii_digit()), "{head}");
    let head = head.lines().next().unwrap();
    assert!(head.ends_with(" folded \"second\" \"first\""), "{head}");
    let projected = "SELECT project_sfs_folded(call_genotype, 'first', 11) FROM sim";
    let head = text(projected, "x.fs", "").await;
    assert!(head.starts_with("12 folded \"first\"\n"), "{head}");

    // What is given is kept; a computed spectrum is not described.
    let options = "OPTIONS ('spectrum.populations' 'x,y')";
    let head = text(joint, "joint.fs", options).await;
    assert!(
        head.lines()
            .next()
            .unwrap()
            .ends_with("unfolded \"x\" \"y\"")
    );
    let computed = "SELECT array_reverse(sfs(call_genotype, 'first')) FROM sim";
    let head = text(computed, "x.fs", "").await;
    assert!(
        head.lines().next().unwrap().ends_with(" unfolded"),
        "{head}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn formats() {
    let query = "SELECT [10, 2, 3]";
    let obs = text(query, "x.obs", "OPTIONS ('spectrum.monomorphic' 99)").await;
    assert_eq!(obs, "1 observation\nd0_0\td0_1\td0_2\n99\t2\t3\n");
    let sfs = text(query, "x.sfs", "").await;
    assert_eq!(sfs, "#SHAPE=<3>\n10.000000 2.000000 3.000000\n");
    let sfs = text(
        query,
        "x",
        "STORED AS SFS OPTIONS ('spectrum.header' false)",
    )
    .await;
    assert_eq!(sfs, "10.000000 2.000000 3.000000\n");
    let npy = written(query, "x.npy", "").await;
    assert_eq!((&npy[..6], npy.len()), (&b"\x93NUMPY"[..], 128 + 24));
}
