//! A data set of many stores is one table: it answers as one store of the same sites does, to the last bit; reads of other stores'
//! chunks are not made; and stores that do not fit together are errors.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::prelude::SessionContext;
use object_store::memory::InMemory;
use object_store::{ObjectStoreExt, PutPayload};
use url::Url;

use crate::common::{create, fails, plan, row, run, session, work_dir};
use crate::partitions::{Bits, bits, queries};
use crate::server::Server;
use crate::store_writer::{Form, Site, write, zipped};

const SAMPLES: usize = 12;
const CONTIGS: usize = 22;

/// Pseudorandom numbers, the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

fn samples() -> Vec<String> {
    (0..SAMPLES).map(|at| format!("s{at:02}")).collect()
}

fn names() -> Vec<String> {
    (1..=CONTIGS).map(|contig| contig.to_string()).collect()
}

/// Alleles of the sites of a contig, at most.
fn most_alleles(contig: usize) -> usize {
    match contig % 7 {
        2 => 4,
        4 => 3,
        _ => 2,
    }
}

/// `n` sites of a contig.
fn sites(contig: usize, n: usize) -> Vec<Site> {
    let mut numbers = Numbers(contig as u64 + 1);
    let mut position = 0;
    let site = |_| {
        position += 1 + numbers.below(300) as i32;
        let k = 2 + numbers.below(most_alleles(contig) as u64 - 1) as usize;
        let rare = 1 + numbers.below(9);
        let code = |numbers: &mut Numbers| match numbers.below(10 + rare) {
            0 => -1,
            draw if draw > rare => 0,
            _ => 1 + numbers.below(k as u64 - 1) as i8,
        };
        let genotypes: Vec<i8> = (0..2 * SAMPLES).map(|_| code(&mut numbers)).collect();
        let depth: Vec<i16> = (0..SAMPLES).map(|_| numbers.below(40) as i16 - 1).collect();
        Site {
            contig,
            position,
            alleles: (0..k)
                .map(|at| ["A", "C", "GT", "T"][at].to_string())
                .collect(),
            genotypes,
            total_depth: depth.iter().map(|&dp| i32::from(dp.max(0))).sum::<i32>() % 120,
            allele_depth: depth
                .iter()
                .map(|&dp| {
                    (0..k)
                        .map(|at| if dp < 0 { -1 } else { dp / (1 + at as i16) })
                        .collect()
                })
                .collect(),
            depth,
            filters: (0..3).map(|at| numbers.below(3) == at).collect(),
        }
    };
    (0..n).map(site).collect()
}

/// The sites of all contigs, in order.
fn all_sites() -> Vec<Vec<Site>> {
    (0..CONTIGS)
        .map(|contig| sites(contig, 50 + contig))
        .collect()
}

fn contigs(names: &[String]) -> Vec<(&str, i64)> {
    names.iter().map(|name| (name.as_str(), 30_000)).collect()
}

/// How the store of some contigs is written: formats, chunks, types, filters and contigs that are named differ from store to store.
fn form(number: usize, held: &[usize]) -> Form {
    let alleles = held
        .iter()
        .map(|&contig| most_alleles(contig))
        .max()
        .unwrap();
    Form {
        format: 2 + (number % 2) as u8,
        chunk: 5 + number,
        is_indexed: !number.is_multiple_of(3),
        alleles,
        depth_width: [1, 2, 4][number % 3],
        filters: [vec![0, 1, 2], vec![2, 0, 1], vec![1, 2, 0]][number % 3].clone(),
        is_ac_flat: alleles == 2 && number % 4 == 1,
        ..Form::new(
            &samples(),
            match number % 2 {
                0 => (0..CONTIGS).collect(),
                _ => held.to_vec(),
            },
        )
    }
}

/// The sites of each of 22 stores: one for each contig, but contig 9 is in two, the second of which has contig 10, too.
fn parts() -> Vec<Vec<Site>> {
    let mut all = all_sites();
    let ten = all.remove(9);
    let (first, second) = all[8].split_at(20);
    let (first, second) = (first.to_vec(), [second, &ten].concat());
    all[8] = first;
    all.insert(9, second);
    all
}

