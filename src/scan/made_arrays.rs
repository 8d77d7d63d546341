//! What a store of another writer lacks and what it has instead: contigs by name for `variant_contig` and `contig_id`, reference and
//! alternate alleles for `variant_allele`. Used while a store is opened.
//!
//! Invariants: contigs are numbered in the order in which they appear; the chunks that are made have the rows of those that they are made of.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};

use super::chunks::chunk::{Chunk, Part, chunk_index, first_index, trailing_chunks};
use super::read::dense::{Dense, assemble};
use crate::codec::{CodecChain, Scratch, StringChunk};
use crate::error::{Result, VczError};
use crate::store::{ArrayMeta, ElementType, MadeArray, Store};

const CONTIGS: &str = "variants/CHROM";
const REFERENCE: &str = "variants/REF";
const ALTERNATES: &str = "variants/ALT";

/// Chunks of contigs' names that are read at the same time.
const CONCURRENT_CHUNKS: usize = 32;
/// Rows of a chunk of contigs that is made of nothing.
const ROWS_OF_ONE: u64 = 1 << 16;

/// A store that has all arrays that a table needs.
pub struct Completed {
    /// The store.
    pub store: Store,
    /// The names of its contigs, if they are not those of `contig_id`.
    pub contigs: Option<Vec<String>>,
}

/// Adds the arrays that a store of another writer lacks, where they can be made of what it has.
///
/// # Errors
/// If it does not say on which contigs its variants are, or what it says cannot be read.
pub async fn complete(store: Store) -> Result<Completed> {
    if store.follows_vcf_zarr() {
        return Ok(Completed {
            store,
            contigs: None,
        });
    }
    let Completed { store, contigs } = with_contigs(store).await?;
    let store = with_alleles(store)?;
    Ok(Completed { store, contigs })
}

async fn with_contigs(store: Store) -> Result<Completed> {
    let has = |name: &str| store.array(name).is_some() || store.unreadable().contains_key(name);
    if has("variant_contig") {
        if !has("contig_id") && store.contigs_attribute().is_none() {
            return Err(lacks(
                &store,
                "the names of its contigs were found neither as the array 'contig_id' nor as the attribute 'contigs'",
            ));
        }
        return Ok(Completed {
            store,
            contigs: None,
        });
    }
    let n_variants = store
        .array("variant_position")
        .and_then(|array| array.shape.first().copied())
        .unwrap_or(0);
    let (names, runs) = match (store.part(CONTIGS).cloned(), store.contig()) {
        (Some(array), _) => read_contigs(&store, &array).await?,
        (None, Some(contig)) => {
            let runs = ContigRuns {
                ends: vec![(n_variants, 0)],
                rows: ROWS_OF_ONE.min(n_variants.max(1)),
            };
            (vec![contig.to_string()], runs)
        }
        (None, None) => {
            return Err(lacks(
                &store,
                "the contigs of its variants were found neither as 'variant_contig' (VCF Zarr, sgkit, pg_gpu) nor as \
                 'variants/CHROM' (scikit-allel); if all are on one, name it by the table option 'vcz.contig'",
            ));
        }
    };
    let length = runs.ends.last().map_or(0, |(end, _)| *end);
    let store = store.with_made(
        "variant_contig",
        vec![length],
        vec![runs.rows],
        ElementType::Int32,
        Arc::new(runs),
    )?;
    Ok(Completed {
        store,
        contigs: Some(names),
    })
}

fn lacks(store: &Store, what: &str) -> VczError {
    VczError::NotAStore {
        store: store.location().to_string(),
        reason: format!(
            "it is a Zarr group whose attribute 'vcf_zarr_version' is missing, and {what}"
        ),
    }
}

/// Consecutive variants of the same contig.
#[derive(Debug)]
struct ContigRuns {
    /// For each run the row after its last one, and the contig's number.
    ends: Vec<(u64, i32)>,
    /// Rows of a chunk.
    rows: u64,
}

impl ContigRuns {
    /// The contigs of the chunk's rows, with padding.
    fn chunk_at(&self, chunk: u64) -> Vec<u8> {
        let first = chunk.saturating_mul(self.rows);
        let end = first.saturating_add(self.rows);
        let mut bytes = Vec::with_capacity((self.rows as usize).saturating_mul(4));
        let mut row = first;
        let from = self.ends.partition_point(|(end, _)| *end <= first);
        for (run_end, contig) in self.ends.get(from..).unwrap_or_default() {
            let stop = end.min(*run_end);
            for _ in row..stop {
                bytes.extend_from_slice(&contig.to_le_bytes());
            }
            row = stop;
            if row >= end {
                break;
            }
        }
        bytes.resize((self.rows as usize).saturating_mul(4), 0);
        bytes
    }
}

