//! Writes small stores, in Zarr v2 or v3, of the sites that a test gives: the same sites can be one store or many, with the columns,
//! types, chunks and index that each is to have.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// A site with the calls of all samples.
#[derive(Debug, Clone)]
pub struct Site {
    /// Index into the contigs of all.
    pub contig: usize,
    pub position: i32,
    pub alleles: Vec<String>,
    /// Sample by sample, two codes each.
    pub genotypes: Vec<i8>,
    /// DP of each call; −1 is missing.
    pub depth: Vec<i16>,
    /// AD of each call, for each allele.
    pub allele_depth: Vec<Vec<i16>>,
    /// Which filters apply, of `FILTERS`.
    pub filters: Vec<bool>,
    pub total_depth: i32,
}

/// Names of the filters.
pub const FILTERS: [&str; 3] = ["PASS", "q10", "low"];

/// How a store is written.
#[derive(Debug, Clone)]
pub struct Form {
    /// 2 or 3.
    pub format: u8,
    /// Rows of a chunk.
    pub chunk: usize,
    /// Whether there is a region index.
    pub is_indexed: bool,
    /// K.
    pub alleles: usize,
    /// Bytes of INFO/DP and of FORMAT/DP.
    pub depth_width: usize,
    /// The order of the filters.
    pub filters: Vec<usize>,
    /// The contigs that it names: of those of all sites.
    pub contigs: Vec<usize>,
    /// Arrays that are left out.
    pub without: Vec<&'static str>,
    /// Whether AC has one value for each site, where K is 2.
    pub is_ac_flat: bool,
    /// Copies of each call: the genotypes' first ones, or padding.
    pub ploidy: usize,
    pub samples: Vec<String>,
}

impl Form {
    /// A store of these samples and contigs, with everything.
    pub fn new(samples: &[String], contigs: Vec<usize>) -> Self {
        Self {
            format: 3,
            chunk: 10,
            is_indexed: true,
            alleles: 4,
            depth_width: 2,
            filters: vec![0, 1, 2],
            contigs,
            without: vec![],
            is_ac_flat: false,
            ploidy: 2,
            samples: samples.to_vec(),
        }
    }
}

/// The values of an array, row by row.
enum Values {
    /// Bytes of fixed width.
    Fixed(&'static str, Vec<u8>),
    Text(Vec<String>),
}

/// Numbers of the width that an array has.
fn integers(width: usize, values: impl Iterator<Item = i64>) -> Values {
    let mut bytes = Vec::new();
    for value in values {
        bytes.extend(&value.to_le_bytes()[..width]);
    }
    let name = match width {
        1 => "int8",
        2 => "int16",
        4 => "int32",
        _ => "int64",
    };
    Values::Fixed(name, bytes)
}

fn flags(values: impl Iterator<Item = bool>) -> Values {
    Values::Fixed("bool", values.map(u8::from).collect())
}

fn width_of(data_type: &str) -> usize {
    match data_type {
        "int8" | "bool" => 1,
        "int16" => 2,
        "int32" | "float32" => 4,
        _ => 8,
    }
}

/// Texts as vlen-utf8 has them.
fn vlen(texts: &[String]) -> Vec<u8> {
    let mut bytes = (texts.len() as u32).to_le_bytes().to_vec();
    for text in texts {
        bytes.extend((text.len() as u32).to_le_bytes());
        bytes.extend(text.as_bytes());
    }
    bytes
}

struct Writer<'a> {
    folder: &'a Path,
    form: &'a Form,
}