/// Writes the sites as 22 stores and as one, and gives the folder of the stores, the one store and a populations file.
fn written(name: &str) -> (PathBuf, PathBuf, PathBuf) {
    let (folder, names) = (work_dir().join(name), names());
    let whole = all_sites().concat();
    let one = Form {
        depth_width: 4,
        chunk: 100,
        ..Form::new(&samples(), (0..CONTIGS).collect())
    };
    let one = write(&folder.join("one.vcz"), &whole, &contigs(&names), &one);
    let many = folder.join("many");
    for (at, sites) in parts().iter().enumerate() {
        let held: BTreeSet<usize> = sites.iter().map(|site| site.contig).collect();
        let form = form(at, &held.into_iter().collect::<Vec<_>>());
        let store = many.join(format!("set.{}.vcz", at + 1));
        write(&store, sites, &contigs(&names), &form);
        if at % 5 == 0 {
            zipped(&store);
        }
    }
    let populations = folder.join("populations.tsv");
    let mut text = String::from("sample_id\tpopulation\n");
    for (at, sample) in samples().iter().enumerate() {
        text += &format!("{sample}\t{}\n", if at < 5 { "first" } else { "second" });
    }
    std::fs::write(&populations, text).unwrap();
    (many, one, populations)
}

fn same(found: &Bits, wanted: &Bits, place: &str) {
    let types = |bits: &Bits| -> Vec<_> {
        let fields = bits.schema.fields().iter();
        fields
            .map(|field| (field.name().clone(), field.data_type().clone()))
            .collect()
    };
    assert_eq!(types(found), types(wanted), "{place}");
    assert_eq!(
        found.rows.len(),
        wanted.rows.len(),
        "{place}: number of rows"
    );
    let mut rows = 0..found.rows.len();
    if let Some(row) = rows.find(|&row| found.rows[row] != wanted.rows[row]) {
        panic!(
            "{place}: row {row} differs\n{}\nexpected\n{}",
            found.text, wanted.text
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_stores_give_the_bits_of_one() {
    let (many, one, populations) = written("bits");
    let mut queries = queries(3000);
    for (name, sql) in [
        ("every column", "SELECT * FROM t"),
        ("order of rows", "SELECT variant_contig, variant_position, row_number() OVER () FROM t"),
        (
            "filters",
            "SELECT variant_contig, count(*), sum(variant_DP), diversity(call_genotype) FROM t
             WHERE variant_DP > 40 AND is_pass(variant_filter) AND variant_position > 1000 GROUP BY 1 ORDER BY 1",
        ),
        (
            "filtered calls",
            "SELECT sfs(call_genotype), diversity(filter_calls(call_genotype, call_DP, 10), 'first'),
                    theta_w(filter_calls(call_genotype, call_value(call_AD, 2), 5)),
                    theta_w(filter_calls(call_genotype, call_value(call_AD, 4), 5)) FROM t",
        ),
        (
            "individuals",
            "SELECT sample_counts(call_genotype), garud_h(call_genotype, 'first') FROM t",
        ),
        (
            "a region",
            "SELECT * FROM t WHERE variant_contig IN ('9', '10', '20') AND variant_position BETWEEN 2000 AND 6000",
        ),
        (
            "a cohort by subquery",
            "SELECT variant_contig, diversity(call_genotype, (SELECT array_agg(sample_id) FROM vcz_samples('t')
             WHERE array_has(populations, 'second'))) FROM t GROUP BY 1 ORDER BY 1",
        ),
        (
            "the first of an order",
            "SELECT variant_contig, variant_position, allele_counts(call_genotype) FROM t
             ORDER BY variant_position DESC, variant_contig LIMIT 7",
        ),
        (
            "scans of contigs",
            "SELECT n.*, x.score FROM vcz_nsl('t', ['s01', 's02', 's03'], 0.1) AS n
             LEFT JOIN vcz_xpnsl('t', ['s01', 's02'], ['s02', 's05'], 0) AS x ON n.row = x.row ORDER BY n.row",
        ),
        (
            "pairs of samples",
            "SELECT sample_pairs(call_genotype, 'first') AS p, haplotype_pairs(call_genotype, 'second') AS h, grm(call_genotype) AS g,
                    pca(call_genotype, 2) AS c FROM t",
        ),
        (
            "kinship by contig",
            "SELECT variant_contig, p['sample1'], p['sample2'], kinship_king(p['het_het'], p['opposite'], p['het1'], p['het2']) AS k
             FROM (SELECT variant_contig, unnest(sample_pairs(call_genotype)) AS p FROM t GROUP BY 1)
             ORDER BY variant_contig, p['sample1'], p['sample2']",
        ),
        (
            "haplotypes in windows",
            "SELECT variant_contig, genome_bin(variant_position, 2000) AS w, haplotype_diversity(call_genotype, 'first'), haplotype_count(call_genotype)
             FROM t GROUP BY 1, 2 ORDER BY 1, 2",
        ),
        (
            "linkage by contig",
            "SELECT variant_contig, mean_r2(call_genotype, 'first'), mean_r2_genotypes(call_genotype),
                    ld_decay(call_genotype, 'second', variant_position, [0, 500, 5000]),
                    ld_moments(call_genotype, 'first', 'second', variant_position, [0, 1000]),
                    ld_moments_genotypes(call_genotype, variant_position, [0, 1000]) FROM t GROUP BY 1 ORDER BY 1",
        ),
        ("pairs of variants", "SELECT * FROM vcz_ld('t', 'first', 300, 0.2) ORDER BY row1, row2"),
        ("pruned variants", "SELECT * FROM vcz_ld_prune('t', 1000, 0.2) ORDER BY row"),
        (
            "scans with positions",
            "SELECT i.row, i.score, x.score FROM vcz_ihs('t', ['s01', 's02', 's03'], 0.1) AS i
             LEFT JOIN vcz_xpehh('t', ['s01', 's02'], ['s02', 's05'], 0) AS x ON i.row = x.row ORDER BY i.row",
        ),
        (
            "Hardy-Weinberg and heterozygosity",
            "SELECT variant_contig, variant_position, hwe_exact(call_genotype), hwe_exact_midp(call_genotype, 'first'),
                    observed_heterozygosity(call_genotype), expected_heterozygosity(call_genotype, 'second')
             FROM t ORDER BY variant_contig, variant_position, variant_allele",
        ),
        ("a limit", "SELECT variant_contig, variant_position, call_genotype FROM t LIMIT 71"),
        ("metadata", "SELECT * FROM vcz_samples('t')"),
        ("contigs", "SELECT * FROM vcz_contigs('t')"),
        ("populations", "SELECT * FROM vcz_populations('t')"),
        ("windows", "SELECT * FROM genome_windows('t', 1000, 250)"),
    ] {
        queries.push((name, sql.to_string()));
    }
    let reference = session(1, 8192);
    create(&reference, "t", &one, Some(&populations)).await;
    check_plan_of_many(&many, &populations).await;
    let mut wanted = Vec::new();
    for (_, sql) in &queries {
        wanted.push(bits(&reference, sql).await);
    }
    for (partitions, batch) in [(1, 8192), (2, 7), (16, 8192), (16, 33), (3, 1)] {
        let ctx = session(partitions, batch);
        create(&ctx, "t", &many, Some(&populations)).await;
        for ((name, sql), wanted) in queries.iter().zip(&wanted) {
            // Rows of different partitions have no order of their own.
            if partitions > 1 && !sql.contains("ORDER BY") && wanted.rows.len() > 1 {
                continue;
            }
            if partitions > 1 && *name == "order of rows" {
                continue;
            }
            let place = format!("{name}, {partitions} partitions, batches of {batch}");
            same(&bits(&ctx, sql).await, wanted, &place);
        }
    }
}

/// The plan of a query of 22 stores: one scan, whose partitions are cut between chunks of all stores; of one contig, a part of it.
async fn check_plan_of_many(many: &Path, populations: &Path) {
    let ctx = session(2, 8192);
    create(&ctx, "t", many, Some(populations)).await;
    for statement in [
        "SET datafusion.explain.format = 'indent'",
        "SET vcz.backend = 'host'",
    ] {
        run(&ctx, statement).await;
    }
    let scans = async |sql: &str| {
        let shown = plan(&ctx, sql).await;
        let scans = shown.lines().filter(|line| line.contains("VczSource"));
        let scans = scans.map(|line| {
            let line = line.trim_matches(['|', ' ']);
            line.replace(&many.display().to_string(), "MANY")
        });
        scans.collect::<Vec<_>>()
    };
    assert_eq!(
        scans("SELECT variant_contig, sfs(call_genotype) FROM t GROUP BY 1").await,
        [
            "DataSourceExec: VczSource: store=MANY, stores=22 of 22, columns=[variant_contig], functions=[allele_counts(all)], variants=1331 of 1331, chunks=110 of 110, partitions=2, backend=host (vcz.backend = 'host')"
        ]
    );
    assert_eq!(
        scans("SELECT sfs(call_genotype) FROM t WHERE variant_contig = '7'").await,
        [
            "DataSourceExec: VczSource: store=MANY, stores=1 of 22, columns=[], functions=[allele_counts(all)], variants=56 of 1331, chunks=6 of 110, filter=variant_contig@0 = 7, partitions=2, backend=host (vcz.backend = 'host')"
        ]
    );
}

/// The files of a folder, below `sets`.
async fn objects(folder: &Path) -> InMemory {
    let objects = InMemory::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let key = path.strip_prefix(folder).unwrap().to_str().unwrap();
            let payload = PutPayload::from(std::fs::read(&path).unwrap());
            let at = object_store::path::Path::from(format!("sets/{key}"));
            objects.put(&at, payload).await.unwrap();
        }
    }
    objects
}