impl MadeArray for ContigRuns {
    fn chunk<'a>(&'a self, _store: &'a Store, index: &'a [u64]) -> BoxFuture<'a, Result<Bytes>> {
        let chunk = self.chunk_at(index.first().copied().unwrap_or(0));
        futures::future::ready(Ok(Bytes::from(chunk))).boxed()
    }
}

/// The names of contigs in the order in which they appear, and the contig of each variant.
async fn read_contigs(store: &Store, array: &Arc<ArrayMeta>) -> Result<(Vec<String>, ContigRuns)> {
    let refuse = |reason: String| metadata_error(store, array, reason);
    if array.rank() != 1 || !array.element.is_text() {
        return Err(refuse(format!(
            "expected text over variants, found {} with {} axes",
            array.element,
            array.rank()
        )));
    }
    let chain = CodecChain::try_new(array).map_err(|error| refuse(error.to_string()))?;
    let (mut names, mut numbers) = (Vec::new(), HashMap::new());
    let mut ends: Vec<(u64, i32)> = Vec::new();
    let mut row = 0u64;
    let read = |chunk: u64| async move { store.chunk(array, &[chunk]).await };
    let mut chunks = stream::iter(0..array.grid_shape()[0])
        .map(read)
        .buffered(CONCURRENT_CHUNKS)
        .boxed();
    let mut chunk = 0u64;
    while let Some(encoded) = chunks.try_next().await? {
        let index = [chunk];
        let wrong = |reason: String| chunk_error(store, array, &index, reason);
        let Some(encoded) = encoded else {
            return Err(wrong(
                "it is absent, so its variants have no contig".to_string(),
            ));
        };
        let strings = chain
            .decode(&encoded, &mut Scratch::default())
            .map_err(|reason| wrong(reason.to_string()))?;
        let crate::codec::ChunkData::Strings(strings) = strings else {
            return Err(wrong("expected text, found numbers".to_string()));
        };
        let rows = array.chunk_extent(&index)[0] as usize;
        let mut last: Option<(usize, i32)> = None;
        for at in 0..rows {
            let name = strings.get(at);
            let number = match last {
                Some((same, number)) if strings.get(same) == name => number,
                _ => match numbers.get(name) {
                    Some(number) => *number,
                    None if name.is_empty() => {
                        return Err(wrong(format!("variant {row} has no contig")));
                    }
                    None => {
                        let number = i32::try_from(names.len())
                            .map_err(|_| wrong("there are more than 2^31 contigs".to_string()))?;
                        names.push(name.to_string());
                        numbers.insert(name.to_string(), number);
                        number
                    }
                },
            };
            last = Some((at, number));
            row += 1;
            match ends.last_mut() {
                Some((end, known)) if *known == number => *end = row,
                _ => ends.push((row, number)),
            }
        }
        chunk += 1;
    }
    drop(chunks);
    let rows = array.chunks[0].min(row.max(1));
    Ok((names, ContigRuns { ends, rows }))
}

/// Adds `variant_allele`, where the store has the reference and the alternate alleles.
fn with_alleles(store: Store) -> Result<Store> {
    let parts = (
        store.part(REFERENCE).cloned(),
        store.part(ALTERNATES).cloned(),
    );
    let (Some(reference), Some(alternates)) = parts else {
        return Ok(store);
    };
    if store.array("variant_allele").is_some() {
        return Ok(store);
    }
    let rank = alternates.rank();
    if reference.rank() != 1
        || !(1..=2).contains(&rank)
        || reference.shape[0] != alternates.shape[0]
        || reference.chunks[0] != alternates.chunks[0]
        || !(reference.element.is_text() && alternates.element.is_text())
    {
        return Err(metadata_error(
            &store,
            &alternates,
            format!(
                "expected text over variants and alternate alleles with the variants of 'variants/REF', found {} of shape {:?} in chunks \
                 {:?}; 'variants/REF' is {} of shape {:?} in chunks {:?}",
                alternates.element,
                alternates.shape,
                alternates.chunks,
                reference.element,
                reference.shape,
                reference.chunks
            ),
        ));
    }
    let chain = |array: &Arc<ArrayMeta>| {
        CodecChain::try_new(array).map_err(|error| metadata_error(&store, array, error.to_string()))
    };
    let chains = (chain(&reference)?, chain(&alternates)?);
    let n = reference.shape[0];
    let n_alternates = alternates.shape.get(1).copied().unwrap_or(1);
    let rows = reference.chunks[0].min(n.max(1));
    let per_row = n_alternates.saturating_add(1);
    let made = Alleles {
        reference,
        alternates,
        chains,
        rows,
        per_row,
    };
    store.with_made(
        "variant_allele",
        vec![n, per_row],
        vec![rows, per_row],
        ElementType::String,
        Arc::new(made),
    )
}