impl Writer<'_> {
    fn put(&self, key: &str, bytes: &[u8]) {
        let path = self.folder.join(key);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    fn array(&self, name: &'static str, dimensions: &[&str], shape: &[usize], values: Values) {
        if self.form.without.contains(&name) {
            return;
        }
        let over_sites = dimensions[0] == "variants";
        let mut chunks: Vec<usize> = shape.iter().map(|&n| n.max(1)).collect();
        if over_sites {
            chunks[0] = self.form.chunk;
        }
        let data_type = match &values {
            Values::Fixed(data_type, _) => data_type,
            Values::Text(_) => "string",
        };
        if self.form.format == 2 {
            let short = match data_type {
                "int8" => "|i1",
                "int16" => "<i2",
                "int32" => "<i4",
                "int64" => "<i8",
                "float32" => "<f4",
                "bool" => "|b1",
                _ => "|O",
            };
            let filters = match values {
                Values::Text(_) => json!([{"id": "vlen-utf8"}]),
                Values::Fixed(..) => Value::Null,
            };
            let array = json!({"zarr_format": 2, "shape": shape, "chunks": chunks, "dtype": short,
                "compressor": null, "filters": filters, "fill_value": null, "order": "C",
                "dimension_separator": "."});
            self.put(&format!("{name}/.zarray"), array.to_string().as_bytes());
            let attributes = json!({"_ARRAY_DIMENSIONS": dimensions});
            self.put(
                &format!("{name}/.zattrs"),
                attributes.to_string().as_bytes(),
            );
        } else {
            let (codec, fill) = match values {
                Values::Text(_) => (json!({"name": "vlen-utf8"}), json!("")),
                Values::Fixed("bool", _) => (
                    json!({"name": "bytes", "configuration": {"endian": "little"}}),
                    json!(false),
                ),
                Values::Fixed(..) => (
                    json!({"name": "bytes", "configuration": {"endian": "little"}}),
                    json!(0),
                ),
            };
            let array = json!({"zarr_format": 3, "node_type": "array", "shape": shape, "data_type": data_type,
                "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunks}},
                "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
                "fill_value": fill, "codecs": [codec], "dimension_names": dimensions, "attributes": {}});
            self.put(&format!("{name}/zarr.json"), array.to_string().as_bytes());
        }
        let per_row: usize = shape[1..].iter().product();
        for (at, first) in (0..shape[0]).step_by(chunks[0]).enumerate() {
            let rows = first * per_row..shape[0].min(first + chunks[0]) * per_row;
            let whole = chunks[0] * per_row;
            let bytes = match &values {
                Values::Fixed(data_type, bytes) => {
                    let width = width_of(data_type);
                    let mut chunk = bytes[rows.start * width..rows.end * width].to_vec();
                    chunk.resize(whole * width, 0);
                    chunk
                }
                Values::Text(texts) => {
                    let mut chunk = texts[rows].to_vec();
                    chunk.resize(whole, String::new());
                    vlen(&chunk)
                }
            };
            let mut index = vec![at.to_string()];
            index.extend(vec!["0".to_string(); shape.len() - 1]);
            self.put(
                &match self.form.format {
                    2 => format!("{name}/{}", index.join(".")),
                    _ => format!("{name}/c/{}", index.join("/")),
                },
                &bytes,
            );
        }
    }
}

