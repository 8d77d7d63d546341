//! Arrays of a new store that are not over variants: contigs, filters and samples, and those of the store that the query reads.

use std::sync::Arc;

use arrow::buffer::Buffer;

use super::columns::{Layout, plain_array};
use crate::codec::{ChunkData, StringChunk};
use crate::error::{Result, VczError};
use crate::scan::dataset::{Dataset, read_whole};
use crate::scan::read::dense::Dense;
use crate::scan::stores::Stores;
use crate::store::write::NewArray;
use crate::store::{ArrayMeta, ElementType};

/// An array with all its elements.
pub struct WholeArray {
    /// The array.
    pub array: NewArray,
    /// Its elements, row-major.
    pub elements: ChunkData,
    /// Elements in its first dimension.
    pub rows: usize,
}

/// Names of arrays that are made anew.
const MADE: [&str; 4] = ["contig_id", "filter_id", "sample_id", "region_index"];

/// An array of names.
///
/// # Errors
/// If the names have more than 4 GiB.
pub fn names_array(
    name: &str,
    dimension: &str,
    names: &[String],
    layout: Layout,
    known: Option<&Arc<ArrayMeta>>,
) -> Result<WholeArray> {
    let mut elements = StringChunk::default();
    for text in names {
        elements.push(text).map_err(|reason| of(name, reason))?;
    }
    let mut array = plain_array(
        name,
        dimension,
        ElementType::String,
        names.len() as u64,
        layout,
    );
    if let Some(known) = known {
        array.attributes = known.attributes.clone();
        array.attributes.remove("_ARRAY_DIMENSIONS");
    }
    Ok(WholeArray {
        array,
        elements: ChunkData::Strings(elements),
        rows: names.len(),
    })
}

/// The lengths of contigs.
pub fn contig_lengths(lengths: &[i64], layout: Layout) -> WholeArray {
    let rows = lengths.len();
    WholeArray {
        array: plain_array(
            "contig_length",
            "contigs",
            ElementType::Int64,
            rows as u64,
            layout,
        ),
        elements: ChunkData::Fixed(Buffer::from_vec(lengths.to_vec())),
        rows,
    }
}

/// The arrays of the store that are not over variants, of the samples `kept` (places in the store) alone if these are given. Arrays of
/// one value, and those that cannot be decoded, are left out with a warning.
///
/// # Errors
/// If reading fails.
pub async fn copied_arrays(
    stores: &Stores,
    kept: Option<&[usize]>,
    layout: Layout,
) -> Result<Vec<WholeArray>> {
    let Some(member) = stores.members().first() else {
        return Ok(vec![]);
    };
    let dataset = &member.dataset;
    // Names of several stores may be others, or in another order.
    let known = dataset.names();
    let is_of_all = |dimension: &str| match dimension {
        "contigs" => stores.contigs() == known.contigs && stores.members().len() == 1,
        "filters" => stores.filters() == known.filters,
        _ => true,
    };
    let mut copied = vec![];
    for array in dataset.store().arrays() {
        let name = array.name.as_str();
        let over_variants = array.dimensions.first().is_some_and(|d| d == "variants")
            || name.starts_with("variant_")
            || name.starts_with("call_");
        let is_of_all = array
            .dimensions
            .iter()
            .all(|dimension| is_of_all(dimension));
        if over_variants || MADE.contains(&name) || !is_of_all {
            continue;
        }
        match copied_array(dataset, array, kept, layout).await? {
            Some(whole) => copied.push(whole),
            None => log::warn!(
                "store '{}': array '{name}' is not copied: it has no dimension, or its codecs are not supported",
                stores.location()
            ),
        }
    }
    Ok(copied)
}

