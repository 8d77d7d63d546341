//! [`Stores`]: the opened stores of a table, one or several, and the map of the table's rows and columns to theirs.
//!
//! Planning uses the table's rows, numbered from 0 across all stores. Reading uses one store at a time.
//!
//! Invariants: the pieces are ascending, without gaps, and cover all rows of all stores; every store has the same samples; the only
//! store of a table has exactly the table's columns and rows.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::dataset::{ContigExtent, Dataset, extents};
use super::plan::zones::Zones;
use super::schema::ColumnSpec;
use crate::error::Result;

/// Consecutive rows of the table that are consecutive in one store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The table's rows.
    pub rows: Range<u64>,
    /// Which of the stores.
    pub store: usize,
    /// The first of the rows, in the store's numbering.
    pub first: u64,
}

impl Piece {
    /// The store's number of a row of the table, which is in this piece or its end.
    pub fn to_store(&self, row: u64) -> u64 {
        row - self.rows.start + self.first
    }

    /// The table's number of a row of the store, which is in this piece or its end.
    pub fn to_table(&self, row: u64) -> u64 {
        (row - self.first).saturating_add(self.rows.start)
    }
}

/// The column of a store for a column of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreColumn {
    /// The store's column.
    pub column: usize,
    /// Whether its values have another type than the table's, or fewer values of each call.
    pub differs: bool,
}

/// One of the stores.
#[derive(Debug)]
pub struct Member {
    /// The store.
    pub dataset: Arc<Dataset>,
    /// For each column of the table: the store's column; `None` if the store has no such array.
    pub columns: Vec<Option<StoreColumn>>,
    /// Whether its filters have another order than the table's.
    pub reorders_filters: bool,
}

impl Member {
    /// The column of the store that is the table's `column`.
    pub fn spec(&self, column: usize) -> Option<&ColumnSpec> {
        let at = self.columns.get(column)?.as_ref()?;
        self.dataset.columns().get(at.column)
    }
}

/// The stores of a table.
#[derive(Debug)]
pub struct Stores {
    pub(super) location: String,
    pub(super) members: Vec<Member>,
    pub(super) pieces: Vec<Piece>,
    pub(super) columns: Vec<ColumnSpec>,
    pub(super) contigs: Vec<String>,
    pub(super) filters: Vec<String>,
    pub(super) lengths: Option<Vec<i64>>,
    /// Only for several stores; a single store has its own zones, or reads them when they are needed.
    pub(super) zones: Option<Arc<Zones>>,
    pub(super) content_key: OnceLock<String>,
}

impl Stores {
    /// One store.
    pub fn one(dataset: Arc<Dataset>) -> Self {
        let columns = dataset.columns().to_vec();
        let at = |column| {
            Some(StoreColumn {
                column,
                differs: false,
            })
        };
        Self {
            location: dataset.store().location().to_string(),
            pieces: vec![Piece {
                rows: 0..dataset.n_variants(),
                store: 0,
                first: 0,
            }],
            contigs: dataset.names().contigs.clone(),
            filters: dataset.names().filters.clone(),
            lengths: dataset.contig_lengths().map(<[i64]>::to_vec),
            zones: None,
            content_key: OnceLock::new(),
            members: vec![Member {
                columns: (0..columns.len()).map(at).collect(),
                reorders_filters: false,
                dataset,
            }],
            columns,
        }
    }

    /// The table's location, as the user gave it.
    pub fn location(&self) -> &str {
        &self.location
    }

    /// The stores, in the order in which they were given.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// A digest of what the stores contain, which is the same in every process that has opened the same stores.
    pub fn content_key(&self) -> &str {
        self.content_key.get_or_init(|| {
            let mut hasher = blake3::Hasher::new();
            for member in &self.members {
                let dataset = &member.dataset;
                hasher.update(&dataset.n_variants().to_le_bytes());
                dataset.store().content_key(&mut hasher);
                // Zones of the region index are known in every process that has opened the store.
                let zones = dataset.known_zones().filter(|zones| zones.from_index);
                for zone in zones.iter().flat_map(|zones| &zones.zones) {
                    let numbers = [zone.min, zone.max, zone.contig as i64];
                    numbers.iter().for_each(|number| {
                        hasher.update(&number.to_le_bytes());
                    });
                }
            }
            let names = [self.sample_ids(), &self.contigs, &self.filters];
            for name in names.into_iter().flatten() {
                hasher.update(&(name.len() as u64).to_le_bytes());
                hasher.update(name.as_bytes());
            }
            hasher.finalize().to_hex()[..32].to_string()
        })
    }

