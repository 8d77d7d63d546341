//! The built program from outside: arguments, tables named after stores, output, messages and exit codes of `vcz sql` and
//! `vcz inspect`. What queries compute is tested elsewhere.
#![cfg(feature = "cli")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

#[path = "it/unzip.rs"]
mod unzip;

/// A file of `tests/fixtures`.
fn fixture(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name);
    assert!(
        path.exists(),
        "THE FIXTURE {} IS MISSING: tests/fixtures/make_fixtures.py makes it",
        path.display()
    );
    path
}

fn vcz() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vcz"));
    // A home of its own: no start-up file of the person who runs the tests.
    command
        .env("HOME", env!("CARGO_TARGET_TMPDIR"))
        .env_remove("RUST_LOG")
        .stdin(Stdio::null());
    command
}

fn run<S: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = S>) -> Output {
    vcz().args(args).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Standard output of a run that must end well.
fn ok(output: Output) -> String {
    assert!(
        output.status.success(),
        "exit {:?}\n{}\n{}",
        output.status.code(),
        stdout(&output),
        stderr(&output)
    );
    stdout(&output)
}

/// Standard error of a run that must fail in an orderly way.
fn fails(output: Output) -> String {
    let message = stderr(&output);
    assert!(
        matches!(output.status.code(), Some(1 | 2)),
        "exit {:?}\n{message}",
        output.status.code()
    );
    assert!(!message.contains("panicked"), "{message}");
    message
}

fn csv(store: &str, sql: &str) -> String {
    let store = fixture(store);
    ok(run([
        "sql",
        store.to_str().unwrap(),
        "-q",
        "--format",
        "csv",
        "-c",
        sql,
    ]))
}

/// A copy of the store `from` of the fixtures at `to` in a folder of its own.
fn copied(folder: &tempfile::TempDir, from: &str, to: &str) -> String {
    let path = folder.path().join(to);
    fs::copy(fixture(from), &path).unwrap();
    path.to_str().unwrap().to_string()
}

#[test]
fn a_store_is_the_table_of_its_name() {
    assert_eq!(
        csv("sim.vcz.zip", "SELECT count(*) AS n FROM sim"),
        "n\n7402\n"
    );
    // Identifiers keep their case, with and without quotes.
    assert_eq!(
        csv(
            "sim.vcz.zip",
            "SELECT max(variant_position) AS Last FROM \"sim\""
        ),
        "Last\n299897\n"
    );
    let folder = tempfile::tempdir().unwrap();
    let dotted = copied(&folder, "sim.vcz.zip", "1kg.chr1.vcz.zip");
    let out = ok(run([
        "sql",
        &dotted,
        "-q",
        "--format",
        "csv",
        "-c",
        "SELECT count(*) AS n FROM \"1kg.chr1\"",
    ]));
    assert_eq!(out, "n\n7402\n");
    let out = ok(run([
        "sql",
        &dotted,
        "-q",
        "--format",
        "csv",
        "-c",
        "SELECT count(*) AS n FROM vcz_samples('1kg.chr1')",
    ]));
    assert_eq!(out, "n\n30\n");
}

#[test]
fn absent_chunks_of_genotypes_are_told_of_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = unzip::unpack(&fixture("sim.vcz.zip"), folder.path());
    let query = |level: &str, sql: &str| {
        let mut command = vcz();
        command.args(["sql", store.to_str().unwrap(), "-q", "--format", "csv"]);
        let output = command.args(["-c", sql]).env("RUST_LOG", level).output();
        let output = output.unwrap();
        let told = stderr(&output).matches("has no chunk").count();
        (ok(output), told)
    };
    let sfs = "SELECT array_to_string(sfs(call_genotype), ',') AS sfs FROM sim";
    let selected = "SELECT count(select_samples(call_genotype, ['s01', 's02'])) AS n FROM sim";
    let (whole, told) = query("info", sfs);
    assert_eq!(told, 0);
    for chunk in ["1.0.0", "2.0.0"] {
        fs::remove_file(store.join("call_genotype").join(chunk)).unwrap();
    }
    let (without, told) = query("info", sfs);
    assert!(whole != without && told == 1, "{told}");
    assert_eq!(query("info", selected).1, 1);
    // Chunks of zeros are left out by default: no reason to warn. What is not looked at is not told of.
    assert_eq!(query("warn", sfs), (without, 0));
    assert_eq!(query("info", "SELECT count(*) FROM sim").1, 0);
}

#[test]
fn several_stores_and_clashes() {
    let (sim, missing) = (fixture("sim.vcz.zip"), fixture("missing.vcz.zip"));
    let (sim, missing) = (sim.to_str().unwrap(), missing.to_str().unwrap());
    let both = "SELECT (SELECT count(*) FROM vcz_samples('sim')) > 0 AND (SELECT count(*) FROM vcz_samples('missing')) > 0 AS ok";
    assert_eq!(
        ok(run([
            "sql", sim, missing, "-q", "--format", "csv", "-c", both
        ])),
        "ok\ntrue\n"
    );
    let folder = tempfile::tempdir().unwrap();
    let other = copied(&folder, "missing.vcz.zip", "sim.zip");
    let message = fails(run(["sql", sim, &other, "-c", "SELECT 1"]));
    assert!(
        message.contains("would both be the table \"sim\"") && message.contains(&other),
        "{message}"
    );
    let message = fails(run(["sql", "no/such.vcz", "-c", "SELECT 1"]));
    assert!(
        message.contains("there is no store 'no/such.vcz'"),
        "{message}"
    );
    let not_a_store = folder.path().join("plain.vcz");
    fs::write(&not_a_store, "hello").unwrap();
    let message = fails(run([
        "sql",
        not_a_store.to_str().unwrap(),
        "-c",
        "SELECT 1",
    ]));
    assert!(message.contains("is not a VCZ store"), "{message}");
}

