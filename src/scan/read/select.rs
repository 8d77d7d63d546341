//! Gathers the genotypes of `select_samples` from decoded chunks.

use std::ops::Range;

use arrow::array::ArrayRef;
use arrow::buffer::{Buffer, MutableBuffer};
use arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err};

use crate::counts::SampleSet;
use crate::scan::calls::elements::genotypes_array;
use crate::scan::calls::results::selected_type;
use crate::scan::schema::ColumnSpec;
use crate::store::ArrayMeta;

/// Genotypes of one chunk, kept for `select_samples`.
pub enum KeptGenotypes {
    /// Of all its samples, in the layout of the chunk.
    All(Buffer),
    /// Of the selected samples.
    Selected(Buffer),
}

impl KeptGenotypes {
    /// Keeps what `selected` samples, ascending indices within the chunk, have in a decoded chunk; all of it unless they are few, since that
    /// takes no copy.
    pub fn of_chunk(buffer: Buffer, array: &ArrayMeta, selected: &[u32]) -> Self {
        let element = array.element.size().unwrap_or(1);
        let (samples, padded) = (array.chunks[1] as usize, array.chunks[2] as usize * element);
        let width = array.shape[2] as usize * element;
        let stride = samples * padded;
        if selected.len() > samples / FEW || stride == 0 {
            return Self::All(buffer);
        }
        let rows = buffer.len() / stride;
        let mut kept = MutableBuffer::with_capacity(rows * selected.len() * width);
        for row in buffer.chunks_exact(stride) {
            for &sample in selected {
                let at = sample as usize * padded;
                kept.extend_from_slice(row.get(at..at + width).unwrap_or_default());
            }
        }
        Self::Selected(kept.into())
    }
}

/// At most one of so many samples are few.
const FEW: usize = 4;

/// The genotypes of a variant chunk from which calls of `select_samples` gather.
pub struct Selection<'a> {
    /// The column of genotypes.
    pub spec: &'a ColumnSpec,
    /// Genotypes by sample chunk.
    pub kept: &'a [Option<KeptGenotypes>],
    /// Samples that any call selects, by sample chunk: ascending indices within the chunk.
    pub samples: &'a [Vec<u32>],
}

