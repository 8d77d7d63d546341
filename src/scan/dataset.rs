//! [`Dataset`]: an opened store with everything that planning needs, decoded once: columns and codec chains; names of samples,
//! contigs and filters; and the zones. Shared by all scans of a table.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::buffer::Buffer;
use futures::{StreamExt, TryStreamExt, stream};
use tokio::sync::OnceCell;

use super::chunks::chunk::{Chunk, Part, chunk_index, first_index, trailing_chunks};
use super::chunks::sizes::ChunkSizes;
use super::made_arrays::{Completed, complete};
use super::plan::zones::Zones;
use super::read::arrow_column::{Names, integers};
use super::read::dense::{Dense, assemble};
use super::schema::{ColumnKind, ColumnSpec, columns};
use super::table_options::RegionIndexMode;
use crate::codec::{CodecChain, CodecError, Scratch};
use crate::error::{Result, VczError};
use crate::store::{ArrayMeta, RegionIndex, Store};

/// The maximum decoded bytes of arrays of names and indexes, which are read whole when a store is opened.
const MAX_WHOLE_ARRAY: u64 = 1 << 31;
/// Chunks of such an array that are read at the same time.
const CONCURRENT_CHUNKS: usize = 32;
/// With more zones per chunk than this, contigs alternate too much for zones to be useful.
const MAX_ZONES_PER_CHUNK: usize = 64;

/// A contig that has variants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContigExtent {
    /// The contig's name.
    pub name: String,
    /// The highest position of a variant.
    pub last_position: i64,
    /// `contig_length`, if the store has it.
    pub length: Option<i64>,
}

/// An opened store.
#[derive(Debug)]
pub struct Dataset {
    store: Store,
    n_variants: u64,
    columns: Vec<ColumnSpec>,
    chains: Vec<Result<CodecChain, CodecError>>,
    /// For each column: chunk size statistics, for chunks decoded whole and for chunks with cut frames.
    chunk_sizes: Vec<[Arc<ChunkSizes>; 2]>,
    names: Names,
    sample_ids: Vec<String>,
    contig_lengths: Option<Vec<i64>>,
    /// From the region index, or computed from the positions when first needed.
    zones: OnceCell<Option<Arc<Zones>>>,
    /// Whether it was logged that chunks of genotypes are absent.
    has_logged_absent: AtomicBool,
}