    /// The only store; `None` where there are several.
    fn only(&self) -> Option<&Arc<Dataset>> {
        match self.members.as_slice() {
            [only] => Some(&only.dataset),
            _ => None,
        }
    }

    /// Number of variants: rows of the table.
    pub fn n_variants(&self) -> u64 {
        self.pieces.last().map_or(0, |piece| piece.rows.end)
    }

    /// Sample ids in column order, the same in all stores.
    pub fn sample_ids(&self) -> &[String] {
        self.members
            .first()
            .map_or(&[], |member| member.dataset.sample_ids())
    }

    /// The columns in table order. Their arrays have the shape and the type that hold those of all stores; chunks and codecs are
    /// those of each store.
    pub fn columns(&self) -> &[ColumnSpec] {
        &self.columns
    }

    /// Position of a column in the table.
    pub fn column_index(&self, name: &str) -> Option<usize> {
        self.columns
            .iter()
            .position(|column| column.array.name == name)
    }

    /// The contigs of all stores. The zones' indices are into this list.
    pub fn contigs(&self) -> &[String] {
        &self.contigs
    }

    /// The filters of all stores, in the order of filter lists.
    pub fn filters(&self) -> &[String] {
        &self.filters
    }

    /// `contig_length`, one for each contig, if a store has it; 0 or less if the length is not known.
    pub fn contig_lengths(&self) -> Option<&[i64]> {
        self.lengths.as_deref()
    }

    /// The zones of the table's rows, if they are known without reading positions.
    pub fn known_zones(&self) -> Option<&Arc<Zones>> {
        match self.only() {
            Some(dataset) => dataset.known_zones(),
            None => self.zones.as_ref(),
        }
    }

    /// The zones of the table's rows; those of a single store without a region index are read. `None` if contigs alternate so much
    /// that zones are useless.
    ///
    /// # Errors
    /// If contigs or positions cannot be read.
    pub async fn zones(&self) -> Result<Option<&Arc<Zones>>> {
        match self.only() {
            Some(dataset) => dataset.zones().await,
            None => Ok(self.zones.as_ref()),
        }
    }

    /// The contigs that have variants, in order of first appearance, each with its last position.
    ///
    /// # Errors
    /// If contigs or positions cannot be read.
    pub async fn contig_extents(&self) -> Result<Vec<ContigExtent>> {
        if let Some(dataset) = self.only() {
            return dataset.contig_extents().await;
        }
        let mut last: Vec<(usize, i64)> = Vec::new();
        for zone in self.zones.iter().flat_map(|zones| &zones.zones) {
            match last.iter_mut().find(|(at, _)| *at == zone.contig) {
                Some((_, highest)) => *highest = zone.max.max(*highest),
                None => last.push((zone.contig, zone.max)),
            }
        }
        Ok(extents(last, &self.contigs, self.contig_lengths()))
    }

    /// The rows of the ascending `ranges`, by piece: the pieces that have some of these rows, each with the rows in its store's
    /// numbering.
    pub fn by_piece(&self, ranges: &[Range<u64>]) -> Vec<(&Piece, Vec<Range<u64>>)> {
        let mut found: Vec<(usize, Vec<Range<u64>>)> = Vec::new();
        for range in ranges.iter().filter(|range| !range.is_empty()) {
            let first = self
                .pieces
                .partition_point(|piece| piece.rows.end <= range.start);
            let touched = self.pieces[first..]
                .iter()
                .take_while(|piece| piece.rows.start < range.end);
            for (at, piece) in (first..).zip(touched) {
                let start = range.start.max(piece.rows.start);
                let end = range.end.min(piece.rows.end);
                let rows = piece.to_store(start)..piece.to_store(end);
                match found.last_mut() {
                    Some((known, parts)) if *known == at => parts.push(rows),
                    _ => found.push((at, vec![rows])),
                }
            }
        }
        found
            .into_iter()
            .map(|(at, rows)| (&self.pieces[at], rows))
            .collect()
    }

    /// The piece that contains `row`; the last one for the end of the table.
    pub fn piece_of(&self, row: u64) -> Option<&Piece> {
        let at = self
            .pieces
            .partition_point(|piece| piece.rows.end <= row)
            .min(self.pieces.len().saturating_sub(1));
        self.pieces.get(at)
    }
}
