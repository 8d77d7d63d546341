//! Bad input: each kind gets an error that says what is wrong, where, and what to do; nothing panics or hangs, and the
//! session answers the next query.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use datafusion::common::ScalarValue;
use datafusion::prelude::SessionContext;
use datafusion_vcz::session::{explain_unknown_column, message};

use crate::common::{create, entries, fixtures, plain_session, row, run, unpack, work_dir};

/// Longer than any of these queries takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A session with the good store `sim`, which must go on answering whatever fails beside it.
struct Bench {
    ctx: SessionContext,
}

impl Bench {
    async fn new() -> Self {
        let ctx = plain_session();
        let fixtures = fixtures();
        create(
            &ctx,
            "sim",
            &fixtures.join("sim.vcz.zip"),
            Some(&fixtures.join("sim.populations.tsv")),
        )
        .await;
        Self { ctx }
    }

    /// The answer's first value, or the error's text; no hanging, no panic.
    async fn try_one(&self, sql: &str) -> Result<ScalarValue, String> {
        let answer = async {
            let batches = self.ctx.sql(sql).await?.collect().await?;
            match batches
                .iter()
                .find(|batch| batch.num_rows() > 0 && batch.num_columns() > 0)
            {
                Some(batch) => ScalarValue::try_from_array(batch.column(0), 0),
                None => Ok(ScalarValue::Null),
            }
        };
        let answer = tokio::time::timeout(PATIENCE, answer)
            .await
            .unwrap_or_else(|_| panic!("hangs: {sql}"));
        let answer = answer.map_err(|error| error.to_string());
        if let Err(message) = &answer {
            assert!(!message.contains("panic"), "{sql}\n{message}");
            assert!(
                !message.to_lowercase().contains("internal error"),
                "{sql}\n{message}"
            );
        }
        answer
    }

    /// A query must fail with a message that holds all of `parts`, and the next one must succeed.
    async fn refuses(&self, sql: &str, parts: &[&str]) {
        if sql.starts_with("CREATE EXTERNAL TABLE t ") {
            run(&self.ctx, "DROP TABLE IF EXISTS t").await;
        }
        let Err(message) = self.try_one(sql).await else {
            panic!("expected an error from: {sql}")
        };
        for part in parts {
            assert!(
                message.contains(part),
                "{sql}\nexpected '{part}' in: {message}"
            );
        }
        self.still_answers(sql).await;
    }

    async fn still_answers(&self, after: &str) {
        let answer = self
            .try_one("SELECT segregating_sites(call_genotype, 'first') FROM sim")
            .await;
        assert_eq!(answer, Ok(ScalarValue::Int64(Some(5086))), "after: {after}");
    }

    /// Registers the store at `path` as `t`, instead of what was `t`.
    async fn open(&self, path: &Path, options: &str) -> Result<(), String> {
        run(&self.ctx, "DROP TABLE IF EXISTS t").await;
        let sql = format!(
            "CREATE EXTERNAL TABLE t STORED AS VCZ LOCATION '{}' {options}",
            path.display()
        );
        self.try_one(&sql).await.map(drop)
    }
}