impl Dataset {
    /// Reads what planning needs from an opened store.
    pub async fn open(store: Store, region_index: RegionIndexMode) -> Result<Self> {
        let Completed {
            store,
            contigs: made_contigs,
        } = complete(store).await?;
        let (n_variants, columns) = columns(&store)?;
        let chains = columns
            .iter()
            .map(|column| CodecChain::try_new(&column.array))
            .collect();
        let index = async {
            match region_index {
                RegionIndexMode::Use => read_integers(&store, "region_index").await,
                RegionIndexMode::Ignore => Ok(None),
            }
        };
        let (samples, contigs, filters, lengths, index, ()) = futures::try_join!(
            read_strings(&store, "sample_id"),
            names_of(&store, "contig_id", "contigs"),
            names_of(&store, "filter_id", "filters"),
            read_integers(&store, "contig_length"),
            index,
            store.check_opened(),
        )?;
        let names = Names {
            contigs: made_contigs.or(contigs).unwrap_or_default(),
            filters: filters.unwrap_or_default(),
        };
        let contig_lengths = lengths
            .map(|(lengths, _)| lengths)
            .filter(|lengths| lengths.len() == names.contigs.len());
        let mut dataset = Self {
            store,
            n_variants,
            chunk_sizes: columns.iter().map(|_| Default::default()).collect(),
            columns,
            chains,
            names,
            sample_ids: samples.unwrap_or_default(),
            contig_lengths,
            zones: OnceCell::new(),
            has_logged_absent: AtomicBool::new(false),
        };
        if let Some((values, shape)) = index {
            let index = dataset.region_index(&values, &shape)?;
            dataset.zones = OnceCell::new_with(Some(Some(Arc::new(Zones::from_index(&index)))));
        }
        Ok(dataset)
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Number of variants: rows of the table.
    pub fn n_variants(&self) -> u64 {
        self.n_variants
    }

    /// The columns in table order.
    pub fn columns(&self) -> &[ColumnSpec] {
        &self.columns
    }

    /// Position of a column in the table.
    pub fn column_index(&self, name: &str) -> Option<usize> {
        self.columns
            .iter()
            .position(|column| column.array.name == name)
    }

    /// The codec chain of column `index`; an error names the array and the codec that is not supported.
    pub fn chain(&self, index: usize) -> Result<&CodecChain> {
        self.chains[index]
            .as_ref()
            .map_err(|reason| self.array_error(&self.columns[index].array, reason.clone()))
    }

    /// Chunk size statistics of column `index` on a GPU, with frames that are `cut` (for counts) or not.
    #[cfg_attr(
        not(feature = "gpu"),
        allow(dead_code, reason = "only a GPU's batches follow them")
    )]
    pub fn chunk_sizes(&self, index: usize, cut: bool) -> &Arc<ChunkSizes> {
        &self.chunk_sizes[index][usize::from(cut)]
    }

    /// Names of contigs and filters.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// Sample ids in column order.
    pub fn sample_ids(&self) -> &[String] {
        &self.sample_ids
    }

    /// `contig_length`, one per contig, where the store has it.
    pub fn contig_lengths(&self) -> Option<&[i64]> {
        self.contig_lengths.as_deref()
    }

    /// The zones if they are known without reading positions.
    pub fn known_zones(&self) -> Option<&Arc<Zones>> {
        self.zones.get().and_then(Option::as_ref)
    }

    /// The zones, reading all contigs and positions if there is no region index. `None` if contigs alternate so much
    /// that zones are useless.
    pub async fn zones(&self) -> Result<Option<&Arc<Zones>>> {
        Ok(self
            .zones
            .get_or_try_init(|| self.read_zones())
            .await?
            .as_ref())
    }

    /// The contigs that have variants, in order of first appearance, each with its last position.
    pub async fn contig_extents(&self) -> Result<Vec<ContigExtent>> {
        let mut last: Vec<(usize, i64)> = Vec::new();
        let mut see =
            |contig: usize, position: i64| match last.iter_mut().find(|(at, _)| *at == contig) {
                Some((_, highest)) => *highest = position.max(*highest),
                None => last.push((contig, position)),
            };
        match self.zones().await? {
            Some(zones) => zones
                .zones
                .iter()
                .for_each(|zone| see(zone.contig, zone.max)),
            None => {
                self.visit_sites(|_, contigs, positions| {
                    for (&contig, &position) in contigs.iter().zip(positions) {
                        see(usize::try_from(contig).unwrap_or(usize::MAX), position);
                    }
                    ControlFlow::Continue(())
                })
                .await?;
            }
        }
        Ok(extents(last, &self.names.contigs, self.contig_lengths()))
    }

    /// An error about a chunk of this store.
    pub fn chunk_error(
        &self,
        array: &ArrayMeta,
        index: &[u64],
        reason: impl Into<String>,
    ) -> VczError {
        VczError::Chunk {
            store: self.store.location().to_string(),
            array: array.name.clone(),
            chunk: array.chunk_label(index),
            reason: reason.into(),
        }
    }

    /// Logs, once per dataset and at level `info`, that a chunk of genotypes is absent. Writers leave out chunks that hold only the fill
    /// value, so this is not an error. But a chunk whose file was lost looks the same, and then results are wrong.
    pub fn log_absent(&self, array: &ArrayMeta, index: &[u64]) {
        if !self.has_logged_absent.swap(true, Ordering::Relaxed) {
            log::info!(
                "store '{}': array '{}' has no chunk {}: its calls are taken to be the array's fill value, as Zarr has it. If files \
                 of the store were lost, answers are wrong. Other absent chunks are not logged",
                self.store.location(),
                array.name,
                array.chunk_label(index)
            );
        }
    }

    /// An error about an array of this store.
    pub fn array_error(&self, array: &ArrayMeta, reason: impl Into<String>) -> VczError {
        VczError::Metadata {
            store: self.store.location().to_string(),
            what: format!("array '{}'", array.name),
            reason: reason.into(),
        }
    }

    /// Checks the values of the array `region_index`.
    fn region_index(&self, values: &[i64], shape: &[u64]) -> Result<RegionIndex> {
        let refuse = |reason: String| VczError::Metadata {
            store: self.store.location().to_string(),
            what: "array 'region_index'".to_string(),
            reason: format!(
                "{reason}; to read the positions instead, set the table option 'vcz.region_index' to 'ignore'"
            ),
        };
        if shape.len() != 2 || shape[1] != 6 {
            return Err(refuse(format!(
                "expected the shape (rows, 6), found {shape:?}"
            )));
        }
        let per_chunk = self
            .columns
            .iter()
            .find(|column| column.kind == ColumnKind::Position);
        let per_chunk = per_chunk.map_or(1, |column| column.array.chunks[0]);
        RegionIndex::try_new(values, self.n_variants, per_chunk, self.names.contigs.len())
            .map_err(|reason| refuse(reason.into()))
    }

    /// Computes the zones from `variant_contig` and `variant_position`.
    async fn read_zones(&self) -> Result<Option<Arc<Zones>>> {
        let mut zones = Vec::new();
        let mut useful = true;
        self.visit_sites(|first, contigs, positions| {
            let found = Zones::of_rows(first, contigs, positions);
            useful = found.len() <= MAX_ZONES_PER_CHUNK;
            zones.extend(found);
            if useful {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })
        .await?;
        Ok((useful && !zones.is_empty()).then(|| {
            Arc::new(Zones {
                zones,
                from_index: false,
            })
        }))
    }
}