/// Writes `sites` as a store into the folder `folder`, which it gives. `contigs` are the names and lengths of all sites' contigs.
pub fn write(folder: &Path, sites: &[Site], contigs: &[(&str, i64)], form: &Form) -> PathBuf {
    let writer = Writer { folder, form };
    let version = json!({"vcf_zarr_version": "0.4", "source": "store_writer"});
    if form.format == 2 {
        writer.put(".zgroup", br#"{"zarr_format": 2}"#);
        writer.put(".zattrs", version.to_string().as_bytes());
    } else {
        let group = json!({"zarr_format": 3, "node_type": "group", "attributes": version});
        writer.put("zarr.json", group.to_string().as_bytes());
    }
    let (n, s, k) = (sites.len(), form.samples.len(), form.alleles);
    let own = |contig: usize| form.contigs.iter().position(|at| *at == contig).unwrap();
    let texts = |values: Vec<&str>| Values::Text(values.into_iter().map(str::to_string).collect());
    writer.array(
        "sample_id",
        &["samples"],
        &[s],
        Values::Text(form.samples.clone()),
    );
    let named = form.contigs.iter().map(|&at| contigs[at]);
    writer.array(
        "contig_id",
        &["contigs"],
        &[form.contigs.len()],
        texts(named.clone().map(|(name, _)| name).collect()),
    );
    writer.array(
        "contig_length",
        &["contigs"],
        &[form.contigs.len()],
        integers(8, named.map(|(_, length)| length)),
    );
    let filters = form.filters.iter().map(|&at| FILTERS[at]).collect();
    writer.array(
        "filter_id",
        &["filters"],
        &[form.filters.len()],
        texts(filters),
    );
    let by_site =
        |width: usize, value: &dyn Fn(&Site) -> i64| integers(width, sites.iter().map(value));
    writer.array(
        "variant_contig",
        &["variants"],
        &[n],
        by_site(1, &|site| own(site.contig) as i64),
    );
    writer.array(
        "variant_position",
        &["variants"],
        &[n],
        by_site(4, &|site| i64::from(site.position)),
    );
    writer.array(
        "variant_DP",
        &["variants"],
        &[n],
        by_site(form.depth_width, &|site| i64::from(site.total_depth)),
    );
    let ids = sites.iter().map(|site| match site.position % 3 {
        0 => ".".to_string(),
        _ => format!("rs{}_{}", site.contig, site.position),
    });
    writer.array(
        "variant_id",
        &["variants"],
        &[n],
        Values::Text(ids.collect()),
    );
    let alleles = sites
        .iter()
        .flat_map(|site| (0..k).map(|at| site.alleles.get(at).cloned().unwrap_or_default()));
    writer.array(
        "variant_allele",
        &["variants", "alleles"],
        &[n, k],
        Values::Text(alleles.collect()),
    );
    let applied = sites
        .iter()
        .flat_map(|site| form.filters.iter().map(|&at| site.filters[at]));
    writer.array(
        "variant_filter",
        &["variants", "filters"],
        &[n, form.filters.len()],
        flags(applied),
    );
    // Counts of ALT alleles; −2 is fill.
    let counts = sites.iter().flat_map(|site| {
        (1..k).map(|allele| match allele < site.alleles.len() {
            true => site
                .genotypes
                .iter()
                .filter(|code| **code == allele as i8)
                .count() as i64,
            false => -2,
        })
    });
    let (dimensions, shape): (&[&str], Vec<usize>) = match form.is_ac_flat {
        true => (&["variants"], vec![n]),
        false => (&["variants", "alt_alleles"], vec![n, k - 1]),
    };
    writer.array("variant_AC", dimensions, &shape, integers(2, counts));
    let copies = sites.iter().flat_map(|site| {
        site.genotypes.chunks(2).flat_map(|call| {
            (0..form.ploidy).map(|copy| i64::from(call.get(copy).copied().unwrap_or(-2)))
        })
    });
    writer.array(
        "call_genotype",
        &["variants", "samples", "ploidy"],
        &[n, s, form.ploidy],
        integers(1, copies),
    );
    let depth = sites
        .iter()
        .flat_map(|site| site.depth.iter().map(|&dp| i64::from(dp)));
    writer.array(
        "call_DP",
        &["variants", "samples"],
        &[n, s],
        integers(form.depth_width.min(2), depth.clone()),
    );
    writer.array(
        "call_GQ",
        &["variants", "samples"],
        &[n, s],
        integers(1, depth),
    );
    let depths = sites.iter().flat_map(|site| {
        site.allele_depth
            .iter()
            .flat_map(|call| (0..k).map(|allele| call.get(allele).map_or(-2, |&ad| i64::from(ad))))
    });
    writer.array(
        "call_AD",
        &["variants", "samples", "alleles"],
        &[n, s, k],
        integers(2, depths),
    );
    if form.is_indexed {
        let mut index: Vec<[i64; 6]> = Vec::new();
        for (at, chunk) in sites.chunks(form.chunk).enumerate() {
            for run in chunk.chunk_by(|a, b| a.contig == b.contig) {
                let (first, last) = (&run[0], &run[run.len() - 1]);
                let end = i64::from(last.position);
                index.push([
                    at as i64,
                    own(first.contig) as i64,
                    i64::from(first.position),
                    end,
                    end,
                    run.len() as i64,
                ]);
            }
        }
        let rows = index.len();
        writer.array(
            "region_index",
            &["region_index_values", "region_index_fields"],
            &[rows, 6],
            integers(4, index.into_iter().flatten()),
        );
    }
    folder.to_path_buf()
}

/// The store in the folder `folder` as a zip archive beside it, in place of the folder.
pub fn zipped(folder: &Path) -> PathBuf {
    let target = folder.with_extension("vcz.zip");
    let mut out = fs::File::create(&target).unwrap();
    let (mut directory, mut at, mut count) = (Vec::new(), 0u32, 0u16);
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let data = fs::read(&path).unwrap();
            let key = path
                .strip_prefix(folder)
                .unwrap()
                .to_str()
                .unwrap()
                .to_string();
            // Version, flags, method and time are 0 or do not matter.
            let mut header = vec![20, 0, 0, 0, 0, 0, 0, 0, 0x21, 0];
            header.extend(crc32fast::hash(&data).to_le_bytes());
            header.extend((data.len() as u32).to_le_bytes());
            header.extend((data.len() as u32).to_le_bytes());
            header.extend((key.len() as u16).to_le_bytes());
            header.extend([0, 0]);
            directory.extend(b"PK\x01\x02\x14\0");
            directory.extend(&header);
            directory.extend([0; 10]);
            directory.extend(at.to_le_bytes());
            directory.extend(key.as_bytes());
            let local = [b"PK\x03\x04".as_slice(), &header, key.as_bytes(), &data].concat();
            out.write_all(&local).unwrap();
            at += local.len() as u32;
            count += 1;
        }
    }
    let mut end = b"PK\x05\x06\0\0\0\0".to_vec();
    end.extend(count.to_le_bytes());
    end.extend(count.to_le_bytes());
    end.extend((directory.len() as u32).to_le_bytes());
    end.extend(at.to_le_bytes());
    end.extend([0, 0]);
    out.write_all(&directory).unwrap();
    out.write_all(&end).unwrap();
    fs::remove_dir_all(folder).unwrap();
    target
}
