//! Descriptions of an opened table, for the metadata table functions and `vcz inspect`. They come from metadata, except for the
//! stored sizes of arrays, for which chunks are listed.

use std::sync::Arc;

use futures::StreamExt;
use serde::Serialize;
use serde_json::{Map, Value};

use super::stores::Stores;
use super::table::VczTable;
use crate::codec::CodecChain;
use crate::counts::SampleSet;
use crate::store::{ArrayMeta, CodecSpec, Store, ZarrFormat};

/// Arrays whose chunks are listed at the same time; listing is slow only on object stores.
const CONCURRENT_LISTINGS: usize = 16;

/// A store, or several that are one table, as a whole. Serialised by `vcz inspect --format json`, so the fields' names are stable.
#[derive(Debug, Clone, Serialize)]
pub struct StoreReport {
    /// The location as the user gave it.
    pub location: String,
    /// 2 or 3; that of the first store, if there are several.
    pub zarr_format: u8,
    /// Version of the VCF Zarr specification that the first store follows.
    pub vcf_zarr_version: String,
    /// The program that wrote the first store, if that is recorded.
    pub source: Option<String>,
    /// Number of variants, rows of the table.
    pub variants: u64,
    /// Number of samples.
    pub samples: usize,
    /// Copies per individual; `None` without genotypes.
    pub ploidy: Option<usize>,
    /// Width of `variant_allele`, the number of alleles that are counted; `None` if the store has no such array.
    pub alleles: Option<u64>,
    /// Warnings: what is unusual about the store, but does not prevent reading it.
    pub warnings: Vec<String>,
    /// The stores, of which a table may have several.
    pub stores: Vec<MemberReport>,
    /// The contigs in the table's order.
    pub contigs: Vec<ContigReport>,
    /// The named populations in the order of their file.
    pub populations: Vec<PopulationReport>,
    /// Sample ids in column order.
    pub sample_ids: Vec<String>,
    /// The arrays by name, those that cannot be read included.
    pub arrays: Vec<ArrayReport>,
}

/// One of the stores of a table.
#[derive(Debug, Clone, Serialize)]
pub struct MemberReport {
    /// Its location.
    pub location: String,
    /// 2 or 3.
    pub zarr_format: u8,
    /// Number of variants.
    pub variants: u64,
}

/// A contig.
#[derive(Debug, Clone, Serialize)]
pub struct ContigReport {
    /// The name, as in `variant_contig`.
    pub name: String,
    /// Its index in `contig_id` or, with several stores, in the contigs of all.
    pub index: usize,
    /// Length in bases, if the store records it.
    pub length: Option<i64>,
    /// Number of variants, if known without reading positions.
    pub variants: Option<u64>,
}

/// A named population.
#[derive(Debug, Clone, Serialize)]
pub struct PopulationReport {
    /// The name, as functions take it.
    pub name: String,
    /// Number of samples.
    pub samples: usize,
    /// Number of copies N: samples × ploidy.
    pub copies: u64,
    /// The samples' ids in store order.
    pub sample_ids: Vec<String>,
}

/// An array. If its metadata is not supported, only name, backend and reason are known.
#[derive(Debug, Clone, Serialize)]
pub struct ArrayReport {
    /// The store's location.
    pub store: String,
    /// The array's name.
    pub name: String,
    /// The dimensions' names; `None` where the store has none.
    pub dimensions: Option<Vec<String>>,
    /// Elements in each dimension.
    pub shape: Option<Vec<u64>>,
    /// Elements of a chunk in each dimension.
    pub chunks: Option<Vec<u64>>,
    /// The type of an element.
    pub dtype: Option<String>,
    /// How a chunk is encoded, in order: each codec with its parameters.
    pub codecs: Option<Vec<String>>,
    /// Bytes of the stored chunks; `None` where chunks cannot be listed, or sizes were not requested.
    pub stored_bytes: Option<u64>,
    /// Bytes of the decoded elements; `None` for text of variable length.
    pub decoded_bytes: Option<u64>,
    /// The backend: `gpu` or `host`, or `none` if neither can decode it.
    pub backend: String,
    /// Why this backend decodes it.
    pub reason: String,
}