#[test]
fn several_stores_are_one_table() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["chunks_differ.vcz.zip", "contigs_order.vcz.zip"] {
        copied(&folder, name, name);
    }
    let folder = folder.path().to_str().unwrap();
    let (pattern, whole) = (format!("g={folder}/c*r.vcz.zip"), format!("g={folder}"));
    let (one, other) = (
        format!("g={folder}/chunks_differ.vcz.zip"),
        format!("g={folder}/contigs_order.vcz.zip"),
    );
    let sql = "SELECT count(*) AS n, count(DISTINCT variant_contig) AS contigs FROM g";
    for stores in [vec![&pattern], vec![&whole], vec![&one, &other]] {
        let mut args = vec!["sql", "-q", "--format", "csv", "-c", sql];
        args.extend(stores.iter().map(|store| store.as_str()));
        assert_eq!(ok(run(args)), "n,contigs\n2800,6\n");
    }
    let unnamed = pattern.trim_start_matches("g=");
    let message = fails(run(["sql", unnamed, "-c", "SELECT 1"]));
    assert!(message.contains("genome='"), "{message}");
    let text = ok(run(["inspect", unnamed]));
    assert!(
        text.contains("2 stores") && text.contains("chr10"),
        "{text}"
    );
    let none = format!("g={folder}/none*.vcz");
    let message = fails(run(["sql", &none, "-c", "SELECT 1"]));
    assert!(message.contains("matches nothing"), "{message}");
}

#[test]
fn a_vcf_is_named_as_one() {
    let folder = tempfile::tempdir().unwrap();
    let vcf = folder.path().join("in.vcf.gz");
    fs::write(&vcf, [0x1f, 0x8b, 8, 0]).unwrap();
    let message = fails(run(["sql", vcf.to_str().unwrap(), "-c", "SELECT 1"]));
    assert!(message.contains("vcf2zarr convert"), "{message}");
}

#[test]
fn a_path_in_sql() {
    let sim = fixture("sim.vcz.zip");
    let path = sim.to_str().unwrap();
    let sql = format!("SELECT count(*) AS n FROM '{path}'");
    assert_eq!(
        ok(run(["sql", "-q", "--format", "csv", "-c", &sql])),
        "n\n7402\n"
    );
    let sql = format!("SELECT count(*) AS n FROM vcz_contigs('{path}') WHERE variants > 0");
    assert_eq!(
        ok(run(["sql", "-q", "--format", "csv", "-c", &sql])),
        "n\n2\n"
    );
    // Locations are relative to the data folder.
    let folder = sim.parent().unwrap().to_str().unwrap();
    let sql = "SELECT count(*) AS n FROM 'sim.vcz.zip'";
    assert_eq!(
        ok(run([
            "sql", "-p", folder, "-q", "--format", "csv", "-c", sql
        ])),
        "n\n7402\n"
    );
}

#[test]
fn populations_on_the_command_line() {
    let (sim, tsv) = (fixture("sim.vcz.zip"), fixture("sim.populations.tsv"));
    let (sim, tsv) = (sim.to_str().unwrap(), tsv.to_str().unwrap());
    let sql = "SELECT population, samples, copies, array_length(sample_ids) AS ids FROM vcz_populations('sim')";
    let out = ok(run([
        "sql",
        sim,
        "--populations",
        tsv,
        "-q",
        "--format",
        "csv",
        "-c",
        sql,
    ]));
    assert_eq!(
        out,
        "population,samples,copies,ids\nfirst,16,32,16\nsecond,14,28,14\n"
    );
    let sql = "SELECT sfs(call_genotype, 'first')[1:3] AS s FROM sim";
    let out = ok(run([
        "sql",
        sim,
        "--populations",
        tsv,
        "-q",
        "--format",
        "json",
        "-c",
        sql,
    ]));
    assert_eq!(
        serde_json::from_str::<Value>(&out).unwrap(),
        serde_json::json!([{"s": [1742, 997, 468]}])
    );

    let message = fails(run(["sql", "--populations", tsv, "-c", "SELECT 1"]));
    assert!(message.contains("OPTIONS ('vcz.populations'"), "{message}");
    let message = fails(run([
        "sql",
        sim,
        "--populations",
        "nowhere.tsv",
        "-c",
        "SELECT 1",
    ]));
    assert!(
        message.contains("there is no populations file 'nowhere.tsv'"),
        "{message}"
    );
    let folder = tempfile::tempdir().unwrap();
    let bad = folder.path().join("bad.tsv");
    fs::write(&bad, "sample_id\tpopulation\nnobody\tfirst\n").unwrap();
    let message = fails(run([
        "sql",
        sim,
        "--populations",
        bad.to_str().unwrap(),
        "-c",
        "SELECT 1",
    ]));
    assert!(
        message.contains("line 2") && message.contains("nobody"),
        "{message}"
    );
}