async fn copied_array(
    dataset: &Dataset,
    array: &ArrayMeta,
    kept: Option<&[usize]>,
    layout: Layout,
) -> Result<Option<WholeArray>> {
    if array.rank() == 0 || crate::codec::CodecChain::try_new(array).is_err() {
        return Ok(None);
    }
    let Some((array, chunks)) = read_whole(dataset.store(), &array.name).await? else {
        return Ok(None);
    };
    let mut shape = array.shape.clone();
    let per_row: usize = shape[1..].iter().map(|&n| n as usize).product();
    let mut elements: ChunkData = match array.element.is_text() {
        true => ChunkData::Strings(StringChunk::default()),
        false => ChunkData::Fixed(Buffer::default()),
    };
    let size = array.element.size().unwrap_or(1);
    let mut bytes = Vec::new();
    for (rows, dense) in &chunks {
        match (&mut elements, dense) {
            (ChunkData::Strings(all), Dense::Strings(strings)) => {
                for at in 0..rows * per_row {
                    all.push(strings.get(at))
                        .map_err(|reason| of(&array.name, reason))?;
                }
            }
            (ChunkData::Fixed(_), Dense::Fixed(buffer)) => {
                bytes.extend_from_slice(&buffer[..rows * per_row * size]);
            }
            _ => return Ok(None),
        }
    }
    if let ChunkData::Fixed(all) = &mut elements {
        *all = Buffer::from_vec(bytes);
    }
    let n_samples = dataset.sample_ids().len() as u64;
    let axis = array
        .dimensions
        .iter()
        .position(|dimension| dimension == "samples")
        .or((array.dimensions.is_empty() && array.name.starts_with("sample_")).then_some(0))
        .filter(|&axis| shape[axis] == n_samples);
    if let (Some(axis), Some(kept)) = (axis, kept) {
        elements =
            along(&elements, &shape, axis, kept, size).map_err(|reason| of(&array.name, reason))?;
        shape[axis] = kept.len() as u64;
    }
    let element = match array.element.is_text() {
        true => ElementType::String,
        false => array.element,
    };
    let mut attributes = array.attributes.clone();
    attributes.remove("_ARRAY_DIMENSIONS");
    let mut chunks: Vec<u64> = shape.iter().map(|&n| n.max(1)).collect();
    // Dimensions after the second are not divided.
    for (at, chunk) in chunks.iter_mut().take(2).enumerate() {
        let dimension = array.dimensions.get(at).map_or("", String::as_str);
        if at == 0 || dimension == "samples" {
            *chunk = (*chunk).min(layout.chunk_of(dimension));
        }
    }
    let new = NewArray {
        name: array.name.clone(),
        format: layout.format,
        element,
        row_shape: shape[1..].to_vec(),
        chunks,
        dimensions: array.dimensions.clone(),
        attributes,
        compression: layout.compression,
    };
    Ok(Some(WholeArray {
        array: new.checked().map_err(|reason| of(&array.name, reason))?,
        elements,
        rows: shape[0] as usize,
    }))
}

/// The elements at the places `kept` along one dimension.
fn along(
    elements: &ChunkData,
    shape: &[u64],
    axis: usize,
    kept: &[usize],
    size: usize,
) -> std::result::Result<ChunkData, crate::codec::CodecError> {
    let outer: usize = shape[..axis].iter().map(|&n| n as usize).product();
    let inner: usize = shape[axis + 1..].iter().map(|&n| n as usize).product();
    let length = shape[axis] as usize;
    let places = (0..outer).flat_map(|at| kept.iter().map(move |place| at * length + place));
    Ok(match elements {
        ChunkData::Fixed(buffer) => {
            let mut out = Vec::with_capacity(outer * kept.len() * inner * size);
            for place in places {
                out.extend_from_slice(&buffer[place * inner * size..(place + 1) * inner * size]);
            }
            ChunkData::Fixed(Buffer::from_vec(out))
        }
        ChunkData::Strings(strings) => {
            let mut out = StringChunk::default();
            for place in places {
                for at in place * inner..(place + 1) * inner {
                    out.push(strings.get(at))?;
                }
            }
            ChunkData::Strings(out)
        }
    })
}

fn of(array: &str, reason: impl std::fmt::Display) -> VczError {
    VczError::Invalid(format!("array '{array}': {reason}"))
}