/// The stores of a folder on a server at `fake://data`, each with its name.
async fn served(folder: &Path) -> (Arc<Server>, SessionContext) {
    let server = Arc::new(Server::new(objects(folder).await));
    let ctx = session(2, 8192);
    ctx.register_object_store(
        &Url::parse("fake://data").unwrap(),
        Arc::clone(&server) as _,
    );
    (server, ctx)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_of_one_contig_reads_chunks_of_one_store() {
    let (many, one, _) = written("requests");
    let (server, ctx) = served(&many).await;
    run(
        &ctx,
        "CREATE EXTERNAL TABLE t STORED AS VCZ LOCATION 'fake://data/sets/set.*.vcz*'",
    )
    .await;
    let reference = session(1, 8192);
    create(&reference, "t", &one, None).await;
    // Contig 2 is in the second store, which is no archive, as small archives are read as a whole.
    let sql =
        "SELECT sfs(call_genotype), max(variant_DP), count(*) FROM t WHERE variant_contig = '2'";
    server.plan(None);
    assert_eq!(row(&ctx, sql).await, row(&reference, sql).await);
    let asked = server.asked.lock().clone();
    assert!(!asked.is_empty());
    let others = asked
        .iter()
        .filter(|path| !path.starts_with("sets/set.2.vcz/"));
    assert_eq!(others.count(), 0, "{asked:#?}");
    // A position that only one of the two stores of contig 9 has.
    let sql = "SELECT diversity(call_genotype), min(variant_position) FROM t
               WHERE variant_contig = '9' AND variant_position > 6000";
    server.plan(None);
    assert_eq!(row(&ctx, sql).await, row(&reference, sql).await);
    let asked = server.asked.lock().clone();
    let others = asked
        .iter()
        .filter(|path| !path.starts_with("sets/set.10.vcz/"));
    assert_eq!(others.count(), 0, "{asked:#?}");
    // A LIMIT does not reach into the next store.
    server.plan(None);
    run(
        &ctx,
        "SELECT variant_position, call_genotype FROM t WHERE variant_contig = '2' LIMIT 3",
    )
    .await;
    let asked = server.asked.lock().clone();
    assert!(
        asked.iter().all(|path| path.starts_with("sets/set.2.vcz/")),
        "{asked:#?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn stores_are_opened_at_the_same_time() {
    let (many, ..) = written("rounds");
    let server = Arc::new(Server::in_rounds(objects(&many).await));
    let ctx = session(1, 8192);
    ctx.register_object_store(
        &Url::parse("fake://data").unwrap(),
        Arc::clone(&server) as _,
    );
    // Stores with a region index.
    let sql = "CREATE EXTERNAL TABLE t STORED AS VCZ LOCATION 'fake://data/sets/set.[23589].vcz'";
    let (_, rounds) = server.rounds(run(&ctx, sql)).await;
    let asked = server.asked.lock().clone();
    assert!(rounds <= 4, "{rounds}: {asked:#?}");
    assert!(
        asked
            .iter()
            .all(|path| !path.contains("call_genotype/c") && !path.contains("position/c"))
    );
    let mut once: Vec<_> = asked.iter().filter(|path| *path != "list").collect();
    let all = once.len();
    once.sort();
    once.dedup();
    assert_eq!(once.len(), all, "{asked:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_of_stores_is_a_table() {
    let (many, one, _) = written("folder");
    // Other files are left out.
    std::fs::write(many.join("readme.txt"), "stores").unwrap();
    std::fs::create_dir_all(many.join("notes")).unwrap();
    let (_, ctx) = served(&many).await;
    let reference = session(1, 8192);
    create(&reference, "t", &one, None).await;
    let sql = "SELECT count(*), sfs(call_genotype) FROM t";
    let wanted = row(&reference, sql).await;
    for location in ["fake://data/sets", "fake://data/sets/"] {
        run(
            &ctx,
            &format!("CREATE EXTERNAL TABLE t STORED AS VCZ LOCATION '{location}'"),
        )
        .await;
        assert_eq!(row(&ctx, sql).await, wanted);
        run(&ctx, "DROP TABLE t").await;
    }
    // A list needs no listing, and a pattern without DDL is a table, too.
    let listed: Vec<String> = (1..=22)
        .map(|at| {
            let zip = if (at - 1) % 5 == 0 { ".zip" } else { "" };
            format!("'fake://data/sets/set.{at}.vcz{zip}'")
        })
        .collect();
    run(
        &ctx,
        &format!(
            "CREATE EXTERNAL TABLE t STORED AS VCZ LOCATION ({})",
            listed.join(", ")
        ),
    )
    .await;
    assert_eq!(row(&ctx, sql).await, wanted);
    let sql = format!("SELECT count(*) FROM '{}/set.1*.vcz'", many.display());
    assert_eq!(row(&ctx, &sql).await[0].to_string(), "548");
}

/// Two stores with a contig each, written by `change`, as the locations of a table; and what CREATE says.
async fn pair(
    name: &str,
    change: impl Fn(&mut [Vec<Site>; 2], &mut [Form; 2]),
) -> Result<SessionContext, String> {
    let (folder, names) = (work_dir().join(name), names());
    let mut held = [sites(0, 30), sites(1, 30)];
    let mut forms = [0, 1].map(|contig| Form {
        alleles: 2,
        ..Form::new(&samples(), vec![contig])
    });
    change(&mut held, &mut forms);
    for (at, (sites, form)) in held.iter().zip(&forms).enumerate() {
        let store = folder.join(format!("{}.vcz", ["a", "b"][at]));
        write(&store, sites, &contigs(&names), form);
    }
    let ctx = session(1, 8192);
    let sql = format!(
        "CREATE EXTERNAL TABLE t STORED AS VCZ LOCATION '{}/*.vcz'",
        folder.display()
    );
    match ctx.sql(&sql).await {
        Ok(_) => Ok(ctx),
        Err(error) => Err(error.to_string()),
    }
}

fn says(error: Result<SessionContext, String>, parts: &[&str]) {
    let error = match error {
        Ok(_) => panic!("expected an error with {parts:?}"),
        Err(error) => error,
    };
    for part in parts {
        assert!(error.contains(part), "{part} is not in: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stores_that_do_not_fit_are_errors_that_name_both() {
    let other_sample = pair("sample", |_, forms| {
        forms[1].samples[3] = "stranger".to_string()
    })
    .await;
    says(
        other_sample,
        &[
            "b.vcz",
            "a.vcz",
            "sample 4 is 'stranger', but 's03'",
            "same order",
        ],
    );
    let fewer = pair("fewer", |sites, forms| {
        forms[1].samples.pop();
        for site in &mut sites[1] {
            site.genotypes.truncate(2 * SAMPLES - 2);
            site.depth.pop();
            site.allele_depth.pop();
        }
    });
    says(
        fewer.await,
        &["b.vcz", "11 samples, but store", "a.vcz' has 12", "'s11'"],
    );
    let swapped = pair("swapped", |_, forms| forms[1].samples.swap(0, 1)).await;
    says(swapped, &["sample 1 is 's01', but 's00'"]);

    // The same contig at positions that overlap, and at those that do not.
    let overlapping = pair("overlapping", |sites, forms| {
        sites[1] = sites[0].split_off(10);
        sites[1][0].position = sites[0][9].position;
        forms[1].contigs = vec![0];
    });
    says(
        overlapping.await,
        &["b.vcz", "a.vcz", "contig '1'", "must not overlap"],
    );
    let apart = pair("apart", |sites, forms| {
        // The later part in the first store.
        sites[1] = sites[0].split_off(10);
        sites.swap(0, 1);
        forms[1].contigs = vec![0];
    });
    let ctx = apart.await.unwrap();
    let ordered = row(&ctx, "SELECT count(*), bool_and(rises) FROM (SELECT variant_position > lag(variant_position, 1, 0)
                             OVER (ORDER BY n) AS rises FROM (SELECT variant_position, row_number() OVER () AS n FROM t))");
    assert_eq!(format!("{:?}", ordered.await), "[Int64(30), Boolean(true)]");

    let lengths = pair("ploidy", |_, forms| forms[1].ploidy = 1).await;
    says(
        lengths,
        &["b.vcz", "a.vcz", "call_genotype", "copies", "same ploidy"],
    );
    let some = pair("genotypes", |_, forms| {
        forms[0].without = vec!["call_genotype"]
    })
    .await;
    says(some, &["a.vcz", "b.vcz", "call_genotype", "all or none"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn types_that_do_not_fit_are_errors() {
    let folder = work_dir().join("conflict");
    let names = names();
    for (at, name) in ["a", "b"].into_iter().enumerate() {
        let form = Form {
            alleles: 2,
            format: 2,
            ..Form::new(&samples(), vec![at])
        };
        let store = write(
            &folder.join(format!("{name}.vcz")),
            &sites(at, 30),
            &contigs(&names),
            &form,
        );
        let document = store.join("variant_DP/.zarray");
        let text = std::fs::read_to_string(&document).unwrap();
        if name == "b" {
            std::fs::write(document, text.replace("<i2", "<f2")).unwrap();
        }
    }
    let ctx = session(1, 8192);
    let create =
        |locations: String| format!("CREATE EXTERNAL TABLE t STORED AS VCZ LOCATION ({locations})");
    let place = |name: &str| format!("'{}'", folder.join(name).display());
    let error = fails(
        &ctx,
        &create(format!("{}, {}", place("a.vcz"), place("b.vcz"))),
    )
    .await;
    for part in ["variant_DP", "float16", "int16", "a.vcz", "b.vcz"] {
        assert!(error.contains(part), "{error}");
    }
    let twice = fails(
        &ctx,
        &create(format!("{}, {}", place("a.vcz"), place("*.vcz"))),
    )
    .await;
    assert!(twice.contains("given twice"), "{twice}");
    let nothing = fails(&ctx, &create(place("c*.vcz"))).await;
    assert!(nothing.contains("c*.vcz' matches nothing"), "{nothing}");
    let not_there = fails(
        &ctx,
        &create(format!("{}, {}", place("a.vcz"), place("c.vcz"))),
    )
    .await;
    assert!(not_there.contains("c.vcz"), "{not_there}");
    std::fs::create_dir_all(folder.join("empty")).unwrap();
    std::fs::write(folder.join("empty/readme.txt"), "no store").unwrap();
    let not_a_store = fails(&ctx, &create(place("*"))).await;
    assert!(
        not_a_store.contains("empty' is not a VCZ store"),
        "{not_a_store}"
    );
    let no_stores = fails(&ctx, &create(place("empty"))).await;
    assert!(no_stores.contains("is not a VCZ store"), "{no_stores}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_store_lacks_is_null() {
    let ctx = pair("lacks", |_, forms| {
        forms[0].without = vec!["call_GQ", "variant_DP", "variant_filter", "variant_allele"];
        forms[1].alleles = 3;
        forms[1].depth_width = 1;
        forms[0].is_ac_flat = true;
    });
    let ctx = ctx.await.unwrap();
    let shown = |sql: &'static str| {
        let ctx = &ctx;
        async move { format!("{:?}", row(ctx, sql).await) }
    };
    let nulls = "SELECT count(variant_DP), count(variant_filter), count(call_GQ), count(variant_allele), count(variant_AC), count(*)
                 FROM t WHERE variant_contig = ";
    let (first, second) = (
        row(&ctx, &format!("{nulls} '1'")).await,
        row(&ctx, &format!("{nulls} '2'")).await,
    );
    assert_eq!(
        format!("{first:?}"),
        "[Int64(0), Int64(0), Int64(0), Int64(0), Int64(30), Int64(30)]"
    );
    assert_eq!(
        format!("{second:?}"),
        "[Int64(30), Int64(30), Int64(30), Int64(30), Int64(30), Int64(30)]"
    );
    // Counts have the K of the table in both stores.
    let k = "SELECT min(cardinality(allele_counts(call_genotype))), max(cardinality(allele_counts(call_genotype))) FROM t";
    assert_eq!(shown(k).await, "[UInt64(3), UInt64(3)]");
    // Calls cannot be filtered by what is not there, but those of other stores can.
    let gq = "SELECT diversity(filter_calls(call_genotype, call_GQ, 10)) FROM t";
    let error = fails(&ctx, gq).await;
    assert!(error.contains("a.vcz' has no array 'call_GQ'"), "{error}");
    row(&ctx, &format!("{gq} WHERE variant_contig = '2'")).await;
    // A view is a table.
    run(
        &ctx,
        "CREATE VIEW v AS SELECT * FROM t WHERE variant_contig = '2'",
    )
    .await;
    assert_eq!(
        row(&ctx, "SELECT sfs(call_genotype, ['s01', 's02']), diversity(call_genotype) FROM v").await,
        row(&ctx, "SELECT sfs(call_genotype, ['s01', 's02']), diversity(call_genotype) FROM t WHERE variant_contig = '2'").await,
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn stores_without_variants_are_part_of_a_table() {
    let ctx = pair("no_variants", |sites, forms| {
        sites[0].clear();
        forms[0].is_indexed = false;
    });
    let ctx = ctx.await.unwrap();
    let counts = row(&ctx, "SELECT count(*), min(variant_contig), count(variant_DP), segregating_sites(call_genotype) > 0 FROM t").await;
    assert_eq!(
        format!("{counts:?}"),
        "[Int64(30), Utf8View(\"2\"), Int64(30), Boolean(true)]"
    );
    let contigs = row(
        &ctx,
        "SELECT array_agg(contig), array_agg(variants) FROM vcz_contigs('t')",
    )
    .await;
    assert_eq!(contigs[0].to_string(), "[1, 2]");
    assert_eq!(contigs[1].to_string(), "[0, 30]");
    let nothing = pair("nothing", |sites, forms| {
        sites.iter_mut().for_each(Vec::clear);
        forms.iter_mut().for_each(|form| form.is_indexed = false);
    });
    let ctx = nothing.await.unwrap();
    let counts = row(
        &ctx,
        "SELECT count(*), diversity(call_genotype), sum(variant_DP) FROM t",
    )
    .await;
    assert_eq!(format!("{counts:?}"), "[Int64(0), Float64(0), Int64(NULL)]");
    assert_eq!(
        row(&ctx, "SELECT count(*) FROM genome_windows('t', 100)").await[0].to_string(),
        "0"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn masks_and_the_library_work_on_many_stores() {
    let (many, one, populations) = written("masks");
    let mask = work_dir().join("mask.bed");
    std::fs::write(&mask, "3\t100\t5000\n9\t2000\t7000\n10\t0\t900\n").unwrap();
    let sql = format!(
        "SELECT w.contig, w.window_start, w.accessible_bases, s.pi FROM genome_windows('t', 2000, 1000, '{mask}') w
         LEFT JOIN (SELECT variant_contig, unnest(genome_bins(variant_position, 2000, 1000)) AS start,
                           diversity(call_genotype, 'first') AS pi FROM t
                    WHERE is_accessible(variant_contig, variant_position, '{mask}') GROUP BY 1, 2) s
         ON w.contig = s.variant_contig AND w.window_start = s.start ORDER BY 1, 2",
        mask = mask.display()
    );
    let mut found = Vec::new();
    for store in [&many, &one] {
        let ctx = session(4, 50);
        create(&ctx, "t", store, Some(&populations)).await;
        found.push(bits(&ctx, &sql).await);
    }
    same(&found[0], &found[1], "a scan with a mask");
    // A view of tables: of one, and of tables of the stores, which together are all of the data.
    let ctx = session(2, 8192);
    create(&ctx, "t", &many, Some(&populations)).await;
    run(
        &ctx,
        "CREATE VIEW v AS SELECT * FROM t WHERE variant_contig = '2'",
    )
    .await;
    run(&ctx, "CREATE VIEW w AS SELECT call_genotype FROM v").await;
    for (first, last) in [("1*", "a"), ("[2-9]*", "b")] {
        let store = many.join(format!("set.{first}.vcz*"));
        create(&ctx, last, &store, Some(&populations)).await;
    }
    run(
        &ctx,
        "CREATE VIEW both AS SELECT * FROM a UNION ALL SELECT * FROM b",
    )
    .await;
    for function in [
        "vcz_samples('?')",
        "vcz_populations('?')",
        "genome_windows('?', 1000)",
        "vcz_contigs('?')",
    ] {
        let of = |table: &str| {
            let name = if function.contains("contigs") {
                "contig, variants"
            } else {
                "*"
            };
            format!(
                "SELECT {name} FROM {} ORDER BY 1, 2",
                function.replace('?', table)
            )
        };
        let wanted = bits(&ctx, &of("t")).await;
        for view in ["v", "w", "both"] {
            same(&bits(&ctx, &of(view)).await, &wanted, &of(view));
        }
    }
    let cohort = |table: &str| {
        format!(
            "SELECT diversity(call_genotype, (SELECT array_agg(sample_id) FROM vcz_samples('{table}') WHERE sample_index < 4)),
                    fst_hudson(call_genotype, 'first', 'second') FROM {table}"
        )
    };
    // Of tables of one K, because that of a call in a UNION is one.
    run(&ctx, "CREATE VIEW u AS SELECT * FROM t WHERE variant_contig <> '2' UNION ALL BY NAME SELECT * FROM v").await;
    assert_eq!(row(&ctx, &cohort("u")).await, row(&ctx, &cohort("t")).await);
    // By the library, without SQL.
    let ctx = session(1, 8192);
    let options = datafusion_vcz::scan::TableOptions::default();
    let pattern = format!("{}/set.[12].vcz*", many.display());
    let state = ctx.state();
    let table = datafusion_vcz::scan::open_table(&state, &pattern, &options);
    let table = table.await.unwrap();
    assert_eq!(
        (table.stores().members().len(), table.stores().n_variants()),
        (2, 101)
    );
}
