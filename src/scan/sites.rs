//! Reads all contigs and positions of a store, one chunk at a time. Stores without a region index need this before
//! predicates can prune. Memory does not grow with the number of variants.

use std::ops::{ControlFlow, Range};

use futures::future::try_join;

use super::dataset::Dataset;
use super::schema::ColumnKind;
use crate::codec::Scratch;
use crate::error::Result;
use crate::scan::chunks::chunk::{Chunk, Part};
use crate::scan::read::arrow_column::{contig_at, integers};
use crate::scan::read::dense::{Dense, assemble};
use crate::scan::value_error::ValueError;

impl Dataset {
    /// Calls `visit(first row, contig indices, positions)` for each chunk of positions, in row order, until it breaks. Does nothing
    /// for a store without either array.
    pub(super) async fn visit_sites(
        &self,
        mut visit: impl FnMut(u64, &[i64], &[i64]) -> ControlFlow<()>,
    ) -> Result<()> {
        let find = |kind| self.columns().iter().position(|column| column.kind == kind);
        let (Some(contig), Some(position)) = (find(ColumnKind::Contig), find(ColumnKind::Position))
        else {
            return Ok(());
        };
        let (mut contigs, mut positions) = (Cursor::new(self, contig), Cursor::new(self, position));
        let per_chunk = self.columns()[position].array.chunks[0];
        let mut first = 0;
        while first < self.n_variants() {
            let rows = first..self.n_variants().min(first.saturating_add(per_chunk));
            let (positions, contigs) =
                try_join(positions.rows(rows.clone()), contigs.rows(rows.clone())).await?;
            if visit(first, &contigs, &positions).is_break() {
                break;
            }
            first = rows.end;
        }
        try_join(positions.check(), contigs.check()).await.map(drop)
    }
}

/// Reads rows of a one-dimensional array of integers in ascending order, and keeps the current chunk.
struct Cursor<'a> {
    dataset: &'a Dataset,
    column: usize,
    chunk: Option<(u64, Vec<i64>)>,
    /// The first chunk that was absent.
    absent: Option<u64>,
    scratch: Scratch,
}

impl<'a> Cursor<'a> {
    fn new(dataset: &'a Dataset, column: usize) -> Self {
        Self {
            dataset,
            column,
            chunk: None,
            absent: None,
            scratch: Scratch::default(),
        }
    }

    async fn rows(&mut self, range: Range<u64>) -> Result<Vec<i64>> {
        let per_chunk = self.dataset.columns()[self.column].array.chunks[0];
        let mut all = Vec::with_capacity((range.end - range.start) as usize);
        let mut row = range.start;
        while row < range.end {
            let chunk = row / per_chunk;
            let end = range.end.min((chunk + 1).saturating_mul(per_chunk));
            let first = chunk * per_chunk;
            let values = self.load(chunk).await?;
            all.extend_from_slice(&values[(row - first) as usize..(end - first) as usize]);
            row = end;
        }
        Ok(all)
    }

    /// Checks that absent chunks may be read as fill values.
    async fn check(&self) -> Result<()> {
        match self.absent {
            Some(chunk) => {
                let array = &self.dataset.columns()[self.column].array;
                self.dataset.store().check_absent(array, &[chunk]).await
            }
            None => Ok(()),
        }
    }

    async fn load(&mut self, chunk: u64) -> Result<&[i64]> {
        let dataset = self.dataset;
        let array = &dataset.columns()[self.column].array;
        if self.chunk.as_ref().is_none_or(|(at, _)| *at != chunk) {
            let bytes = dataset.store().chunk(array, &[chunk]).await?;
            if bytes.is_none() {
                self.absent.get_or_insert(chunk);
            }
            let chain = dataset.chain(self.column)?;
            let dense = assemble(
                array,
                chain,
                chunk,
                &[Part {
                    trailing: vec![],
                    chunk: Chunk::stored(bytes),
                }],
                &mut self.scratch,
            )
            .map_err(|(index, reason)| dataset.chunk_error(array, &index, reason))?;
            let rows = array.chunk_extent(&[chunk])[0] as usize;
            let values = match &dense {
                Dense::Fixed(buffer) => integers(&array.element, buffer, 0..rows),
                Dense::Strings(_) => Err("expected integers, found strings".into()),
            };
            let values = values
                .and_then(|values| {
                    if dataset.columns()[self.column].kind == ColumnKind::Contig {
                        check_contigs(&values, dataset.names().contigs.len())?;
                    }
                    Ok(values)
                })
                .map_err(|reason| dataset.chunk_error(array, &[chunk], reason))?;
            self.chunk = Some((chunk, values));
        }
        Ok(self.chunk.as_ref().map_or(&[], |(_, values)| values))
    }
}

/// Whether all contig codes are indices into `contig_id`; the reason if not.
fn check_contigs(codes: &[i64], n_contigs: usize) -> Result<(), ValueError> {
    codes
        .chunk_by(|a, b| a == b)
        .try_for_each(|run| contig_at(run[0], n_contigs).map(drop))
}