/// Contigs (indices into `contigs`, each with its highest position) by name, with their lengths.
pub fn extents(
    last: Vec<(usize, i64)>,
    contigs: &[String],
    lengths: Option<&[i64]>,
) -> Vec<ContigExtent> {
    let named = |(contig, last_position): (usize, i64)| {
        let name = contigs.get(contig)?.clone();
        // A length of 0 or less means unknown; one below the last variant's position is wrong.
        let length = lengths
            .and_then(|lengths| lengths.get(contig).copied())
            .filter(|&length| length > 0 && length >= last_position);
        Some(ContigExtent {
            name,
            last_position,
            length,
        })
    };
    last.into_iter().filter_map(named).collect()
}

/// Reads a whole small array into dense rows; `None` if the store has no such array.
///
/// # Errors
/// If it cannot be read or decoded, or is too large.
pub async fn read_whole(
    store: &Store,
    name: &str,
) -> Result<Option<(Arc<ArrayMeta>, Vec<(usize, Dense)>)>> {
    if let Some(reason) = store.unreadable().get(name) {
        return Err(VczError::Metadata {
            store: store.location().to_string(),
            what: format!("array '{name}'"),
            reason: reason.to_string(),
        });
    }
    let Some(array) = store.array(name).cloned() else {
        return Ok(None);
    };
    let refuse = |reason: String| VczError::Metadata {
        store: store.location().to_string(),
        what: format!("array '{name}'"),
        reason,
    };
    if array.rank() == 0 {
        return Err(refuse(
            "expected at least one axis, found a single value".to_string(),
        ));
    }
    let elements = array
        .shape
        .iter()
        .try_fold(1u64, |product, &n| product.checked_mul(n));
    let width = array.element.size().unwrap_or(4) as u64;
    if elements
        .and_then(|n| n.checked_mul(width))
        .is_none_or(|bytes| bytes > MAX_WHOLE_ARRAY)
    {
        return Err(refuse(format!(
            "its shape {:?} is too large to be read whole",
            array.shape
        )));
    }
    let chain = CodecChain::try_new(&array).map_err(|error| refuse(error.into()))?;
    let trailing = trailing_chunks(&array);
    let mut scratch = Scratch::default();
    let mut all = Vec::new();
    let mut absent = None;
    let mut wanted = Vec::new();
    for chunk in 0..array.grid_shape()[0] {
        wanted.extend(trailing.iter().map(|at| chunk_index(chunk, at)));
    }
    let read = |index: Vec<u64>| {
        let array = Arc::clone(&array);
        async move { Ok::<_, VczError>((store.chunk(&array, &index).await?, index)) }
    };
    let chunks = stream::iter(wanted).map(read).buffered(CONCURRENT_CHUNKS);
    let mut chunks = chunks.boxed();
    for chunk in 0..array.grid_shape()[0] {
        let mut parts = Vec::with_capacity(trailing.len());
        for at in &trailing {
            let Some((encoded, index)) = chunks.try_next().await? else {
                break;
            };
            if encoded.is_none() {
                absent.get_or_insert(index);
            }
            parts.push(Part {
                trailing: at.clone(),
                chunk: Chunk::stored(encoded),
            });
        }
        let dense =
            assemble(&array, &chain, chunk, &parts, &mut scratch).map_err(|(index, reason)| {
                VczError::Chunk {
                    store: store.location().to_string(),
                    array: name.to_string(),
                    chunk: array.chunk_label(&index),
                    reason: reason.into(),
                }
            })?;
        let rows = array.chunk_extent(&first_index(chunk, &array))[0] as usize;
        all.push((rows, dense));
    }
    drop(chunks);
    if let Some(index) = absent {
        store.check_absent(&array, &index).await?;
    }
    Ok(Some((array, all)))
}