impl StoreReport {
    /// Collects everything, the stored sizes of arrays included.
    pub async fn of(table: &VczTable) -> Self {
        let stores = table.stores();
        let all: Vec<&Store> = (stores.members().iter())
            .map(|member| member.dataset.store())
            .collect();
        let width = |name: &str, axis: usize| {
            let mut columns = stores.columns().iter();
            let column = columns.find(|column| column.array.name == name)?;
            column.array.shape.get(axis).copied()
        };
        let warnings = all.iter().flat_map(|store| {
            let named = |warning: &String| match all.len() {
                1 => warning.clone(),
                _ => format!("store '{}': {warning}", store.location()),
            };
            store.warnings().iter().map(named)
        });
        // With several stores, properties of a single store are those of the first.
        let first = all.first();
        let source = first.and_then(|store| store.attributes().get("source"));
        Self {
            location: stores.location().to_string(),
            zarr_format: first.map_or(0, |store| format_of(store)),
            vcf_zarr_version: first.map_or_else(String::new, |store| store.version().to_string()),
            source: source.and_then(Value::as_str).map(str::to_string),
            variants: stores.n_variants(),
            samples: stores.sample_ids().len(),
            ploidy: width("call_genotype", 2).and_then(|ploidy| usize::try_from(ploidy).ok()),
            alleles: width("variant_allele", 1),
            warnings: warnings.collect(),
            stores: (stores.members().iter())
                .map(|member| MemberReport {
                    location: member.dataset.store().location().to_string(),
                    zarr_format: format_of(member.dataset.store()),
                    variants: member.dataset.n_variants(),
                })
                .collect(),
            contigs: contigs(stores),
            populations: populations(table),
            sample_ids: stores.sample_ids().to_vec(),
            arrays: arrays(stores, true).await,
        }
    }
}

fn format_of(store: &Store) -> u8 {
    match store.format() {
        ZarrFormat::V2 => 2,
        ZarrFormat::V3 => 3,
    }
}

/// The contigs in the table's order. Variants are counted where zones are known: from the region index, or because an
/// earlier query has read the positions.
pub fn contigs(stores: &Stores) -> Vec<ContigReport> {
    let names = stores.contigs();
    let counts = stores.known_zones().map(|zones| {
        let mut counts = vec![0u64; names.len()];
        for zone in &zones.zones {
            if let Some(count) = counts.get_mut(zone.contig) {
                *count += zone.rows.end - zone.rows.start;
            }
        }
        counts
    });
    let lengths = stores.contig_lengths();
    let report = |(index, name): (usize, &String)| ContigReport {
        name: name.clone(),
        index,
        // Writers store 0 or -1 where the VCF header has no length.
        length: lengths
            .and_then(|lengths| lengths.get(index).copied())
            .filter(|&length| length > 0),
        variants: counts
            .as_ref()
            .and_then(|counts| counts.get(index).copied()),
    };
    names.iter().enumerate().map(report).collect()
}

/// The named populations in the order of their file.
pub fn populations(table: &VczTable) -> Vec<PopulationReport> {
    let context = table.context();
    let ids = context.sample_ids();
    let report = |(name, samples): (&str, &Arc<SampleSet>)| PopulationReport {
        name: name.to_string(),
        samples: samples.len(),
        copies: context.copies(samples),
        sample_ids: samples
            .iter()
            .filter_map(|at| ids.get(at as usize).cloned())
            .collect(),
    };
    context.populations().iter().map(report).collect()
}

/// The arrays of each store by name, those with unsupported metadata included. Chunks are listed only if `stored_bytes`.
pub async fn arrays(stores: &Stores, stored_bytes: bool) -> Vec<ArrayReport> {
    // The backend of an array depends on whether there is a GPU.
    crate::scan::plan::backend::wait_for_status().await;
    let mut reports = Vec::new();
    for member in stores.members() {
        reports.extend(arrays_of(member.dataset.store(), stored_bytes).await);
    }
    reports
}