/// A fresh folder.
fn folder(name: &str) -> PathBuf {
    let folder = work_dir().join("bad_input").join(name);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn file(folder: &Path, name: &str, content: impl AsRef<[u8]>) -> String {
    let path = folder.join(name);
    fs::write(&path, content).unwrap();
    path.display().to_string()
}

fn create_sql(location: &str) -> String {
    format!("CREATE EXTERNAL TABLE t STORED AS VCZ LOCATION '{location}'")
}

// Stores that are none.

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_a_store() {
    let bench = Bench::new().await;
    let at = folder("not_a_store");
    let text = file(&at, "text.vcz", "hello");
    let no_zip = file(&at, "no_zip.vcz.zip", vec![b'x'; 5000]);
    let plain = at.join("plain.vcz");
    fs::create_dir_all(&plain).unwrap();
    fs::write(plain.join(".zgroup"), r#"{"zarr_format": 2}"#).unwrap();
    let array = at.join("array.vcz");
    fs::create_dir_all(&array).unwrap();
    fs::write(
        array.join("zarr.json"),
        r#"{"zarr_format": 3, "node_type": "array"}"#,
    )
    .unwrap();
    let broken = at.join("broken.vcz");
    fs::create_dir_all(&broken).unwrap();
    fs::write(broken.join(".zgroup"), r#"{"zarr_format": "#).unwrap();
    let empty = at.join("empty.vcz");
    fs::create_dir_all(&empty).unwrap();
    let missing = at.join("missing.vcz");
    let shown = |path: &Path| path.display().to_string();
    let sheet = file(&at, "sheet.csv", "sample_id,population\ns00,first\n");
    let read = format!("SELECT … FROM '{sheet}'");
    bench
        .refuses(
            &create_sql(&sheet),
            &[
                "is not a VCZ store",
                "a file of another format is read by its name",
                read.as_str(),
            ],
        )
        .await;
    for (location, parts) in [
        (
            shown(&empty),
            &["is not a VCZ store", "'zarr.json'", "'.zgroup'"][..],
        ),
        (
            shown(&missing),
            &["is not a VCZ store", "nothing at this location"],
        ),
        (text, &["is not a VCZ store", "not a zip archive"]),
        (no_zip, &["is not a VCZ store", "not a zip archive"]),
        (
            shown(&plain),
            &[
                "is not a VCZ store",
                "'vcf_zarr_version' is missing",
                "'variant_position'",
                "'variants/POS'",
            ],
        ),
        (shown(&array), &["is not a VCZ store", "expected \"group\""]),
        (shown(&broken), &["'.zgroup'"]),
    ] {
        let parts: Vec<&str> = parts.iter().copied().chain([location.as_str()]).collect();
        bench.refuses(&create_sql(&location), &parts).await;
        bench
            .refuses(&format!("SELECT * FROM '{location}'"), &parts)
            .await;
        bench
            .refuses(&format!("SELECT * FROM vcz_samples('{location}')"), &parts)
            .await;
    }
}

/// What the command line and servers say about a statement that cannot be planned.
async fn said(ctx: &SessionContext, sql: &str) -> String {
    let Err(error) = ctx.sql(sql).await else {
        panic!("expected an error from: {sql}")
    };
    message(&explain_unknown_column(&ctx.state(), error).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn names_of_tables_and_columns() {
    let bench = Bench::new().await;
    let fixtures = fixtures();
    create(&bench.ctx, "miss", &fixtures.join("missing.vcz.zip"), None).await;
    let genes = format!("'{}'", fixtures.join("sim.genes.gff3").display());
    let genes_and_sites = format!("{genes} AS g, sim");
    for (columns, table, expected) in [
        (
            "1",
            "Sim",
            "Did you mean 'sim'? Names of tables are case-sensitive",
        ),
        ("1", "sin", "Did you mean 'sim'?"),
        (
            "1",
            "samples",
            "Here 'samples' is the table function vcz_samples('t')",
        ),
        (
            "DP",
            "miss",
            "Did you mean call_DP, which each call has, or variant_DP, which the variant has?",
        ),
        ("AD", "miss", "Did you mean call_AD?"),
        (
            "GQ",
            "sim",
            "VCF's GQ would be the column call_GQ or variant_GQ, and the table has neither",
        ),
        ("AC", "sim", "Here 'ac' is allele_counts("),
        ("variant_pos", "sim", "Did you mean variant_position?"),
        (
            "s.variant_pos",
            "sim AS s",
            "Did you mean variant_position?",
        ),
        ("CHROM", "sim", "VCF's CHROM is variant_contig"),
        ("ID", genes.as_str(), "write attributes['ID']"),
        (
            "g.seqid",
            genes_and_sites.as_str(),
            "Here 'seqid' is the column contig",
        ),
    ] {
        let found = said(&bench.ctx, &format!("SELECT {columns} FROM {table}")).await;
        assert!(
            found.contains(expected),
            "expected '{expected}' in: {found}"
        );
        // DataFusion's guess, the column that is nearest by its letters.
        assert!(!found.contains(". Did you mean"), "{found}");
        assert_eq!(
            found.contains("VCF's"),
            ["GQ", "AC", "CHROM"].contains(&columns),
            "{found}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_without_genotypes() {
    let bench = Bench::new().await;
    let store = unpack(&fixtures().join("sim.vcz.zip"), &folder("no_genotypes"));
    fs::remove_dir_all(store.join("call_genotype")).unwrap();
    bench.open(&store, "").await.unwrap();
    assert_eq!(
        bench.try_one("SELECT count(variant_allele) FROM t").await,
        Ok(ScalarValue::Int64(Some(7402)))
    );
    for call in [
        "sfs(call_genotype)",
        "allele_counts(call_genotype)",
        "diversity(allele_counts(call_genotype))",
    ] {
        bench
            .refuses(
                &format!("SELECT {call} FROM t"),
                &["call_genotype", "t.variant_position"],
            )
            .await;
    }
}

// Chunks.

/// A directory store whose largest chunk of one array is replaced again and again.
struct Damaged {
    chunk: PathBuf,
    good: Vec<u8>,
    /// As messages have it: `2.0.0` for both `2.0.0` and `c/2/0/0`.
    label: String,
}

impl Damaged {
    fn new(zip: &str, array: &str) -> Self {
        // Tests run at the same time, and each damages a store of its own.
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let store = unpack(&fixtures().join(zip), &folder(&format!("damaged_{number}")));
        let mut files = vec![store.join(array)];
        let mut chunks = Vec::new();
        while let Some(path) = files.pop() {
            if path.is_dir() {
                files.extend(
                    fs::read_dir(path)
                        .unwrap()
                        .map(|entry| entry.unwrap().path()),
                );
            } else if !["zarr.json", ".zarray", ".zattrs"]
                .iter()
                .any(|name| path.ends_with(name))
            {
                chunks.push(path);
            }
        }
        chunks.sort();
        let chunk = chunks
            .into_iter()
            .max_by_key(|chunk| fs::metadata(chunk).unwrap().len())
            .unwrap();
        let label = chunk
            .strip_prefix(store.join(array))
            .unwrap()
            .to_str()
            .unwrap();
        let label = label.trim_start_matches("c/").replace('/', ".");
        Self {
            good: fs::read(&chunk).unwrap(),
            chunk,
            label,
        }
    }

    fn store(&self) -> PathBuf {
        self.chunk
            .ancestors()
            .find(|path| path.extension().is_some_and(|extension| extension == "vcz"))
            .unwrap()
            .into()
    }

    fn put(&self, bytes: &[u8]) {
        fs::write(&self.chunk, bytes).unwrap();
    }

    /// The chunk with the four bytes at `at` replaced.
    fn with_u32(&self, at: usize, value: u32) -> Vec<u8> {
        let mut bytes = self.good.clone();
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        bytes
    }

    fn with_u8(&self, at: usize, value: u8) -> Vec<u8> {
        let mut bytes = self.good.clone();
        bytes[at] = value;
        bytes
    }
}

/// Numbers that look random and are the same on every run (xorshift).
struct Noise(u64);

impl Noise {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

const SFS: &str = "SELECT sfs(call_genotype) FROM t";

#[tokio::test(flavor = "multi_thread")]
async fn lying_blosc_headers() {
    let bench = Bench::new().await;
    let damaged = Damaged::new("sim.vcz.zip", "call_genotype");
    bench.open(&damaged.store(), "").await.unwrap();
    let good = bench.try_one(SFS).await.unwrap();
    let header = |at: usize| u32::from_le_bytes(damaged.good[at..at + 4].try_into().unwrap());
    let (decoded, block, encoded) = (header(4), header(8), header(12));
    assert_eq!(
        (damaged.good[0], encoded as usize),
        (2, damaged.good.len()),
        "a Blosc 1 container"
    );
    let mut lies: Vec<(String, Vec<u8>)> = Vec::new();
    let mut lie = |what: &str, at: usize, values: &[u32]| {
        lies.extend(
            values
                .iter()
                .map(|&value| (format!("{what} {value}"), damaged.with_u32(at, value))),
        );
    };
    let huge = [i32::MAX as u32, 1 << 31, u32::MAX];
    lie(
        "decoded size",
        4,
        &[0, 1, decoded - 1, decoded + 1, decoded / 2, decoded * 2],
    );
    lie("decoded size", 4, &huge);
    lie("block size", 8, &[0, 1, block / 2, block + 1, block * 2]);
    lie("block size", 8, &huge);
    lie(
        "encoded size",
        12,
        &[0, 1, 15, 16, encoded - 1, encoded + 1],
    );
    lie("encoded size", 12, &huge);
    lie(
        "block offset",
        16,
        &[0, 4, 15, 16, encoded - 1, encoded, encoded + 1],
    );
    lie("block offset", 16, &huge);
    lie("size in block", 20, &[0, 1, encoded]);
    lie("size in block", 20, &huge);
    lies.extend(
        [0, 1, 3, 99].map(|version| (format!("version {version}"), damaged.with_u8(0, version))),
    );
    let compressor = 7 << 5 | damaged.good[2] & 0x1f;
    lies.extend(
        [0, 1, 2, 0x10, 0xff, compressor]
            .map(|flags| (format!("flags {flags}"), damaged.with_u8(2, flags))),
    );
    lies.push(("element size 0".to_string(), damaged.with_u8(3, 0)));
    lies.push((
        "longer".to_string(),
        [damaged.good.as_slice(), b"more"].concat(),
    ));
    for (what, bytes) in lies {
        damaged.put(&bytes);
        let Err(message) = bench.try_one(SFS).await else {
            panic!("{what} was believed")
        };
        let chunk = format!("array 'call_genotype', chunk {}: ", damaged.label);
        assert!(
            message.contains(&chunk) && message.contains("sim.vcz"),
            "{what}: {message}"
        );
        bench.still_answers(&what).await;
    }
    damaged.put(&damaged.good);
    assert_eq!(bench.try_one(SFS).await, Ok(good));
}

#[tokio::test(flavor = "multi_thread")]
async fn truncated_and_flipped_chunks() {
    let bench = Bench::new().await;
    let mut noise = Noise(0x9E37_79B9_7F4A_7C15);
    let layouts = [
        ("sim.vcz.zip", 97, 200),
        ("layouts/v2-blosc-lz4-shuffle.vcz.zip", 97, 40),
        ("layouts/v2-blosc-lz4hc-bitshuffle.vcz.zip", 97, 40),
        ("layouts/v2-blosc-zlib-bitshuffle.vcz.zip", 97, 40),
        ("layouts/v2-blosc-blosclz-shuffle.vcz.zip", 97, 40),
        ("layouts/v2-blosc-snappy-bitshuffle.vcz.zip", 97, 40),
        ("layouts/v2-gzip.vcz.zip", 97, 40),
        ("layouts/v2-zlib.vcz.zip", 97, 40),
        ("layouts/v2-lz4.vcz.zip", 97, 40),
        ("layouts/v2-zstd.vcz.zip", 97, 40),
        ("layouts/v2-uncompressed.vcz.zip", 97, 40),
        ("layouts/v3-crc32c.vcz.zip", 97, 40),
        (
            "layouts/v3-sharded-blosc-zstd-bitshuffle-end.vcz.zip",
            97,
            40,
        ),
        ("layouts/v3-sharded-zstd-crc32c-end.vcz.zip", 97, 40),
    ];
    for (zip, step, flips) in layouts {
        let damaged = Damaged::new(zip, "call_genotype");
        bench.open(&damaged.store(), "").await.unwrap();
        let good = bench.try_one(SFS).await.unwrap();
        let chunk = format!("array 'call_genotype', chunk {}", damaged.label);
        for length in (0..damaged.good.len()).step_by(step) {
            damaged.put(&damaged.good[..length]);
            let Err(message) = bench.try_one(SFS).await else {
                panic!("{zip}: {length} bytes were enough")
            };
            assert!(message.contains(&chunk), "{zip} cut to {length}: {message}");
        }
        let mut refused = 0;
        for _ in 0..flips {
            let (at, bit) = (noise.below(damaged.good.len()), noise.below(8));
            damaged.put(&damaged.with_u8(at, damaged.good[at] ^ 1 << bit));
            // Without a checksum some flips decode; then there is an answer.
            if let Err(message) = bench.try_one(SFS).await {
                assert!(
                    message.contains(&chunk),
                    "{zip}, byte {at}, bit {bit}: {message}"
                );
                refused += 1;
            }
        }
        assert!(refused > 0, "{zip}: no flip of {flips} was noticed");
        if zip.contains("crc32c") {
            assert_eq!(refused, flips, "{zip}: the checksum finds every flip");
        }
        damaged.put(&damaged.good);
        assert_eq!(bench.try_one(SFS).await, Ok(good), "{zip}");
        bench.still_answers(zip).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_chunks_of_other_columns() {
    let bench = Bench::new().await;
    let mut noise = Noise(42);
    for (array, sql) in [
        (
            "variant_allele",
            "SELECT max(variant_allele[1] || variant_allele[2]) FROM t",
        ),
        (
            "variant_position",
            "SELECT sum(variant_position) FROM t WHERE variant_position % 3 = 1",
        ),
        ("variant_id", "SELECT max(variant_id) FROM t"),
        (
            "variant_filter",
            "SELECT count(*) FROM t WHERE array_length(variant_filter) = 1",
        ),
        (
            "call_genotype_phased",
            "SELECT count(call_genotype_phased[1]) FROM t",
        ),
    ] {
        let damaged = Damaged::new("sim.vcz.zip", array);
        bench.open(&damaged.store(), "").await.unwrap();
        let good = bench.try_one(sql).await.unwrap();
        let chunk = format!("array '{array}', chunk {}", damaged.label);
        for length in (0..damaged.good.len()).step_by(97) {
            damaged.put(&damaged.good[..length]);
            let Err(message) = bench.try_one(sql).await else {
                panic!("{array}: {length} bytes were enough")
            };
            assert!(message.contains(&chunk), "{message}");
        }
        for _ in 0..60 {
            let (at, bit) = (noise.below(damaged.good.len()), noise.below(8));
            damaged.put(&damaged.with_u8(at, damaged.good[at] ^ 1 << bit));
            if let Err(message) = bench.try_one(sql).await {
                assert!(
                    message.contains(&chunk),
                    "{array}, byte {at}, bit {bit}: {message}"
                );
            }
        }
        damaged.put(&damaged.good);
        assert_eq!(bench.try_one(sql).await, Ok(good), "{array}");
        bench.still_answers(array).await;
    }
}

// Zip archives.

/// Where the directory's record of `key` starts, and where the record that ends the archive does.
fn records(zip: &[u8], key: &str) -> (usize, usize) {
    let end = zip
        .windows(4)
        .rposition(|window| window == b"PK\x05\x06")
        .unwrap();
    let first = u32::from_le_bytes(zip[end + 16..end + 20].try_into().unwrap()) as usize;
    let name = zip[first..end]
        .windows(key.len())
        .position(|window| window == key.as_bytes())
        .unwrap();
    (first + name - 46, end)
}

#[tokio::test(flavor = "multi_thread")]
async fn zip_entries_that_lie() {
    let bench = Bench::new().await;
    let path = folder("zip").join("lie.vcz.zip");
    let chunk = "array 'call_genotype', chunk 0.0.0: zip entry 'call_genotype/0.0.0'";
    let archive = "is not a VCZ store: as a zip archive";
    for source in ["sim.vcz.zip", "layouts/zip-deflated.vcz.zip"] {
        let zip = fs::read(fixtures().join(source)).unwrap();
        let (entry, end) = records(&zip, "call_genotype/0.0.0");
        let u32_at = |at: usize| u32::from_le_bytes(zip[at..at + 4].try_into().unwrap());
        let (stored, inflated, header) =
            (u32_at(entry + 20), u32_at(entry + 24), u32_at(entry + 42));
        let directory = u32_at(end + 16);
        let far = zip.len() as u32;
        let u32s: [(&str, usize, u32, &str); 21] = [
            ("stored size", entry + 20, stored - 1, chunk),
            ("stored size", entry + 20, stored + 1, chunk),
            ("stored size", entry + 20, 0, chunk),
            ("stored size", entry + 20, 2 * far, archive),
            ("stored size", entry + 20, u32::MAX - 1, archive),
            ("size", entry + 24, inflated - 1, chunk),
            ("size", entry + 24, inflated + 1, chunk),
            ("size", entry + 24, 0, chunk),
            ("size", entry + 24, u32::MAX - 1, chunk),
            ("checksum", entry + 16, 12345, chunk),
            ("offset", entry + 42, header + 1, chunk),
            ("offset", entry + 42, 0, chunk),
            ("offset", entry + 42, far, archive),
            ("offset", entry + 42, directory, archive),
            ("offset", entry + 42, u32::MAX - 1, archive),
            ("signature of the header", header as usize, 0, chunk),
            ("signature in the directory", entry, 0, archive),
            ("start of the directory", end + 16, far, archive),
            ("start of the directory", end + 16, directory - 1, archive),
            ("size of the directory", end + 12, u32::MAX - 15, archive),
            ("size of the directory", end + 12, 1, archive),
        ];
        let lies = u32s
            .map(|(what, at, value, expected)| (what, at, value.to_le_bytes().to_vec(), expected));
        let other_method = if zip[entry + 10] == 0 { 8u16 } else { 0 };
        let u16s: [(&str, usize, u16, &str); 6] = [
            ("unknown method", entry + 10, 99, chunk),
            ("another method", entry + 10, other_method, chunk),
            ("encryption", entry + 8, 1, chunk),
            ("length of the name", entry + 28, 60000, archive),
            (
                "length of the name in the header",
                header as usize + 26,
                60000,
                chunk,
            ),
            ("number of entries", end + 10, 60000, archive),
        ];
        let u16s = u16s
            .map(|(what, at, value, expected)| (what, at, value.to_le_bytes().to_vec(), expected));
        for (what, at, value, expected) in lies.into_iter().chain(u16s) {
            let mut bytes = zip.clone();
            bytes[at..at + value.len()].copy_from_slice(&value);
            fs::write(&path, &bytes).unwrap();
            let outcome = match bench.open(&path, "").await {
                Ok(()) => bench.try_one(SFS).await.map(drop),
                refused => refused,
            };
            let Err(message) = outcome else {
                panic!("{source}: a lie about {what} ({value:?}) was believed")
            };
            assert!(
                message.contains(expected),
                "{source}, {what} {value:?}\nexpected '{expected}' in: {message}"
            );
        }
        for length in [0, 10, 1000, zip.len() / 2, end, zip.len() - 1] {
            fs::write(&path, &zip[..length]).unwrap();
            let message = bench.open(&path, "").await.unwrap_err();
            assert!(
                message.contains("is not a VCZ store") && message.contains("lie.vcz.zip"),
                "{length}: {message}"
            );
        }
        bench.still_answers(source).await;
    }
}

// The stores of tests/fixtures/bad.

const IGNORE: &str = "OPTIONS ('vcz.region_index' 'ignore')";

fn bad(name: &str) -> PathBuf {
    fixtures().join(format!("bad/{name}.vcz.zip"))
}

#[tokio::test(flavor = "multi_thread")]
async fn region_indexes_that_contradict_themselves() {
    let bench = Bench::new().await;
    for (name, reason) in [
        ("index_not_covering", "its 3 rows cover 200 of 250 variants"),
        (
            "index_wrong_count",
            "row 3: chunk 2 comes where variant 197, of chunk 1, does",
        ),
        (
            "index_chunk_out_of_range",
            "row 3: chunk 9 comes where variant 200, of chunk 2, does",
        ),
        (
            "index_contig_out_of_range",
            "row 3: contig 5; expected one of 2 contigs",
        ),
        (
            "index_contig_split",
            "row 2: contig 0 is in an earlier run of rows too",
        ),
        (
            "index_wrong_width",
            "expected the shape (rows, 6), found [4, 5]",
        ),
    ] {
        let location = bad(name).display().to_string();
        let parts = [
            location.as_str(),
            "array 'region_index'",
            reason,
            "'vcz.region_index' to 'ignore'",
        ];
        bench.refuses(&create_sql(&location), &parts).await;
        assert!(
            bench
                .open(&bad(name), "OPTIONS ('vcz.region_index' 'use')")
                .await
                .is_err()
        );
        bench.open(&bad(name), IGNORE).await.unwrap();
        whole_table(&bench).await;
    }
}

/// The table `t` is the one of the layouts, all of it, with pruning too.
async fn whole_table(bench: &Bench) {
    let of = async |sql: &str| row(&bench.ctx, sql).await[0].to_string();
    assert_eq!(of("SELECT sum(variant_position) FROM t").await, "2545342");
    assert_eq!(
        of("SELECT count(*) FROM t WHERE variant_position < 3000").await,
        "40"
    );
    assert_eq!(
        of("SELECT count(*) FROM t WHERE variant_contig = '2L' AND variant_position < 1000").await,
        "9"
    );
    let sfs = of("SELECT sum(n) FROM (SELECT unnest(sfs(call_genotype)) AS n FROM t)").await;
    assert_eq!(sfs, "143", "complete sites");
}

#[tokio::test(flavor = "multi_thread")]
async fn region_indexes_that_contradict_the_positions() {
    let bench = Bench::new().await;
    for (name, reason) in [
        (
            "index_wrong_start",
            "variants 0 to 99 are at positions 34 to",
        ),
        ("index_wrong_end", "variants 0 to 99 are at positions 34 to"),
        ("unsorted_under_index", "before the one ahead of it"),
    ] {
        // Opening reads no positions, and neither do spectra.
        bench.open(&bad(name), "").await.unwrap();
        row(&bench.ctx, SFS).await;
        let location = bad(name).display().to_string();
        let parts = [
            location.as_str(),
            "array 'variant_position', chunk 0: ",
            reason,
            "region_index",
            "'vcz.region_index' to 'ignore'",
        ];
        for sql in [
            "SELECT sum(variant_position) FROM t",
            "SELECT count(*) FROM t WHERE variant_position % 2 = 1",
            "SELECT variant_position FROM t LIMIT 1",
            "SELECT genome_bin(variant_position, 1000), sfs(call_genotype) FROM t GROUP BY 1",
        ] {
            bench.refuses(sql, &parts).await;
        }
        bench.open(&bad(name), IGNORE).await.unwrap();
        whole_table(&bench).await;
    }
    // An index that is right says nothing.
    bench
        .open(
            &fixtures().join("layouts/v2-blosc-zstd-bitshuffle.vcz.zip"),
            "",
        )
        .await
        .unwrap();
    whole_table(&bench).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn contigs_out_of_range_under_a_region_index() {
    let bench = Bench::new().await;
    let first = bench
        .try_one("SELECT count(*) FROM sim WHERE variant_contig = 'chr1'")
        .await;
    let Ok(ScalarValue::Int64(Some(first))) = first else {
        panic!("{first:?}");
    };
    let store = unpack(&fixtures().join("sim.vcz.zip"), &folder("contig_codes"));
    let array = store.join("variant_contig");
    let zarray = r#"{"shape": [7402], "chunks": [1000], "dtype": "|i1", "fill_value": 0, "order": "C", "filters": null,
                     "dimension_separator": ".", "compressor": null, "zarr_format": 2}"#;
    fs::write(array.join(".zarray"), zarray).unwrap();
    for chunk in 0..8 {
        let code = |row: i64| u8::from((first..7402).contains(&row));
        let mut codes: Vec<u8> = (chunk * 1000..(chunk + 1) * 1000).map(code).collect();
        if chunk == 5 {
            codes[10] = 9;
        }
        fs::write(array.join(chunk.to_string()), codes).unwrap();
    }
    bench.open(&store, "").await.unwrap();
    let location = store.display().to_string();
    let parts = [
        location.as_str(),
        "array 'variant_contig', chunk 5",
        "contig index 9",
        "2 contigs",
    ];
    for sql in [
        "SELECT count(DISTINCT variant_contig) FROM t",
        "SELECT count(*) FROM t WHERE variant_contig = 'chr2'",
        "SELECT count(*) FROM t WHERE variant_contig <> 'chr1'",
    ] {
        bench.refuses(sql, &parts).await;
    }
    // The index rules out the chunk, which is not read.
    let counted = bench
        .try_one("SELECT count(*) FROM t WHERE variant_contig = 'chr1'")
        .await;
    assert_eq!(counted, Ok(ScalarValue::Int64(Some(first))));
}

#[tokio::test(flavor = "multi_thread")]
async fn contigs_and_alleles_out_of_range() {
    let bench = Bench::new().await;
    for options in ["", IGNORE] {
        bench
            .open(&bad("contig_out_of_range"), options)
            .await
            .unwrap();
        assert_eq!(
            bench
                .try_one("SELECT sum(variant_position) FROM t")
                .await
                .unwrap()
                .to_string(),
            "2545342"
        );
        let parts = [
            "contig_out_of_range",
            "array 'variant_contig', chunk 1",
            "contig index 7",
            "2 contigs",
        ];
        for sql in [
            "SELECT max(variant_contig || '') FROM t",
            "SELECT count(*) FROM t WHERE variant_contig IN ('2L', 'X', '2R')",
            // Rows of its chunk only, on either contig.
            "SELECT count(*) FROM t WHERE variant_contig = '2L'",
            "SELECT count(*) FROM t WHERE variant_contig <> '2L'",
        ] {
            bench.refuses(sql, &parts).await;
        }
        bench
            .open(&bad("allele_out_of_range"), options)
            .await
            .unwrap();
        assert_eq!(
            bench
                .try_one("SELECT sum(variant_position) FROM t")
                .await
                .unwrap()
                .to_string(),
            "2545342"
        );
        let parts = [
            "allele_out_of_range",
            "array 'call_genotype', chunk 2.0.0",
            "row 10",
            "sample 3",
            "below 4",
            "found 9",
        ];
        bench.refuses(SFS, &parts).await;
        bench
            .refuses("SELECT allele_counts(call_genotype) FROM t", &parts)
            .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_codecs() {
    let bench = Bench::new().await;
    for (name, codec) in [
        ("unknown_codec_v2", "reversed"),
        ("unknown_filter_v2", "reversed"),
        ("unknown_codec_v3", "numcodecs.reversed"),
    ] {
        bench.open(&bad(name), "").await.unwrap();
        let sum = bench
            .try_one("SELECT sum(variant_position + array_length(variant_allele) * 0) FROM t")
            .await;
        assert_eq!(sum.unwrap().to_string(), "2545342", "other columns work");
        let named = format!("the codec '{codec}' is not supported");
        let parts = [
            name,
            "array 'call_genotype'",
            named.as_str(),
            "supported are",
            "blosc",
        ];
        bench
            .refuses("SELECT call_genotype FROM t LIMIT 1", &parts)
            .await;
        bench.refuses(SFS, &parts).await;
        let reason = bench.try_one(
            "SELECT backend || ': ' || reason FROM vcz_arrays('t') WHERE name = 'call_genotype'",
        );
        let reason = reason.await.unwrap().to_string();
        assert!(
            reason.starts_with("none: ") && reason.contains(codec),
            "{reason}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn metadata_that_contradicts_itself() {
    let bench = Bench::new().await;
    for (name, reason) in [
        (
            "variants_disagree",
            "its first axis has 250 variants, but variant_position has 240",
        ),
        (
            "samples_disagree",
            "its second axis has 15 samples, but sample_id has 14",
        ),
    ] {
        let location = bad(name).display().to_string();
        let parts = [location.as_str(), "array 'call_genotype'", reason];
        bench.refuses(&create_sql(&location), &parts).await;
        assert!(bench.open(&bad(name), IGNORE).await.is_err());
    }
    let location = bad("no_position").display().to_string();
    bench
        .refuses(
            &create_sql(&location),
            &[
                location.as_str(),
                "is not a VCZ store",
                "'variant_position'",
            ],
        )
        .await;
    for (name, reason) in [
        ("huge_chunks", "2^63 elements or more"),
        ("huge_shape", "2^63 elements or more"),
        ("zero_chunks", "a length of zero"),
        ("chunk_rank", "differ in their number of dimensions"),
    ] {
        // The rest of the store is of use, and the reason is listed.
        bench.open(&bad(name), "").await.unwrap();
        assert_eq!(
            bench
                .try_one("SELECT sum(variant_position) FROM t")
                .await
                .unwrap()
                .to_string(),
            "2545342"
        );
        bench.refuses(SFS, &["call_genotype"]).await;
        let sql =
            "SELECT backend || ': ' || reason FROM vcz_arrays('t') WHERE name = 'call_genotype'";
        let listed = bench.try_one(sql).await.unwrap().to_string();
        assert!(
            listed.starts_with("none: ") && listed.contains(reason),
            "{name}: {listed}"
        );
    }
}

// What a query asks for.

#[tokio::test(flavor = "multi_thread")]
async fn unknown_populations_and_samples() {
    let bench = Bench::new().await;
    for call in [
        "sfs(call_genotype, $)",
        "allele_counts(call_genotype, $)",
        "genotype_counts(call_genotype, $)",
    ] {
        for (population, parts) in [
            (
                "'firs'",
                &[
                    "sim.vcz.zip",
                    "population 'firs'",
                    "near: 'first'",
                    "vcz_populations('table')",
                ][..],
            ),
            (
                "'nobody'",
                &["sim.vcz.zip", "population 'nobody'", "lists all 2"],
            ),
            (
                "['s00', 's0x']",
                &["sim.vcz.zip", "no sample 's0x'", "near: 's00'"],
            ),
            ("['nobody']", &["sim.vcz.zip", "no sample 'nobody'"]),
            (
                "[]",
                &[
                    "the population is an empty list",
                    "a list of sample ids",
                    "leave the argument out",
                ],
            ),
            (
                "NULL",
                &[
                    "the population is NULL",
                    "a list of sample ids",
                    "leave the argument out",
                ],
            ),
            (
                "['s00', NULL]",
                &["a list that holds NULL", "leave the argument out"],
            ),
            (
                "(SELECT array_agg(sample_id) FROM vcz_samples('sim') WHERE sample_id = 'zz')",
                &["found no samples", "NULL"],
            ),
            (
                "(SELECT array_agg(sample_id) FROM vcz_samples('sim') HAVING count(*) > 99)",
                &["found no samples", "it has no row"],
            ),
            (
                "variant_contig",
                &[
                    "population must be constant",
                    "a list of sample ids",
                    "subquery",
                ],
            ),
        ] {
            bench
                .refuses(
                    &format!("SELECT {} FROM sim", call.replace('$', population)),
                    parts,
                )
                .await;
        }
    }
    bench
        .refuses(
            "SELECT select_samples(call_genotype, 'nobody') FROM sim",
            &["population 'nobody'"],
        )
        .await;
    bench
        .refuses(
            "SELECT fst_hudson(call_genotype, 'first', 'secnd') FROM sim",
            &["'secnd'", "near: 'second'"],
        )
        .await;
    bench
        .open(&fixtures().join("sim.vcz.zip"), "")
        .await
        .unwrap();
    bench
        .refuses(
            "SELECT sfs(call_genotype, 'first') FROM t",
            &["'first'", "vcz.populations"],
        )
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn spectra_that_cannot_be() {
    let bench = Bench::new().await;
    let wide = unpack(&fixtures().join("sim.vcz.zip"), &folder("wide"));
    bench.open(&wide, "").await.unwrap();
    for (sql, parts) in [
        (
            "project_sfs(call_genotype, 'first', 33)",
            &["project_sfs", "m must be from 1 to 32", "found 33"][..],
        ),
        (
            "project_sfs(call_genotype, 'first', 0)",
            &["m must be from 1 to 32", "found 0"],
        ),
        (
            "project_sfs(call_genotype, 'first', -3)",
            &["m must be from 1 to 32", "found -3"],
        ),
        (
            "project_sfs_folded(call_genotype, 'first', 33)",
            &["project_sfs_folded", "m must be from 1 to 32"],
        ),
        (
            "project_sfs(call_genotype, 'first', variant_position)",
            &["m must be a constant whole number"],
        ),
        (
            "project_sfs(call_genotype, 'first', NULL)",
            &["m must be a constant whole number", "NULL"],
        ),
        (
            "project_sfs(call_genotype, 'first', 2.5)",
            &["m must be a whole number", "project_sfs(ac, m)"],
        ),
        (
            "project_sfs(call_genotype, 'first', 'x')",
            &["m must be a whole number", "Utf8"],
        ),
        (
            "project_sfs(call_genotype)",
            &["m is missing", "project_sfs(ac, m)"],
        ),
        (
            "project_joint_sfs(call_genotype, 'first', 'second', 4, 29)",
            &["m2 must be from 1 to 28", "found 29"],
        ),
        (
            "project_joint_sfs(call_genotype, 'first', 'second', 0, 5)",
            &["m1 must be from 1 to 32", "found 0"],
        ),
        (
            "project_joint_sfs([3, 2], [4, 2], 10000, 10000)",
            &[
                "10000 + 1",
                "2^26 cells",
                "project to fewer copies",
                "GROUP BY derived_count(ac1)",
            ],
        ),
        (
            "sfs([1, 2])",
            &[
                "sfs needs the number of copies N",
                "project_sfs(ac, m)",
                "GROUP BY derived_count(ac)",
            ],
        ),
        (
            "sfs_folded([1, 2])",
            &["sfs_folded needs the number of copies N", "project_sfs"],
        ),
        (
            "joint_sfs([1, 2], [1, 2])",
            &[
                "joint_sfs needs the number of copies N",
                "project_joint_sfs",
            ],
        ),
        (
            "sfs('text')",
            &[
                "sfs: argument 1 must be allele counts",
                "Utf8",
                "sfs(call_genotype [, population] [, n])",
            ],
        ),
        (
            "sfs(variant_id)",
            &["sfs: argument 1 must be allele counts", "Utf8View"],
        ),
        (
            "sfs(variant_allele)",
            &["sfs: argument 1 must be allele counts"],
        ),
        (
            "sfs(variant_position)",
            &["sfs: argument 1 must be allele counts", "Int32"],
        ),
        ("sfs()", &["sfs needs arguments"]),
        (
            "diversity('text')",
            &["diversity: argument 1 must be allele counts"],
        ),
        (
            "fst_hudson(call_genotype, 'first')",
            &["compares 2 populations", "found 1", "fst_hudson(ac1, ac2)"],
        ),
        (
            "allele_number('text')",
            &["allele_number: argument 1 must be allele counts"],
        ),
        (
            "allele_counts(variant_position)",
            &[
                "allele_counts: the first argument must be genotypes",
                "call_genotype",
            ],
        ),
    ] {
        bench
            .refuses(&format!("SELECT {sql} FROM sim"), parts)
            .await;
    }
    // 957 cells in each of 7,402 groups are allowed; ten times as many groups are too many.
    let groups = "SELECT joint_sfs(call_genotype, 'first', 'second') FROM sim, generate_series(1, 10) AS g(i) \
                  GROUP BY variant_contig, variant_position, i";
    bench
        .refuses(
            groups,
            &["joint_sfs", "2^26 cells", "GROUP BY derived_count(ac1)"],
        )
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sizes_and_steps() {
    let bench = Bench::new().await;
    for (sql, parts) in [
        (
            "SELECT genome_bin(variant_position, 0) FROM sim",
            &["genome_bin: size must be a positive", "found 0"][..],
        ),
        (
            "SELECT genome_bin(variant_position, -5) FROM sim",
            &["genome_bin: size", "found -5"],
        ),
        (
            "SELECT genome_bin(variant_position, '10') FROM sim",
            &["genome_bin: argument 2 (size)", "integer"],
        ),
        (
            "SELECT genome_bins(variant_position, 10, 0) FROM sim",
            &["genome_bins: step must be a positive", "found 0"],
        ),
        (
            "SELECT genome_bins(variant_position, 10, -1) FROM sim",
            &["genome_bins: step", "found -1"],
        ),
        (
            "SELECT genome_bins(variant_position, 0, 5) FROM sim",
            &["genome_bins: size", "found 0"],
        ),
        (
            "SELECT * FROM genome_windows('sim', 0)",
            &["genome_windows", "size must be at least 1", "found 0"],
        ),
        (
            "SELECT * FROM genome_windows('sim', -100)",
            &["size must be at least 1", "found -100"],
        ),
        (
            "SELECT * FROM genome_windows('sim', 100, 0)",
            &["step must be at least 1", "found 0"],
        ),
        (
            "SELECT * FROM genome_windows('sim', 100, -1)",
            &["step must be at least 1", "found -1"],
        ),
        (
            "SELECT * FROM genome_windows('sim', 'x')",
            &["size must be a constant number"],
        ),
        (
            "SELECT * FROM genome_windows('nope', 100)",
            &["no table 'nope'", "CREATE EXTERNAL TABLE"],
        ),
        (
            "SELECT interval_bins(1, 10, 0)",
            &["interval_bins: size must be a positive", "found 0"],
        ),
        (
            "SELECT interval_bins(1, 10, -2)",
            &["interval_bins: size", "found -2"],
        ),
        (
            "SELECT interval_bins(10, 1, 5)",
            &["interval_bins: start must not be above stop", "10 and 1"],
        ),
        (
            "SELECT interval_bins(1, 9000000000000, 1)",
            &["interval_bins: 9000000000000 windows", "use larger windows"],
        ),
        (
            "SELECT site_bin(3, 0)",
            &["site_bin: size must be a positive", "found 0"],
        ),
    ] {
        bench.refuses(sql, parts).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn options_and_settings() {
    let bench = Bench::new().await;
    let store = fixtures().join("sim.vcz.zip").display().to_string();
    let create = |clause: &str| format!("{} {clause}", create_sql(&store));
    for (sql, parts) in [
        (
            create("OPTIONS ('vcz.nope' '1')"),
            &[
                "unknown option 'vcz.nope'",
                "'vcz.populations', 'vcz.sample_column'",
            ][..],
        ),
        (
            create("OPTIONS ('vcz.region_index' 'maybe')"),
            &["'vcz.region_index'", "'use' or 'ignore'", "'maybe'"],
        ),
        (
            create("WITH ORDER (variant_position)"),
            &["declares its own order"],
        ),
        (
            format!("CREATE EXTERNAL TABLE t (a INT) STORED AS VCZ LOCATION '{store}'"),
            &["leave the column list out"],
        ),
        (
            format!("CREATE EXTERNAL TABLE t STORED AS VCZ PARTITIONED BY (x) LOCATION '{store}'"),
            &["cannot be PARTITIONED BY"],
        ),
        (
            "SET vcz.nonsense = 1".into(),
            &[
                "unknown setting 'vcz.nonsense'",
                "vcz.backend",
                "vcz.prefetch",
            ],
        ),
        (
            "SET vcz.backend = 'tpu'".into(),
            &["vcz.backend", "'auto', 'host' or 'gpu'", "'tpu'"],
        ),
        (
            "SET vcz.batch_bytes = 'lots'".into(),
            &["vcz.batch_bytes", "64MB", "'lots'"],
        ),
        (
            "SET vcz.batch_bytes = 0".into(),
            &["vcz.batch_bytes must be at least 1"],
        ),
        (
            "SET vcz.prefetch = -1".into(),
            &["vcz.prefetch", "0 to 1024", "'-1'"],
        ),
        (
            "SET vcz.gpu_devices = 'a,b'".into(),
            &["vcz.gpu_devices", "'all'", "'a,b'"],
        ),
        (
            "SET vcz.gpu_direct_storage = 'perhaps'".into(),
            &[
                "vcz.gpu_direct_storage",
                "'auto', 'on' or 'off'",
                "'perhaps'",
            ],
        ),
        (
            "SET vcz.gpu_memory_limit = 'x'".into(),
            &["vcz.gpu_memory_limit", "8GB", "'x'"],
        ),
        (
            "SET vcz.gpu_workers = 5".into(),
            &["vcz.gpu_workers", "0 to 4", "'5'"],
        ),
        (
            "SELECT * FROM vcz_samples('nope')".into(),
            &["no table 'nope'", "CREATE EXTERNAL TABLE"],
        ),
        (
            "SELECT * FROM vcz_samples(3)".into(),
            &["vcz_samples", "a table's name or a path"],
        ),
    ] {
        bench.refuses(&sql, parts).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gpu_where_there_is_none_says_why() {
    let bench = Bench::new().await;
    run(&bench.ctx, "SET vcz.backend = 'gpu'").await;
    let refused = bench.try_one("SELECT sfs(call_genotype) FROM sim").await;
    run(&bench.ctx, "SET vcz.backend = 'auto'").await;
    // A machine with a usable GPU may answer.
    if let Err(message) = refused {
        assert!(message.contains("vcz.backend = 'gpu'"), "{message}");
        assert!(
            ["NVIDIA driver", "GPU", "nvCOMP", "NVRTC"]
                .iter()
                .any(|missing| message.contains(missing)),
            "{message}"
        );
        assert!(message.contains("'auto' or 'host'"), "{message}");
    }
    bench.still_answers("SET vcz.backend").await;
}

// Files beside stores.

#[tokio::test(flavor = "multi_thread")]
async fn malformed_populations() {
    let bench = Bench::new().await;
    let at = folder("populations");
    let store = fixtures().join("sim.vcz.zip");
    let header = "sample_id\tpopulation\n";
    for (name, text, parts) in [
        (
            "short",
            b"s00\tfirst\ns01\n".to_vec(),
            &["line 2", "expected 2 fields, found 1"][..],
        ),
        (
            "long",
            b"s00\tfirst\ns01\tfirst\tx\n".to_vec(),
            &["line 2", "expected 2 fields, found 3"],
        ),
        (
            "extra",
            b"sample_id\tpopulation\tx\ns00\tfirst\n".to_vec(),
            &["line 2", "expected 3 fields, found 2"],
        ),
        (
            "one",
            b"s00\n".to_vec(),
            &[
                "line 1",
                "expected a header",
                "exactly two fields",
                "found 1",
            ],
        ),
        (
            "unknown",
            format!("{header}s00\tfirst\nnope\tfirst\n").into(),
            &["line 3", "no sample 'nope'"],
        ),
        (
            "near",
            format!("{header}s00x\tfirst\n").into(),
            &["line 2", "no sample 's00x'", "near: 's00'"],
        ),
        (
            "unnamed",
            format!("{header}s00\t\n").into(),
            &["line 2", "sample 's00' has an empty population name"],
        ),
        ("nobody", b"\tfirst\n".to_vec(), &["line 1", "no sample ''"]),
        (
            "header",
            b"sample_id\tgroup\ns00\tx\n".to_vec(),
            &[
                "line 1",
                "it must name the columns 'sample_id' and 'population'",
            ],
        ),
        (
            "utf8",
            [header.as_bytes(), b"\xff\xfe\tfirst\n"].concat(),
            &["line 2", "UTF-8"],
        ),
        (
            "empty",
            header.into(),
            &["holds no population", "a sample id and a population name"],
        ),
        ("nothing", vec![], &["holds no population"]),
        (
            "columns",
            b"IID\tPop\tsex\ns00\tx\tF\n".to_vec(),
            &[
                "line 1",
                "a header of other names ('IID', 'Pop', 'sex')",
                ":SAMPLE_COLUMN,POPULATION_COLUMN'",
                "'vcz.sample_column' and 'vcz.population_column'",
            ],
        ),
        (
            "spaces",
            b"s00 first\n".to_vec(),
            &["line 1", "separated by tabs or commas", "by spaces"],
        ),
        (
            "semicolons",
            b"sample_id;population\ns00;first\n".to_vec(),
            &["line 1", "separated by tabs or commas", "by semicolons"],
        ),
        (
            "swapped",
            format!("{header}first\ts00\n").into(),
            &["line 2", "'s00', is a sample", "seem to be swapped"],
        ),
    ] {
        let path = file(&at, &format!("{name}.tsv"), text);
        let sql = format!(
            "{} OPTIONS ('vcz.populations' '{path}')",
            create_sql(&store.display().to_string())
        );
        let parts: Vec<&str> = parts.iter().copied().chain([path.as_str()]).collect();
        bench.refuses(&sql, &parts).await;
    }
    let missing = at.join("missing.tsv").display().to_string();
    let sql = format!(
        "{} OPTIONS ('vcz.populations' '{missing}')",
        create_sql(&store.display().to_string())
    );
    bench
        .refuses(&sql, &[missing.as_str(), "there is no file"])
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_masks() {
    let bench = Bench::new().await;
    let at = folder("masks");
    for (name, text, parts) in [
        (
            "back",
            "chr1\t500\t100\n",
            &["line 1", "end must not be below start", "500", "100"][..],
        ),
        (
            "later",
            "chr1\t0\t100\nchr1\t500\t100\n",
            &["line 2", "end must not be below start"],
        ),
        (
            "foreign",
            "X\t0\t100\n",
            &[
                "no contig name",
                "'X'",
                "'chr1', 'chr2'",
                "rename the contigs",
            ],
        ),
        ("short", "chr1\t0\n", &["line 1", "contig, start and end"]),
        (
            "text",
            "chr1\ta\t5\n",
            &["line 1", "start must be a whole number", "'a'"],
        ),
        (
            "below",
            "chr1\t-4\t5\n",
            &["line 1", "must not be below 0", "-4"],
        ),
    ] {
        let path = file(&at, &format!("{name}.bed"), text);
        let parts: Vec<&str> = parts.iter().copied().chain([path.as_str()]).collect();
        let site = format!("is_accessible(variant_contig, variant_position, '{path}')");
        bench
            .refuses(&format!("SELECT count(*) FROM sim WHERE {site}"), &parts)
            .await;
        bench
            .refuses(
                &format!("SELECT * FROM genome_windows('sim', 10000, 10000, '{path}')"),
                &parts,
            )
            .await;
    }
    let missing = at.join("missing.bed").display().to_string();
    let sql = format!(
        "SELECT count(*) FROM sim WHERE is_accessible(variant_contig, variant_position, '{missing}')"
    );
    bench
        .refuses(&sql, &[missing.as_str(), "there is no file"])
        .await;
    let sql = "SELECT count(*) FROM sim WHERE is_accessible(variant_contig, variant_position, variant_id)";
    bench
        .refuses(sql, &["the mask must be a constant", "BED", "variant_id"])
        .await;
}

// A server that knows GET, HEAD and ranges, and cannot list.

#[cfg(feature = "cli")] // Brings object_store's client for HTTP.
mod http {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::Arc;

    use object_store::ClientOptions;
    use object_store::http::HttpBuilder;
    use url::Url;

    use super::*;

    #[derive(Default)]
    struct Seen {
        ranges: AtomicUsize,
        absent: AtomicUsize,
        other_methods: AtomicUsize,
    }

    /// Serves the files below `root`, and gives the server's address.
    fn serve(root: PathBuf) -> (String, Arc<Seen>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Seen::default());
        let counted = Arc::clone(&seen);
        // Ends with the process.
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (root, seen) = (root.clone(), Arc::clone(&counted));
                std::thread::spawn(move || while answer(&stream, &root, &seen).unwrap_or(false) {});
            }
        });
        (address, seen)
    }

    /// Answers one request; false at the end of the connection.
    fn answer(stream: &TcpStream, root: &Path, seen: &Seen) -> std::io::Result<bool> {
        let mut lines = BufReader::new(stream.take(1 << 16));
        let mut first = String::new();
        if lines.read_line(&mut first)? == 0 {
            return Ok(false);
        }
        let mut range = None;
        loop {
            let mut line = String::new();
            if lines.read_line(&mut line)? == 0 || line == "\r\n" {
                break;
            }
            let line = line.trim().to_ascii_lowercase();
            range = line
                .strip_prefix("range: bytes=")
                .map(str::to_string)
                .or(range);
        }
        let mut words = first.split_whitespace();
        let (method, path) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        let file = fs::read(root.join(path.trim_start_matches('/'))).ok();
        let (status, extra, body) = match (method, file, range) {
            ("GET" | "HEAD", None, _) => {
                seen.absent.fetch_add(1, Ordering::Relaxed);
                ("404 Not Found", String::new(), vec![])
            }
            ("GET" | "HEAD", Some(bytes), None) => ("200 OK", String::new(), bytes),
            ("GET" | "HEAD", Some(bytes), Some(range)) => {
                seen.ranges.fetch_add(1, Ordering::Relaxed);
                let total = bytes.len();
                let (from, to) = match range.split_once('-').unwrap() {
                    ("", last) => (total.saturating_sub(last.parse().unwrap()), total),
                    (from, "") => (from.parse().unwrap(), total),
                    (from, to) => (
                        from.parse().unwrap(),
                        total.min(to.parse::<usize>().unwrap() + 1),
                    ),
                };
                let extra = format!("Content-Range: bytes {from}-{}/{total}\r\n", to - 1);
                ("206 Partial Content", extra, bytes[from..to].to_vec())
            }
            _ => {
                seen.other_methods.fetch_add(1, Ordering::Relaxed);
                ("405 Method Not Allowed", String::new(), vec![])
            }
        };
        let mut stream = stream;
        write!(
            stream,
            "HTTP/1.1 {status}\r\nContent-Length: {}\r\n{extra}\r\n",
            body.len()
        )?;
        if method != "HEAD" {
            stream.write_all(&body)?;
        }
        stream.flush()?;
        Ok(true)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn stores_on_a_server_that_cannot_list() {
        let bench = Bench::new().await;
        let root = folder("http");
        for name in ["sim", "sim.v3"] {
            let zip = fixtures().join(format!("{name}.vcz.zip"));
            unpack(&zip, &root);
            fs::copy(&zip, root.join(format!("{name}.vcz.zip"))).unwrap();
        }
        fs::copy(
            fixtures().join("sim.populations.tsv"),
            root.join("sim.populations.tsv"),
        )
        .unwrap();
        fs::create_dir_all(root.join("nothing.vcz")).unwrap();
        let (address, seen) = serve(root);
        let client = ClientOptions::new().with_allow_http(true);
        let store = HttpBuilder::new()
            .with_url(&address)
            .with_client_options(client)
            .build()
            .unwrap();
        bench
            .ctx
            .runtime_env()
            .register_object_store(&Url::parse(&address).unwrap(), Arc::new(store));

        let sfs = "SELECT sfs(call_genotype), sfs(call_genotype, 'first'), sum(variant_position), \
                   max(variant_contig || variant_allele[1] || variant_id) FROM ";
        let local = row(&bench.ctx, &format!("{sfs} sim")).await;
        let populations = format!("OPTIONS ('vcz.populations' '{address}/sim.populations.tsv')");
        for name in ["sim.vcz", "sim.v3.vcz", "sim.vcz.zip", "sim.v3.vcz.zip"] {
            let location = format!("{address}/{name}");
            bench
                .open(Path::new(&location), &populations)
                .await
                .unwrap_or_else(|error| panic!("{location}: {error}"));
            assert_eq!(
                row(&bench.ctx, &format!("{sfs} t")).await,
                local,
                "{location}"
            );
            let region = "SELECT count(*) FROM t WHERE variant_contig = 'chr2' AND variant_position <= 50000";
            assert_eq!(
                row(&bench.ctx, region).await,
                row(&bench.ctx, &region.replace(" t ", " sim ")).await
            );
            let by_url = row(
                &bench.ctx,
                &format!("SELECT diversity(call_genotype) FROM '{location}'"),
            )
            .await;
            assert_eq!(
                by_url,
                row(&bench.ctx, "SELECT diversity(call_genotype) FROM sim").await,
                "{location}"
            );
        }
        assert!(
            seen.ranges.load(Ordering::Relaxed) > 0,
            "archives are read in ranges"
        );
        assert!(
            seen.absent.load(Ordering::Relaxed) > 0,
            "absent chunks and arrays were asked for"
        );
        assert_eq!(
            seen.other_methods.load(Ordering::Relaxed),
            0,
            "only GET and HEAD are used"
        );

        for name in ["nothing.vcz", "missing.vcz", "missing.vcz.zip"] {
            let location = format!("{address}/{name}");
            bench
                .refuses(
                    &create_sql(&location),
                    &[location.as_str(), "is not a VCZ store"],
                )
                .await;
        }
        let unknown = "http://127.0.0.1:1/sim.vcz";
        bench
            .refuses(&create_sql(unknown), &["http://127.0.0.1:1"])
            .await;
    }
}

/// The helper of these tests reads archives as the engine does.
#[test]
fn fixtures_have_the_entries_that_these_tests_change() {
    for name in ["sim.vcz.zip", "layouts/zip-deflated.vcz.zip"] {
        let zip = fs::read(fixtures().join(name)).unwrap();
        assert!(
            entries(&zip)
                .iter()
                .any(|(key, _)| key == "call_genotype/0.0.0"),
            "{name}"
        );
        let (entry, _) = records(&zip, "call_genotype/0.0.0");
        assert_eq!(&zip[entry..entry + 4], b"PK\x01\x02", "{name}");
    }
}

/// Pairs are listed of so many populations and no more; the error says what to do.
#[tokio::test]
async fn too_many_populations_for_all_pairs() {
    for (populations, is_error) in [(1000, false), (1001, true)] {
        let ctx = plain_session();
        let file = work_dir().join(format!("{populations}.populations.tsv"));
        let lines = (0..populations).map(|at| format!("s{:02}\tp{at}\n", at % 30));
        let text = format!("sample_id\tpopulation\n{}", lines.collect::<String>());
        fs::write(&file, text).unwrap();
        create(&ctx, "t", &fixtures().join("sim.vcz.zip"), Some(&file)).await;
        let sql = "SELECT p['population1'], divergence(p['ac1'], p['ac2']) FROM \
                   (SELECT unnest(population_pair_counts(call_genotype)) AS p FROM t) GROUP BY 1";
        let planned = match ctx.sql(sql).await {
            Ok(frame) => frame.create_physical_plan().await.map(|_| ()),
            Err(error) => Err(error),
        };
        assert_eq!(planned.is_err(), is_error, "{planned:?}");
        if let Err(error) = planned {
            let error = error.to_string();
            for part in [
                "population_pair_counts",
                "1001 populations",
                "1000 at most",
                "name the pairs",
            ] {
                assert!(error.contains(part), "{error}");
            }
        }
    }
}