/// Lists of all alleles, made of reference and alternate ones.
#[derive(Debug)]
struct Alleles {
    reference: Arc<ArrayMeta>,
    alternates: Arc<ArrayMeta>,
    chains: (CodecChain, CodecChain),
    /// Rows of a chunk.
    rows: u64,
    /// Alleles of a row, with padding.
    per_row: u64,
}

impl MadeArray for Alleles {
    fn chunk<'a>(&'a self, store: &'a Store, index: &'a [u64]) -> BoxFuture<'a, Result<Bytes>> {
        async move {
            let chunk = index.first().copied().unwrap_or(0);
            let (reference, alternates) = futures::try_join!(
                strings_of(store, &self.reference, &self.chains.0, chunk),
                strings_of(store, &self.alternates, &self.chains.1, chunk),
            )?;
            let present = self.reference.chunk_extent(&[chunk]);
            let present = present.first().copied().unwrap_or(0);
            let elements = self.rows.checked_mul(self.per_row);
            let count = elements
                .and_then(|n| u32::try_from(n).ok())
                .ok_or_else(|| {
                    let reason = "it has 2^32 alleles or more".to_string();
                    chunk_error(store, &self.alternates, index, reason)
                })?;
            let mut bytes = Vec::new();
            bytes.extend_from_slice(&count.to_le_bytes());
            let mut push = |text: &str| {
                // Texts of a decoded chunk are below 4 GiB all together.
                bytes.extend_from_slice(&(text.len() as u32).to_le_bytes());
                bytes.extend_from_slice(text.as_bytes());
            };
            let n_alternates = self.per_row.saturating_sub(1) as usize;
            for row in 0..self.rows as usize {
                let is_present = (row as u64) < present;
                push(if is_present { reference.get(row) } else { "" });
                for alternate in 0..n_alternates {
                    let at = row * n_alternates + alternate;
                    push(if is_present { alternates.get(at) } else { "" });
                }
            }
            Ok(Bytes::from(bytes))
        }
        .boxed()
    }
}

/// The texts of a chunk's rows, row by row.
async fn strings_of(
    store: &Store,
    array: &Arc<ArrayMeta>,
    chain: &CodecChain,
    chunk: u64,
) -> Result<StringChunk> {
    let mut parts = Vec::new();
    for trailing in trailing_chunks(array) {
        let index = chunk_index(chunk, &trailing);
        let encoded = store.chunk(array, &index).await?;
        if encoded.is_none() {
            store.check_absent(array, &index).await?;
        }
        parts.push(Part {
            trailing,
            chunk: Chunk::stored(encoded),
        });
    }
    let dense = assemble(array, chain, chunk, &parts, &mut Scratch::default())
        .map_err(|(index, reason)| chunk_error(store, array, &index, reason.to_string()))?;
    match dense {
        Dense::Strings(strings) => Ok(strings),
        Dense::Fixed(_) => Err(chunk_error(
            store,
            array,
            &first_index(chunk, array),
            "expected text, found numbers".to_string(),
        )),
    }
}

fn metadata_error(store: &Store, array: &ArrayMeta, reason: String) -> VczError {
    VczError::Metadata {
        store: store.location().to_string(),
        what: format!("array '{}'", array.name),
        reason,
    }
}

fn chunk_error(store: &Store, array: &ArrayMeta, index: &[u64], reason: String) -> VczError {
    VczError::Chunk {
        store: store.location().to_string(),
        array: array.name.clone(),
        chunk: array.chunk_label(index),
        reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_of_contigs() {
        let runs = ContigRuns {
            ends: vec![(3, 0), (4, 2), (9, 1)],
            rows: 4,
        };
        let codes = |chunk| {
            let bytes = runs.chunk_at(chunk);
            let codes = bytes.chunks_exact(4);
            codes
                .map(|code| i32::from_le_bytes(code.try_into().unwrap()))
                .collect::<Vec<_>>()
        };
        assert_eq!(codes(0), [0, 0, 0, 2]);
        assert_eq!(codes(1), [1, 1, 1, 1]);
        assert_eq!(codes(2), [1, 0, 0, 0]);
        assert_eq!(codes(u64::MAX), [0; 4]);
    }
}