async fn read_strings(store: &Store, name: &str) -> Result<Option<Vec<String>>> {
    let Some((array, chunks)) = read_whole(store, name).await? else {
        return Ok(None);
    };
    let mut all = Vec::new();
    for (rows, dense) in &chunks {
        match dense {
            Dense::Strings(strings) => all.extend((0..*rows).map(|at| strings.get(at).to_string())),
            Dense::Fixed(_) => {
                return Err(VczError::Metadata {
                    store: store.location().to_string(),
                    what: format!("array '{name}'"),
                    reason: format!("expected strings, found {}", array.element),
                });
            }
        }
    }
    Ok(Some(all))
}

/// Names from an array, or (VCZ 0.1) from a group attribute.
async fn names_of(store: &Store, array: &str, attribute: &str) -> Result<Option<Vec<String>>> {
    if let Some(names) = read_strings(store, array).await? {
        return Ok(Some(names));
    }
    let names = store
        .attributes()
        .get(attribute)
        .and_then(|value| value.as_array());
    Ok(names.map(|names| {
        names
            .iter()
            .filter_map(|name| name.as_str())
            .map(str::to_string)
            .collect()
    }))
}

async fn read_integers(store: &Store, name: &str) -> Result<Option<(Vec<i64>, Vec<u64>)>> {
    let Some((array, chunks)) = read_whole(store, name).await? else {
        return Ok(None);
    };
    let per_row: usize = array.shape[1..].iter().map(|&n| n as usize).product();
    let mut all = Vec::new();
    for (rows, dense) in &chunks {
        let empty = Buffer::default();
        let buffer = if let Dense::Fixed(buffer) = dense {
            buffer
        } else {
            &empty
        };
        let values = integers(&array.element, buffer, 0..rows * per_row).map_err(|reason| {
            VczError::Metadata {
                store: store.location().to_string(),
                what: format!("array '{name}'"),
                reason: reason.into(),
            }
        })?;
        all.extend(values);
    }
    Ok(Some((all, array.shape.clone())))
}