#[test]
fn populations_with_columns_of_other_names() {
    let sim = fixture("sim.vcz.zip");
    let sim = sim.to_str().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let meta = folder.path().join("meta.csv");
    let panel = fs::read_to_string(fixture("sim.populations.tsv")).unwrap();
    let mut rows = vec!["IID,Pop,sex".to_string()];
    for (at, line) in panel.lines().skip(1).enumerate() {
        let (id, population) = line.split_once('\t').unwrap();
        let sex = ["F", "M"][at % 2];
        rows.push(format!("{id},{population},{sex}"));
    }
    fs::write(&meta, rows.join("\n")).unwrap();
    let meta = meta.to_str().unwrap();
    let of = |populations: &str, sql: &str| {
        run([
            "sql",
            sim,
            "--populations",
            populations,
            "-q",
            "--format",
            "csv",
            "-c",
            sql,
        ])
    };
    let spectrum = "SELECT sfs(call_genotype, 'first')[1:3] AS s FROM sim";
    let named = format!("{meta}:IID,Pop");
    assert_eq!(ok(of(&named, spectrum)), "s\n\"[1742,997,468]\"\n");
    let cohort = "SELECT count(*) AS n FROM vcz_samples('sim') WHERE attributes['sex'] = 'F' AND array_has(populations, 'first')";
    assert_eq!(ok(of(&named, cohort)), "n\n8\n");
    // Two cohorts in one SELECT.
    let cohort = |sex: &str| {
        format!(
            "(SELECT array_agg(sample_id) FROM vcz_samples('sim') WHERE attributes['sex'] = '{sex}')"
        )
    };
    let sql = format!(
        "SELECT array_length(sfs(call_genotype, {})) AS f, array_length(sfs(call_genotype, {})) AS m FROM sim",
        cohort("F"),
        cohort("M")
    );
    assert_eq!(ok(of(&named, &sql)), "f,m\n31,31\n");
    let message = fails(of(&format!("{meta}:IID,region"), spectrum));
    assert!(
        message.contains("no column 'region'; its columns are 'IID', 'Pop', 'sex'"),
        "{message}"
    );

    // From a query.
    let create = |columns: &str| {
        format!(
            "CREATE EXTERNAL TABLE t STORED AS VCZ LOCATION '{sim}' \
             OPTIONS ('vcz.populations' 'SELECT {columns} FROM ''{meta}''')"
        )
    };
    let ask = "SELECT sfs(call_genotype, 'first')[1:3] AS s FROM t";
    let query = create(r#""IID", "Pop", sex"#);
    let out = ok(run([
        "sql", "-q", "--format", "csv", "-c", &query, "-c", ask,
    ]));
    assert_eq!(out, "s\n\"[1742,997,468]\"\n");
    let message = fails(run(["sql", "-c", &create(r#""IID""#)]));
    assert!(
        message.contains("a query of sample ids and populations"),
        "{message}"
    );
}

#[test]
fn what_is_left_out_is_said() {
    let missing = fixture("missing.vcz.zip");
    let missing = missing.to_str().unwrap();
    let notes = |sql: &str| {
        let output = run(["sql", missing, "-q", "-c", sql]);
        let text = stderr(&output);
        ok(output);
        text
    };
    let sites = "Note: sfs of 48 copies left out 450 of 571 sites: not all copies are called";
    for sql in [
        "SELECT sfs(call_genotype) FROM missing",
        "SELECT variant_contig, genome_bin(variant_position, 1000), sfs(call_genotype) FROM missing GROUP BY 1, 2",
        // Each site is counted once, also where windows overlap.
        "SELECT w, sfs(call_genotype) FROM (SELECT unnest(genome_bins(variant_position, 1000, 500)) AS w, * FROM missing) GROUP BY w",
    ] {
        assert!(notes(sql).contains(sites), "{sql}: {}", notes(sql));
    }
    let pair = "SELECT joint_sfs(call_genotype, (SELECT [min(sample_id)] FROM vcz_samples('missing')), \
                (SELECT [max(sample_id)] FROM vcz_samples('missing'))) FROM missing";
    let joint = notes(pair);
    assert!(
        joint.contains("joint_sfs of 2 and 2 copies left out"),
        "{joint}"
    );
    for (sql, said) in [
        (
            "SELECT project_sfs(call_genotype, 40) FROM missing",
            "Note: project_sfs to 40 copies left out 17 of 571 sites: fewer copies are called there; a projection to fewer",
        ),
        (
            "SELECT project_joint_sfs_folded(call_genotype, ['s00', 's01'], ['s02'], 4, 2) FROM missing",
            "project_joint_sfs_folded to 4 and 2 copies left out",
        ),
    ] {
        assert!(notes(sql).contains(said), "{sql}: {}", notes(sql));
    }
    for complete in [
        "SELECT project_sfs(call_genotype, 10) FROM missing WHERE allele_number(allele_counts(call_genotype)) > 0",
        "SELECT sfs(ac) FROM (SELECT allele_counts(call_genotype) AS ac FROM missing) WHERE is_complete(ac)",
        "SELECT diversity(call_genotype) FROM missing",
    ] {
        assert_eq!(notes(complete), "", "{complete}");
    }
    let contig = notes("SELECT count(*) FROM missing WHERE variant_contig IN ('chrUn', 'none')");
    assert!(
        contig.contains("has no contig 'chrUn', so no row matches it"),
        "{contig}"
    );
    assert!(contig.contains("has no contig 'none'"), "{contig}");
    let sql = "SELECT count(*) FROM missing GROUP BY genome_bins(variant_position, 1000, 500)";
    let lists = notes(sql);
    assert!(
        lists.contains("makes a group of each list of windows"),
        "{lists}"
    );
}

#[test]
fn contigs_that_match_nothing_are_said() {
    let folder = tempfile::tempdir().unwrap();
    let stores = ["sim.vcz.zip", "missing.vcz.zip", "contigs_order.vcz.zip"];
    let stores = stores.map(|name| copied(&folder, name, name));
    let genes = folder.path().join("genes.bed");
    fs::write(&genes, "1\t0\t90000\tg1\n2\t0\t90000\tg2\n").unwrap();
    let genes = genes.to_str().unwrap();
    let notes = |sql: &str| {
        let mut args = vec!["sql", "-q", "-c", sql];
        args.extend(stores.iter().map(String::as_str));
        let output = run(args);
        let text = stderr(&output);
        ok(output);
        text
    };
    let without = notes("SELECT count(*) FROM contigs_order WHERE variant_contig = 'chrUn'");
    assert!(
        without.contains("names the contig 'chrUn', but has no variants on it, so no row matches it; its variants are on 'chr10'"),
        "{without}"
    );
    let joined = "a.variant_contig = b.variant_contig AND a.variant_position = b.variant_position";
    for (sql, said) in [
        (
            format!("SELECT count(*) FROM sim a JOIN missing b ON {joined}"),
            "'sim' and 'missing' have no contig in common, so the join on contigs matches no row: 'chr1', 'chr2' and '1', 'X'; the same \
             contigs have other names there",
        ),
        (
            "SELECT count(*) FROM sim WHERE variant_contig IN (SELECT upper(variant_contig) AS c FROM missing) OR false".to_string(),
            "",
        ),
        (
            "SELECT count(*) FROM sim WHERE variant_contig IN (SELECT variant_contig FROM missing GROUP BY 1)".to_string(),
            "'sim' and 'missing' have no contig in common",
        ),
        (
            format!(
                "SELECT name, count(*) FROM (SELECT variant_contig AS c, variant_position AS p FROM sim) JOIN '{genes}' AS g \
                 ON c = contig AND p > start AND p <= \"end\" GROUP BY 1"
            ),
            "have no contig in common, so the join on contigs matches no row: 'chr1', 'chr2' and '1', '2'",
        ),
        (
            format!(
                "SELECT name, count(*) FROM missing JOIN '{genes}' AS g ON variant_contig = contig AND variant_position > start AND \
                 variant_position <= \"end\" GROUP BY 1"
            ),
            "",
        ),
        (
            format!("SELECT count(*) FROM sim a JOIN contigs_order b ON {joined}"),
            "",
        ),
        (
            "SELECT count(*) FROM sim a JOIN missing b ON replace(a.variant_contig, 'chr', '') = b.variant_contig".to_string(),
            "",
        ),
    ] {
        let text = notes(&sql);
        assert!(text.contains(said), "{sql}: {text}");
        // Each once.
        assert_eq!(text.lines().count(), usize::from(!said.is_empty()), "{sql}: {text}");
    }
}

#[test]
fn columns_that_are_something_else() {
    let (sim, tsv) = (fixture("sim.vcz.zip"), fixture("sim.populations.tsv"));
    let (sim, tsv) = (sim.to_str().unwrap(), tsv.to_str().unwrap());
    let quoted = "SELECT sfs(call_genotype, \"first\") FROM sim AS s";
    let message = fails(run(["sql", sim, "--populations", tsv, "-c", quoted]));
    assert!(
        message.contains("'first' is a population: write it in single quotes, 'first'"),
        "{message}"
    );
    let message = fails(run(["sql", sim, "-c", quoted]));
    assert!(!message.contains("single quotes"), "{message}");

    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("sites.vcz");
    fs::rename(
        unzip::unpack(&fixture("formats.vcz.zip"), folder.path()),
        &store,
    )
    .unwrap();
    for entry in fs::read_dir(&store).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if name.starts_with("call_") {
            fs::remove_dir_all(&path).unwrap();
        } else if name == ".zmetadata" {
            fs::remove_file(&path).unwrap();
        }
    }
    let store = store.to_str().unwrap();
    let message = fails(run([
        "sql",
        store,
        "-c",
        "SELECT diversity(call_genotype) FROM sites",
    ]));
    assert!(
        message.contains("has no genotypes (array 'call_genotype'): its columns of sites"),
        "{message}"
    );
    let sql = "SELECT count(*) AS n FROM sites";
    assert_eq!(
        ok(run(["sql", "-q", "--format", "csv", store, "-c", sql])),
        "n\n150\n"
    );
}

#[test]
fn commands_of_the_prompt() {
    let text = ok(run(["sql", "-c", "\\h sfs", "-c", "SELECT 1 AS one"]));
    assert!(
        text.contains("sfs(ac [, n])") && text.contains("one"),
        "{text}"
    );
    let text = ok(run(["sql", "-c", "\\h genome_windows"]));
    for expected in [
        "genome_windows(table, size [, step [, mask]])",
        "window_start and window_stop, 1-based and inclusive",
        "mask: A BED file",
        "SELECT contig, window_start",
    ] {
        assert!(text.contains(expected), "{text}");
    }
    let text = ok(run(["sql", "-c", "\\h abs"]));
    assert!(text.contains("> SELECT abs(-5);"), "{text}");
    assert!(!text.contains("```"), "{text}");
    let text = ok(run(["sql", "-c", "\\h pi"]));
    assert!(text.contains("Here 'pi' is diversity"), "{text}");
    let sim = fixture("sim.vcz.zip");
    let sim = sim.to_str().unwrap();
    let message = fails(run(["sql", sim, "-c", "SELECT CHROM FROM sim"]));
    assert!(
        message.contains("VCF's CHROM is variant_contig"),
        "{message}"
    );
    let text = ok(run(["sql", "-c", " \\h "]));
    assert!(text.contains("tajimas_d"), "{text}");
    let text = ok(run(["sql", "-c", "\\q", "-c", "SELECT nothing"]));
    assert_eq!(text, "");
    for (command, said) in [
        ("\\h nothing", "there is no function 'nothing'"),
        ("\\h fst", "Here 'fst' is fst_hudson"),
        ("\\h dxy", "Here 'dxy' is divergence"),
        ("\\h af", "Here 'af' is allele_frequencies"),
        (
            "CREATE EXTERNAL TABLE t STORED AS GFF LOCATION 'a.gff'",
            "write STORED AS GFF3",
        ),
        (
            "SELECT count(*) FROM 'none.gff3'",
            "no table and no file 'none.gff3'",
        ),
        ("\\nonsense", "is not a command"),
    ] {
        let message = fails(run(["sql", "-c", command, "-c", "SELECT 1"]));
        assert!(message.contains(said), "{message}");
    }
}

#[test]
fn one_populations_file_of_several_stores() {
    let folder = tempfile::tempdir().unwrap();
    // 30 samples, and 24 of the same names.
    let sim = copied(&folder, "sim.vcz.zip", "a.vcz.zip");
    let missing = copied(&folder, "missing.vcz.zip", "b.vcz.zip");
    let tsv = fixture("sim.populations.tsv");
    let tsv = tsv.to_str().unwrap();
    let sql = "SELECT (SELECT sum(samples) FROM vcz_populations('a')) AS a, (SELECT sum(samples) FROM vcz_populations('b')) AS b";
    let with = |file: &str| {
        run([
            "sql",
            "-q",
            "--format",
            "csv",
            &sim,
            &missing,
            "--populations",
            file,
            "-c",
            sql,
        ])
    };
    assert_eq!(ok(with(tsv)), "a,b\n30,24\n");
    // A sample that none of them has is still an error; so is one that the only store does not have, unless an option says otherwise.
    let more = folder.path().join("more.tsv");
    let text = fs::read_to_string(tsv).unwrap();
    fs::write(&more, text + "nobody\tfirst\nno_one\tfirst\n").unwrap();
    let more = more.to_str().unwrap();
    let message = fails(with(more));
    assert!(
        message.contains("none of the stores has the sample 'no_one', and 1 more"),
        "{message}"
    );
    let message = fails(run(["sql", &sim, "--populations", more, "-c", "SELECT 1"]));
    assert!(
        message.contains("line 32")
            && message.contains("set the option 'vcz.unknown_samples' to 'ignore'"),
        "{message}"
    );
    let one = |value: &str| {
        let option = format!("vcz.unknown_samples={value}");
        let sql = "SELECT sum(samples) AS n FROM vcz_populations('a')";
        run([
            "sql",
            "-q",
            "--format",
            "csv",
            &sim,
            "--populations",
            more,
            "-o",
            &option,
            "-c",
            sql,
        ])
    };
    assert_eq!(ok(one("ignore")), "n\n30\n");
    assert!(fails(one("some")).contains("must be 'error' or 'ignore'"));
}

#[test]
fn formats_hold_lists_and_nulls() {
    let print = |format: &str, sql: &str| ok(run(["sql", "-q", "--format", format, "-c", sql]));
    let sql = "SELECT [1, NULL] AS a, NULL AS b, named_struct('h', 2) AS c";
    assert_eq!(
        print("csv", sql),
        "a,b,c\n\"[1,null]\",,\"{\"\"h\"\":2}\"\n"
    );
    assert_eq!(print("tsv", sql).lines().next(), Some("a\tb\tc"));
    let expected = serde_json::json!({"a": [1, null], "b": null, "c": {"h": 2}});
    let parse = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    assert_eq!(parse(&print("json", sql)), serde_json::json!([expected]));
    assert_eq!(parse(&print("nd-json", sql)), expected);
    // The number of rows and the time are not part of the data.
    let output = run(["sql", "--format", "csv", "-c", "SELECT 1 AS a"]);
    assert!(stderr(&output).contains("1 row(s) fetched"));
    assert_eq!(ok(output), "a\n1\n");
    // No rows are still names, or an empty list.
    let empty = "SELECT 1 AS a WHERE false";
    assert_eq!(print("csv", empty), "a\n");
    assert_eq!(print("json", empty), "[]\n");

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("out.csv");
    let path = file.to_str().unwrap();
    let copy = format!("COPY (SELECT [1, 2] AS a, 3 AS b) TO '{path}'");
    ok(run(["sql", "-q", "-c", &copy]));
    assert_eq!(fs::read_to_string(&file).unwrap(), "a,b\n\"[1,2]\",3\n");
    // Tab-separated, and compressed as the ending says; both can be read back.
    let tsv = folder.path().join("out.tsv");
    let copy = format!("COPY (SELECT [1, 2] AS a, 3 AS b) TO '{}'", tsv.display());
    ok(run(["sql", "-q", "-c", &copy]));
    assert_eq!(fs::read_to_string(&tsv).unwrap(), "a\tb\n[1,2]\t3\n");
    let read = format!(
        "CREATE EXTERNAL TABLE t STORED AS TSV LOCATION '{}'",
        tsv.display()
    );
    let by_name = format!("SELECT b FROM '{}'", tsv.display());
    let out = ok(run([
        "sql",
        "-q",
        "--format",
        "csv",
        "-c",
        &read,
        "-c",
        "SELECT b FROM t",
        "-c",
        &by_name,
    ]));
    assert_eq!(out, "b\n3\nb\n3\n");
    let gz = folder.path().join("out.csv.gz");
    let copy = format!("COPY (SELECT 7 AS a) TO '{}' STORED AS CSV", gz.display());
    ok(run(["sql", "-q", "-c", &copy]));
    assert_eq!(&fs::read(&gz).unwrap()[..2], b"\x1f\x8b");
    let read = format!(
        "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '{}' OPTIONS ('format.compression' 'gzip')",
        gz.display()
    );
    let out = ok(run([
        "sql",
        "-q",
        "--format",
        "csv",
        "-c",
        &read,
        "-c",
        "SELECT a FROM t",
    ]));
    assert_eq!(out, "a\n7\n");
    // A failed COPY leaves no file, and none that was there is taken away.
    let bad = folder.path().join("bad.csv");
    let sql = |path: &Path| {
        format!(
            "COPY (SELECT 1 / (5 - value) FROM range(10)) TO '{}'",
            path.display()
        )
    };
    fails(run(["sql", "-q", "-c", &sql(&bad)]));
    assert!(!bad.exists());
    fails(run(["sql", "-q", "-c", &sql(&file)]));
    assert!(file.exists());
}

/// JSON with the keys of NULL, options of spectra, and targets that COPY must not replace.
#[test]
fn copies_have_what_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let copied = |query: &str, name: &str, options: &str| {
        let file = folder.path().join(name);
        let copy = format!("COPY ({query}) TO '{}' {options}", file.display());
        ok(run(["sql", "-q", "-c", &copy]));
        fs::read_to_string(&file).unwrap()
    };
    let nulls = "SELECT 1 AS a, CAST(NULL AS INT) AS b, [NULL, 2] AS c";
    assert_eq!(
        copied(nulls, "n.json", ""),
        "{\"a\":1,\"b\":null,\"c\":[null,2]}\n"
    );
    let spectrum = "SELECT [10, 2, 3]";
    for quoted in ["'false'", "false"] {
        let options = format!("STORED AS SFS OPTIONS ('spectrum.header' {quoted})");
        assert_eq!(
            copied(spectrum, "x", &options),
            "10.000000 2.000000 3.000000\n"
        );
    }
    let named = copied(spectrum, "x.fs", "OPTIONS ('spectrum.populations' 'here')");
    assert!(named.starts_with("3 unfolded \"here\"\n"), "{named}");
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let below = file.join("x.csv");
    let told = fails(run([
        "sql",
        "-q",
        "-c",
        &format!("COPY (SELECT 1 AS a) TO '{}'", below.display()),
    ]));
    assert!(
        told.contains("x.csv' cannot be written: Not a directory"),
        "{told}"
    );
    #[cfg(target_os = "linux")]
    for (target, expected) in [
        (
            "/dev/full",
            "is not a regular file, and COPY replaces what is there",
        ),
        ("/proc/x.csv", "cannot be written"),
    ] {
        for format in ["CSV", "NPY"] {
            let copy = format!("COPY (SELECT [1, 2] AS a) TO '{target}' STORED AS {format}");
            let told = fails(run(["sql", "-q", "-c", &copy]));
            assert!(told.contains(&format!("'{target}' {expected}")), "{told}");
        }
    }
}

/// Parameters without types keep their values: a number with a fraction is not cut to the integer that it is compared with.
#[test]
fn parameters_keep_their_values() {
    let out = ok(run([
        "sql",
        "-q",
        "--format",
        "csv",
        "-c",
        "PREPARE p AS SELECT count(*) AS n FROM range(10) WHERE value >= $1",
        "-c",
        "EXECUTE p(1.5)",
        "-c",
        "EXECUTE p(1)",
        "-c",
        "PREPARE two AS SELECT count(*) AS n FROM range(10) WHERE value >= $1 AND concat($2, 'x') = 'ax'",
        "-c",
        "EXECUTE two(8, 'a')",
    ]));
    assert_eq!(out, "n\n8\nn\n9\nn\n2\n");
}

#[cfg(unix)]
#[test]
fn a_closed_pipe_is_a_good_end() {
    for format in ["csv", "table", "json"] {
        let mut child = vcz()
            .args(["sql", "--maxrows", "inf", "--format", format, "-c"])
            .arg("SELECT * FROM range(3000000)")
            .arg("-c")
            .arg("SELECT 'not reached'")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Closed before anything is read.
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{format}: {output:?}");
        assert_eq!(stderr(&output), "", "{format}");
    }
}

#[test]
fn errors_in_sql_end_badly() {
    let message = fails(run([
        "sql",
        "-q",
        "-c",
        "SELECT 1",
        "-c",
        "SELECT FROM WHERE",
        "-c",
        "SELECT 2",
    ]));
    assert!(message.contains("Error"), "{message}");
    let message = fails(run(["sql", "-c", "SELECT * FROM nothing"]));
    assert!(message.contains("nothing"), "{message}");
    let message = fails(run(["sql", "-c", "SELECT * FROM 'none.parquet'"]));
    assert!(
        message.contains("no table and no file 'none.parquet'"),
        "{message}"
    );

    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script.sql");
    fs::write(&script, "#!/usr/bin/env -S vcz sql -f\nSELECT 1 AS a;\n-- a comment; not a statement\nSELECT 'x;y' AS b;\n").unwrap();
    let path = script.to_str().unwrap();
    assert_eq!(
        ok(run(["sql", "-q", "--format", "csv", "-f", path])),
        "a\n1\nb\nx;y\n"
    );
    fs::write(&script, "SELECT 1 AS a;\nSELECT nothing;\nSELECT 2 AS b;\n").unwrap();
    let output = run(["sql", "-q", "--format", "csv", "-f", path]);
    // What was before the error was run, what is after it was not.
    assert_eq!(stdout(&output), "a\n1\n");
    let message = fails(output);
    assert!(
        message.contains("script.sql") && message.contains("nothing"),
        "{message}"
    );
    let message = fails(run(["sql", "-f", "no/such.sql"]));
    assert!(message.contains("there is no such file"), "{message}");
}

/// Runs `vcz` with `arguments` and `sql` on its standard input.
fn piped(arguments: &[&str], sql: &str) -> Output {
    let mut child = vcz()
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(sql.as_bytes())
        .unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn sql_from_standard_input() {
    let csv = ["sql", "-q", "--format", "csv"];
    let file = [&csv[..], &["-f", "/dev/stdin"]].concat();
    assert_eq!(ok(piped(&file, "SELECT 1 AS a;\n")), "a\n1\n");
    assert_eq!(ok(piped(&csv, "SELECT 1 AS a;\n")), "a\n1\n");
    // A last statement without its semicolon runs, and an error stops the script.
    assert_eq!(ok(piped(&csv, "SELECT 3 AS c")), "c\n3\n");
    let broken = piped(&csv, "SELECT 1 AS a;\nSELECT nothing;\nSELECT 2 AS b;\n");
    assert!(!stdout(&broken).contains('b'), "{}", stdout(&broken));
    assert!(fails(broken).contains("standard input"));
}

#[test]
fn other_formats_print_every_row() {
    let out = ok(run([
        "sql",
        "-q",
        "-b",
        "100",
        "--format",
        "csv",
        "-c",
        "SELECT * FROM range(1, 1001)",
    ]));
    assert_eq!(out.lines().count(), 1001);
    let out = ok(run([
        "sql",
        "--maxrows",
        "5",
        "-c",
        "SELECT * FROM range(1, 1001)",
    ]));
    assert!(out.contains("First 5 displayed"), "{out}");
}

#[test]
fn settings_of_the_session() {
    let value = |name: &str| {
        format!("SELECT value FROM information_schema.df_settings WHERE name = '{name}'")
    };
    for (name, expected) in [
        ("datafusion.sql_parser.enable_ident_normalization", "false"),
        ("datafusion.execution.parquet.skip_metadata", "false"),
        ("datafusion.explain.format", "tree"),
        ("datafusion.execution.batch_size", "77"),
        ("vcz.backend", "auto"),
    ] {
        let out = ok(run([
            "sql",
            "-q",
            "-b",
            "77",
            "--format",
            "csv",
            "-c",
            &value(name),
        ]));
        assert_eq!(out, format!("value\n{expected}\n"), "{name}");
    }
    let message = fails(run(["sql", "-c", "SET vcz.nonsense = 1"]));
    assert!(message.contains("vcz.backend"), "{message}");
    let sim = fixture("sim.vcz.zip");
    let message = fails(run([
        "sql",
        sim.to_str().unwrap(),
        "-m",
        "1000",
        "-c",
        "SELECT sfs(call_genotype) FROM sim",
    ]));
    assert!(message.contains("Resources exhausted"), "{message}");
}

#[test]
fn copies_of_counts_survive_parquet() {
    let folder = tempfile::tempdir().unwrap();
    let sim = fixture("sim.vcz.zip");
    let file = folder.path().join("counts.parquet");
    let export = format!(
        "COPY (SELECT allele_counts(call_genotype) AS ac FROM sim) TO '{}'",
        file.display()
    );
    let query = format!("SELECT sfs(ac)[1:2] AS s FROM '{}'", file.display());
    let out = ok(run([
        "sql",
        sim.to_str().unwrap(),
        "-q",
        "--format",
        "json",
        "-c",
        &export,
        "-c",
        &query,
    ]));
    assert!(out.contains("[2,1703]"), "{out}");
}

/// Genotypes of one store in Parquet, read by another process in which another store was registered first.
#[test]
fn genotypes_in_parquet_meet_no_other_stores_samples() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("genotypes.parquet");
    let table = |name: &str| {
        let (store, populations) = (
            fixture(&format!("{name}.vcz.zip")),
            fixture(&format!("{name}.populations.tsv")),
        );
        [
            store.display().to_string(),
            "--populations".to_string(),
            populations.display().to_string(),
        ]
    };
    let vcz = |store: &str, sql: &str| {
        let mut arguments = vec!["sql".to_string()];
        arguments.extend(table(store));
        arguments.extend(["-q", "--format", "json", "-c", sql].map(String::from));
        run(arguments.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let export = format!(
        "COPY (SELECT variant_idx, call_genotype FROM (SELECT row_number() OVER () AS variant_idx, call_genotype FROM sim)) TO '{}'",
        file.display()
    );
    ok(vcz("sim", &export));
    let from_file = |call: &str| format!("SELECT {call} AS s FROM '{}'", file.display());
    let expected = ok(vcz("sim", "SELECT sfs(call_genotype) AS s FROM sim"));
    for other in ["chunks7", "haploid", "tetraploid"] {
        assert_eq!(
            ok(vcz(other, &from_file("sfs(call_genotype)"))),
            expected,
            "{other}"
        );
        for call in [
            "sfs(call_genotype, 'first')",
            "allele_counts(call_genotype, 'first')",
            "select_samples(call_genotype, 'first')",
        ] {
            let message = fails(vcz(other, &from_file(call)));
            assert!(
                message.contains("Count in the query that reads the VCZ table"),
                "{other}: {message}"
            );
        }
    }
}

#[test]
fn metadata_functions() {
    let samples = csv(
        "sim.vcz.zip",
        "SELECT sample_index, sample_id FROM vcz_samples('sim') LIMIT 2",
    );
    assert_eq!(samples, "sample_index,sample_id\n0,s00\n1,s01\n");
    let lists = csv(
        "sim.vcz.zip",
        "SELECT sum(array_length(populations)) AS memberships FROM vcz_samples('sim')",
    );
    assert_eq!(lists, "memberships\n0\n");
    let contigs = csv(
        "sim.vcz.zip",
        "SELECT variants, contig FROM vcz_contigs('sim') ORDER BY contig",
    );
    assert_eq!(contigs, "variants,contig\n4389,chr1\n3013,chr2\n");
    let length = csv(
        "sim.vcz.zip",
        "SELECT sum(length) AS bases FROM vcz_contigs('sim')",
    );
    assert_eq!(length, "bases\n575000\n");
    let array = csv(
        "sim.vcz.zip",
        "SELECT dtype, shape[1] AS v, chunks[1] AS c, dims[1] AS d, decoded_bytes, stored_bytes BETWEEN 1 AND 86861 AS stored, \
         backend, reason FROM vcz_arrays('sim') WHERE name = 'call_genotype'",
    );
    let rows: Vec<&str> = array.lines().collect();
    // The backend and its reason depend on the machine.
    assert!(
        rows[1].starts_with("int8,7402,1000,variants,444120,true,host,no ")
            || rows[1].starts_with("int8,7402,1000,variants,444120,true,host,\"")
            || rows[1].starts_with("int8,7402,1000,variants,444120,true,gpu,"),
        "{}",
        rows[1]
    );
    assert_eq!(
        csv("sim.vcz.zip", "SELECT count(*) AS n FROM vcz_arrays('sim')"),
        "n\n18\n"
    );
    // No index: the contigs' variants are unknown before the positions were read.
    let unknown = csv(
        "chunks_differ.vcz.zip",
        "SELECT DISTINCT variants IS NULL AS unknown FROM vcz_contigs('chunks_differ')",
    );
    assert_eq!(unknown, "unknown\ntrue\n");
}

#[test]
fn metadata_functions_refuse() {
    let sim = fixture("sim.vcz.zip");
    let refused = |sql: &str| fails(run(["sql", sim.to_str().unwrap(), "-c", sql]));
    for (sql, expected) in [
        ("SELECT * FROM vcz_samples('nothing')", "no table 'nothing'"),
        (
            "CREATE VIEW v AS SELECT 1 AS a; SELECT * FROM vcz_samples('v')",
            "'v' is not a VCZ table",
        ),
        ("SELECT * FROM vcz_samples()", "argument 1 must be"),
        ("SELECT * FROM vcz_samples(7)", "argument 1 must be"),
        ("SELECT * FROM vcz_samples(NULL)", "found NULL"),
        (
            "SELECT * FROM vcz_samples('sim', 'sim')",
            "takes one argument",
        ),
    ] {
        let message = refused(sql);
        assert!(message.contains(expected), "{sql}\n{message}");
    }
}

#[test]
fn names_in_metadata_functions() {
    let sim = fixture("sim.vcz.zip");
    let count = |sql: &str| {
        ok(run([
            "sql",
            sim.to_str().unwrap(),
            "-q",
            "--format",
            "csv",
            "-c",
            sql,
        ]))
    };
    for name in [
        "'sim'",
        "'\"sim\"'",
        "'public.sim'",
        "'datafusion.public.sim'",
        "\"sim\"",
        "sim",
    ] {
        assert_eq!(
            count(&format!("SELECT count(*) AS n FROM vcz_samples({name})")),
            "n\n30\n",
            "{name}"
        );
    }
}

/// Starting a GPU loads libraries of hundreds of megabytes. Where there is none, the log says so once one was looked for.
#[cfg(feature = "gpu")]
#[test]
fn no_gpu_is_looked_for_where_the_host_was_chosen_first() {
    let store = fixture("sim.vcz.zip");
    let store = store.to_str().unwrap();
    let log = |arguments: &[&str]| {
        let mut command = vcz();
        let logged = command.env("RUST_LOG", "datafusion_vcz=debug");
        let output = logged.args(arguments).output().unwrap();
        let said = stderr(&output);
        ok(output);
        said
    };
    let looked = "no GPU: ";
    if !log(&["inspect", store]).contains(looked) {
        eprintln!(
            "NOT RUN: there is a GPU here, so the log does not say whether one was looked for"
        );
        return;
    }
    let create = format!("CREATE EXTERNAL TABLE t STORED AS VCZ LOCATION '{store}'");
    let (host, query) = (
        "SET vcz.backend = 'host'",
        "SELECT sfs(call_genotype) FROM t",
    );
    let said = log(&["sql", "-q", "-c", host, "-c", &create, "-c", query]);
    assert!(!said.contains(looked), "{said}");
}

#[test]
fn inspect_as_json() {
    let (sim, tsv) = (fixture("sim.v3.vcz.zip"), fixture("sim.populations.tsv"));
    let args = [
        "inspect",
        sim.to_str().unwrap(),
        "--format",
        "json",
        "--populations",
        tsv.to_str().unwrap(),
    ];
    let report: Value = serde_json::from_str(&ok(run(args))).unwrap();
    assert_eq!(report["location"], sim.to_str().unwrap());
    assert_eq!(
        (&report["zarr_format"], &report["variants"]),
        (&Value::from(3), &Value::from(7402))
    );
    assert_eq!(
        (&report["samples"], &report["ploidy"]),
        (&Value::from(30), &Value::from(2))
    );
    assert!(report["source"].as_str().unwrap().starts_with("bio2zarr"));
    assert_eq!(report["contigs"][0]["name"], "chr1");
    assert_eq!(report["contigs"][1]["variants"], 3013);
    assert_eq!(report["populations"][0]["copies"], 32);
    assert_eq!(report["sample_ids"].as_array().unwrap().len(), 30);
    let arrays = report["arrays"].as_array().unwrap();
    let genotypes = arrays
        .iter()
        .find(|array| array["name"] == "call_genotype")
        .unwrap();
    assert_eq!(genotypes["shape"], serde_json::json!([7402, 30, 2]));
    assert_eq!(genotypes["decoded_bytes"], 444_120);
    assert_eq!(genotypes["backend"], "host");
    assert!(genotypes["stored_bytes"].as_u64().unwrap() > 0);
    for key in ["dimensions", "chunks", "dtype", "codecs", "reason"] {
        assert!(!genotypes[key].is_null(), "{key}");
    }
}

#[test]
fn inspect_several() {
    let (sim, missing) = (fixture("sim.vcz.zip"), fixture("missing.vcz.zip"));
    let paths = [sim.to_str().unwrap(), missing.to_str().unwrap()];
    let out = ok(run(["inspect", paths[0], paths[1], "--format", "json"]));
    let reports: Value = serde_json::from_str(&out).unwrap();
    let reports = reports.as_array().unwrap();
    let locations: Vec<_> = reports.iter().map(|report| &report["location"]).collect();
    assert_eq!(locations, paths);
    let out = ok(run(["inspect", paths[0], paths[1]]));
    assert!(paths.iter().all(|path| out.contains(path)), "{out}");
}

#[test]
fn inspect_for_people() {
    let text = ok(run(["inspect", fixture("sim.vcz.zip").to_str().unwrap()]));
    for expected in [
        "7402",
        "chr2",
        "call_genotype",
        "variants × samples × ploidy",
        "blosc(",
        "only arrays over samples go to a GPU",
    ] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
    // Bytes are whole numbers.
    assert!(!text.contains(".0 B "), "{text}");
    let text = ok(run([
        "inspect",
        fixture("bad/unknown_codec_v2.vcz.zip").to_str().unwrap(),
    ]));
    assert!(
        text.contains("Not readable") && text.contains("none"),
        "{text}"
    );
}

#[test]
fn inspect_refuses() {
    let message = fails(run(["inspect", "no/such.vcz"]));
    assert!(
        message.contains("there is no store 'no/such.vcz'"),
        "{message}"
    );
    let folder = tempfile::tempdir().unwrap();
    let message = fails(run(["inspect", folder.path().to_str().unwrap()]));
    assert!(message.contains("is not a VCZ store"), "{message}");
}

#[cfg(unix)]
#[test]
fn signals_remove_spill_files() {
    use std::time::{Duration, Instant};
    for (signal, status) in [("INT", 130), ("TERM", 143)] {
        let folder = tempfile::tempdir().unwrap();
        let files = || {
            let mut files = vec![];
            for entry in fs::read_dir(folder.path()).unwrap() {
                let path = entry.unwrap().path();
                // The folder may be removed while it is being listed.
                files.extend(fs::read_dir(&path).into_iter().flatten().flatten());
            }
            files.len()
        };
        let mut child = vcz()
            .args(["sql", "-q", "-m", "200M", "--mem-pool-type", "fair"])
            .args(["-c", "SET datafusion.execution.target_partitions = 1"])
            .args([
                "-c",
                "SELECT value FROM generate_series(1, 400000000) ORDER BY (value * 7919) % 1000003",
            ])
            .env("TMPDIR", folder.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let started = Instant::now();
        while files() == 0 {
            assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
            assert!(
                started.elapsed() < Duration::from_secs(120),
                "it did not spill"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        let killed = Command::new("kill")
            .args([format!("-{signal}"), child.id().to_string()])
            .status();
        assert!(killed.unwrap().success());
        let ended = child.wait().unwrap();
        assert_eq!(ended.code(), Some(status), "{signal}");
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            0,
            "{signal} left files"
        );
    }
}