impl Selection<'_> {
    /// The source ranges of the copies of a run of samples, in order.
    fn sources<'a>(
        &'a self,
        run: &Run,
        kept: &'a KeptGenotypes,
        array: &ArrayMeta,
        width: usize,
        element: usize,
    ) -> Result<Vec<RowBytes<'a>>> {
        match kept {
            KeptGenotypes::All(bytes) => {
                let sample = array.chunks[2] as usize * element;
                let stride = array.chunks[1] as usize * sample;
                let piece = |at: usize, len: usize| RowBytes {
                    bytes,
                    at: at * sample,
                    len,
                    stride,
                };
                Ok(if sample == width {
                    vec![piece(run.first, run.len * width)]
                } else {
                    // Calls are padded along the ploidy axis.
                    let samples = run.first..run.first + run.len;
                    samples.map(|at| piece(at, width)).collect()
                })
            }
            KeptGenotypes::Selected(bytes) => {
                let list = &self.samples[run.chunk];
                match list.binary_search(&(run.first as u32)) {
                    // The list holds every sample of every call, so those of a run are consecutive.
                    Ok(at) => Ok(vec![RowBytes {
                        bytes,
                        at: at * width,
                        len: run.len * width,
                        stride: list.len() * width,
                    }]),
                    Err(_) => exec_err!("select_samples: sample {} was not read", run.first),
                }
            }
        }
    }

    /// Gathers the copies of `samples` from the decoded sample chunks.
    pub fn gather(&self, samples: &SampleSet, rows: Range<usize>) -> Result<ArrayRef> {
        let spec = self.spec;
        let DataType::FixedSizeList(call, _) = &spec.data_type else {
            return exec_err!("expected genotypes, found {}", spec.data_type);
        };
        let DataType::FixedSizeList(_, ploidy) = call.data_type() else {
            return exec_err!("expected genotypes, found {}", spec.data_type);
        };
        let element = spec.array.element.size().unwrap_or(1);
        let width = *ploidy as usize * element;
        let total = rows
            .len()
            .checked_mul(samples.len())
            .and_then(|n| n.checked_mul(width));
        let Some(total) = total else {
            return exec_err!(
                "select_samples: {} rows of {} samples do not fit in memory",
                rows.len(),
                samples.len()
            );
        };
        let runs = runs(samples, spec.array.chunks[1] as usize);
        let mut sources = Vec::with_capacity(runs.len());
        for run in &runs {
            let Some(Some(kept)) = self.kept.get(run.chunk) else {
                return exec_err!("select_samples: sample chunk {} was not read", run.chunk);
            };
            sources.extend(self.sources(run, kept, &spec.array, width, element)?);
        }
        let sources = merged(sources);
        let out = match sources.as_slice() {
            // Whole rows are shared without copying.
            [one] if one.stride == one.len => one
                .bytes
                .slice_with_length(one.at + rows.start * one.stride, rows.len() * one.stride),
            _ => {
                let mut out = MutableBuffer::with_capacity(total);
                for row in rows.clone() {
                    for source in &sources {
                        let at = source.at + row * source.stride;
                        let Some(copies) = source.bytes.get(at..at + source.len) else {
                            return exec_err!("select_samples: row {row} was not read");
                        };
                        out.extend_from_slice(copies);
                    }
                }
                out.into()
            }
        };
        if out.len() != total {
            return exec_err!(
                "select_samples: expected {total} bytes, found {}",
                out.len()
            );
        }
        let data_type = selected_type(&spec.data_type, samples.len())?;
        genotypes_array(&data_type, out, rows.len(), None)
    }
}

/// Appends the copies of `samples` in `rows`, which are row-major rows of `row_bytes` bytes with `call_bytes` for each call.
pub fn append_samples(
    out: &mut MutableBuffer,
    rows: &[u8],
    row_bytes: usize,
    call_bytes: usize,
    samples: &SampleSet,
) {
    if samples.len().saturating_mul(call_bytes) == row_bytes {
        out.extend_from_slice(rows);
        return;
    }
    let runs = runs(samples, usize::MAX);
    for row in rows.chunks_exact(row_bytes.max(1)) {
        for run in &runs {
            let copies = run.first * call_bytes..(run.first + run.len) * call_bytes;
            out.extend_from_slice(row.get(copies).unwrap_or_default());
        }
    }
}

/// Consecutive samples of one sample chunk.
struct Run {
    chunk: usize,
    /// Index of the first sample within the chunk.
    first: usize,
    len: usize,
}

/// The samples as runs, in their order.
fn runs(samples: &SampleSet, chunk_samples: usize) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for sample in samples.iter() {
        let (chunk, within) = (
            sample as usize / chunk_samples,
            sample as usize % chunk_samples,
        );
        match runs.last_mut() {
            Some(run) if run.chunk == chunk && run.first + run.len == within => run.len += 1,
            _ => runs.push(Run {
                chunk,
                first: within,
                len: 1,
            }),
        }
    }
    runs
}

/// Bytes that are contiguous in every row: their offset in row 0, their number, and the stride from row to row.
struct RowBytes<'a> {
    bytes: &'a Buffer,
    at: usize,
    len: usize,
    stride: usize,
}

/// Joins adjacent ranges of the same buffer.
fn merged(sources: Vec<RowBytes<'_>>) -> Vec<RowBytes<'_>> {
    let mut merged: Vec<RowBytes<'_>> = Vec::with_capacity(sources.len());
    for source in sources {
        match merged.last_mut() {
            Some(last)
                if std::ptr::eq(last.bytes, source.bytes) && last.at + last.len == source.at =>
            {
                last.len += source.len;
            }
            _ => merged.push(source),
        }
    }
    merged
}