async fn arrays_of(store: &Store, stored_bytes: bool) -> Vec<ArrayReport> {
    let known: Vec<Arc<ArrayMeta>> = store.arrays().cloned().collect();
    let known = futures::stream::iter(known).map(|array| async move {
        // If listing fails, the size is unknown, but the rest is still shown.
        let stored = if stored_bytes {
            store.stored_bytes(&array).await.ok().flatten()
        } else {
            None
        };
        array_report(store, &array, stored)
    });
    let mut reports: Vec<ArrayReport> = known.buffered(CONCURRENT_LISTINGS).collect().await;
    reports.extend(store.unreadable().iter().map(|(name, reason)| ArrayReport {
        store: store.location().to_string(),
        name: name.clone(),
        dimensions: None,
        shape: None,
        chunks: None,
        dtype: None,
        codecs: None,
        stored_bytes: None,
        decoded_bytes: None,
        backend: "none".to_string(),
        reason: reason.to_string(),
    }));
    reports.sort_by(|a, b| a.name.cmp(&b.name));
    reports
}

fn array_report(store: &Store, array: &ArrayMeta, stored_bytes: Option<u64>) -> ArrayReport {
    let (backend, reason) = backend_of(array);
    let element = array.element.size().map(|size| size as u64);
    ArrayReport {
        store: store.location().to_string(),
        name: array.name.clone(),
        dimensions: (!array.dimensions.is_empty()).then(|| array.dimensions.clone()),
        shape: Some(array.shape.clone()),
        chunks: Some(array.chunks.clone()),
        dtype: Some(array.element.to_string()),
        codecs: Some(array.codecs.iter().map(describe_codec).collect()),
        stored_bytes,
        decoded_bytes: element.and_then(|size| array.n_elements()?.checked_mul(size)),
        backend: backend.to_string(),
        reason,
    }
}

/// The backend of an array, and the reason.
fn backend_of(array: &ArrayMeta) -> (&'static str, String) {
    match CodecChain::try_new(array) {
        Ok(chain) => crate::scan::plan::backend::of_array(array, &chain),
        Err(reason) => ("none", reason.into()),
    }
}

/// A codec with its parameters on one line: `blosc(blocksize=0, clevel=7, cname=zstd, shuffle=bitshuffle)`.
fn describe_codec(codec: &CodecSpec) -> String {
    describe_parts(&codec.name, &codec.configuration)
}

fn describe_parts(name: &str, configuration: &Map<String, Value>) -> String {
    if configuration.is_empty() {
        return name.to_string();
    }
    let parameter = |(key, value): (&String, &Value)| match (name, key.as_str(), value.as_i64()) {
        // Zarr v2 has numbers where v3 has names.
        ("blosc", "shuffle", Some(0)) => "shuffle=noshuffle".to_string(),
        ("blosc", "shuffle", Some(1)) => "shuffle=shuffle".to_string(),
        ("blosc", "shuffle", Some(2)) => "shuffle=bitshuffle".to_string(),
        ("blosc", "shuffle", Some(-1)) => "shuffle=auto".to_string(),
        _ => format!("{key}={}", describe_value(value)),
    };
    let mut parameters: Vec<String> = configuration.iter().map(parameter).collect();
    // Writers have them in different orders.
    parameters.sort();
    format!("{name}({})", parameters.join(", "))
}

/// A parameter's value; the codecs inside a shard are shown like those outside.
fn describe_value(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(describe_value).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(object) => match object.get("name").and_then(Value::as_str) {
            Some(name) => {
                let none = Map::new();
                let configuration = object
                    .get("configuration")
                    .and_then(Value::as_object)
                    .unwrap_or(&none);
                describe_parts(name, configuration)
            }
            None => value.to_string(),
        },
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn codec(name: &str, configuration: Value) -> CodecSpec {
        CodecSpec {
            name: name.to_string(),
            configuration: configuration.as_object().cloned().unwrap_or_default(),
        }
    }

    #[test]
    fn codecs_on_one_line() {
        assert_eq!(describe_codec(&CodecSpec::named("crc32c")), "crc32c");
        let blosc = codec(
            "blosc",
            json!({"cname": "zstd", "clevel": 7, "shuffle": 2, "blocksize": 0}),
        );
        assert_eq!(
            describe_codec(&blosc),
            "blosc(blocksize=0, clevel=7, cname=zstd, shuffle=bitshuffle)"
        );
        let shard = codec(
            "sharding_indexed",
            json!({
                "chunk_shape": [10, 5],
                "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}],
            }),
        );
        assert_eq!(
            describe_codec(&shard),
            "sharding_indexed(chunk_shape=[10, 5], codecs=[bytes(endian=little), crc32c])"
        );
    }
}
