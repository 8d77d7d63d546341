//! The region index of a store: the contigs and positions of each chunk of variants.
//!
//! Written by bio2zarr as the array `region_index`, one row for each run of one contig in one chunk of variants: `[chunk,
//! contig, start, end, max_end, n_records]` (VCF Zarr specification, "Region index"). `scan` decodes it and prunes chunks
//! with it. Invariants, checked here: the rows cover every variant once, in order; each contig is one run of rows, and
//! within it positions do not decrease from row to row. The positions within a chunk are checked when they are read.
use super::error::StoreError;

use std::collections::HashSet;
use std::ops::Range;

/// Numbers in a row of the array.
const FIELDS: usize = 6;

/// A run of one contig in one chunk of variants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionRow {
    /// The chunk along the variants dimension.
    pub chunk: u64,
    /// The contig, an index into `contig_id`.
    pub contig: u64,
    /// POS of the first record.
    pub start: i64,
    /// POS of the last record.
    pub end: i64,
    /// The last position that any of the records covers.
    pub max_end: i64,
    /// Number of records, at least one.
    pub n_records: u64,
    /// The records' rows among all variants of the store; computed.
    pub rows: Range<u64>,
}

/// A region index that passed its checks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegionIndex {
    rows: Vec<RegionRow>,
}

impl RegionIndex {
    /// Checks the values of the array, row by row of six, against the store: its number of variants, the variants in a
    /// chunk, and its number of contigs.
    ///
    /// # Errors
    /// The reason, which names the row (counted from 0). The caller adds the store and how to ignore the index.
    pub fn try_new(
        values: &[i64],
        n_variants: u64,
        variants_per_chunk: u64,
        n_contigs: usize,
    ) -> Result<Self, StoreError> {
        if variants_per_chunk == 0 {
            return Err("chunks of 0 variants; expected at least 1".into());
        }
        let (records, []) = values.as_chunks::<FIELDS>() else {
            return Err(format!("{} values are not rows of {FIELDS}", values.len()).into());
        };
        let mut rows: Vec<RegionRow> = Vec::with_capacity(records.len());
        let mut seen = HashSet::new();
        for (n, record) in records.iter().enumerate() {
            let previous = rows.last();
            let next = previous.map_or(0, |row| row.rows.end);
            let row =
                row(record, next, n_contigs).map_err(|reason| format!("row {n}: {reason}"))?;
            // The row's chunk follows from the number of variants before it.
            let (chunk, chunk_start) =
                (next / variants_per_chunk, next - next % variants_per_chunk);
            let chunk_end = chunk_start
                .saturating_add(variants_per_chunk)
                .min(n_variants);
            if next >= n_variants {
                return Err(format!(
                    "row {n}: the rows before it already cover all {n_variants} variants"
                )
                .into());
            }
            if row.chunk != chunk {
                return Err(format!(
                    "row {n}: chunk {} comes where variant {next}, of chunk {chunk}, does (chunks have \
                     {variants_per_chunk} variants)",
                    row.chunk
                )
                .into());
            }
            if row.rows.end > chunk_end {
                return Err(format!(
                    "row {n}: {} records from variant {next} on reach beyond chunk {chunk}, which ends at {chunk_end}",
                    row.n_records
                )
                .into());
            }
            match previous {
                Some(previous) if previous.contig == row.contig => {
                    if row.start < previous.end {
                        return Err(format!(
                            "row {n}: starts at position {}, before {}, the end of the row before it on the same contig",
                            row.start, previous.end
                        )
                        .into());
                    }
                }
                _ => {
                    if !seen.insert(row.contig) {
                        return Err(format!(
                            "row {n}: contig {} is in an earlier run of rows too",
                            row.contig
                        )
                        .into());
                    }
                }
            }
            rows.push(row);
        }
        match rows.last().map_or(0, |row| row.rows.end) {
            covered if covered == n_variants => Ok(Self { rows }),
            covered => Err(format!(
                "its {} rows cover {covered} of {n_variants} variants",
                rows.len()
            )
            .into()),
        }
    }

    /// The rows, in the order of the variants.
    pub fn rows(&self) -> &[RegionRow] {
        &self.rows
    }
}

/// Checks one row by itself. `first` is the number of variants before it.
fn row(record: &[i64; FIELDS], first: u64, n_contigs: usize) -> Result<RegionRow, StoreError> {
    let &[chunk, contig, start, end, max_end, n_records] = record;
    let chunk = u64::try_from(chunk).map_err(|_| format!("chunk {chunk} is negative"))?;
    let known = u64::try_from(contig)
        .ok()
        .filter(|&contig| contig < n_contigs as u64);
    let contig = known.ok_or_else(|| {
        format!("contig {contig}; expected one of {n_contigs} contigs, from 0 on")
    })?;
    if !(0 <= start && start <= end && end <= max_end) {
        return Err(format!(
            "start {start}, end {end}, max_end {max_end}; expected 0 ≤ start ≤ end ≤ max_end"
        )
        .into());
    }
    let n_records = u64::try_from(n_records).ok().filter(|&n| n > 0);
    let n_records =
        n_records.ok_or_else(|| format!("{} records; expected at least 1", record[FIELDS - 1]))?;
    let last = first
        .checked_add(n_records)
        .ok_or_else(|| format!("{n_records} records are too many"))?;
    Ok(RegionRow {
        chunk,
        contig,
        start,
        end,
        max_end,
        n_records,
        rows: first..last,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chunks of 10; contig 0 fills chunk 0 and two rows of chunk 1, contig 2 the rest of 25 variants.
    const GOOD: [[i64; 6]; 4] = [
        [0, 0, 5, 90, 95, 10],
        [1, 0, 90, 91, 99, 2],
        [1, 2, 1, 40, 40, 8],
        [2, 2, 41, 50, 60, 5],
    ];

    fn index(rows: &[[i64; 6]]) -> Result<RegionIndex, StoreError> {
        RegionIndex::try_new(rows.as_flattened(), 25, 10, 3)
    }

    #[test]
    fn covers_all_variants_in_order() {
        let index = index(&GOOD).unwrap();
        let rows: Vec<_> = index.rows().iter().map(|row| row.rows.clone()).collect();
        assert_eq!(rows, [0..10, 10..12, 12..20, 20..25]);
        assert_eq!((index.rows()[2].contig, index.rows()[3].max_end), (2, 60));
        assert_eq!(RegionIndex::try_new(&[], 0, 10, 0).unwrap().rows(), []);
    }

    #[test]
    fn laws() {
        let broken = |row: usize, field: usize, value: i64| {
            let mut rows = GOOD;
            rows[row][field] = value;
            index(&rows).unwrap_err()
        };
        assert!(broken(0, 0, 1).starts_with("row 0: chunk 1"));
        assert!(broken(3, 0, 1).starts_with("row 3: chunk 1"));
        assert!(broken(1, 0, -1).contains("negative"));
        assert!(broken(2, 1, 3).contains("contig 3"));
        assert!(broken(2, 1, -1).contains("contig -1"));
        assert!(broken(3, 1, 0).contains("in an earlier run of rows"));
        assert!(broken(1, 2, 89).contains("before 90"));
        assert!(broken(1, 3, 80).contains("start ≤ end"));
        assert!(broken(1, 4, 90).contains("max_end"));
        assert!(broken(0, 2, -2).contains("start"));
        assert!(broken(0, 5, 11).contains("beyond chunk 0"));
        assert!(broken(0, 5, 9).contains("row 1"));
        assert!(broken(0, 5, 0).contains("at least 1"));
        assert!(broken(0, 5, i64::MAX).contains("beyond chunk"));
        assert!(broken(3, 5, 4).contains("24 of 25"));
        assert!(broken(3, 5, 6).contains("beyond chunk 2"));
        assert!(index(&GOOD[..3]).unwrap_err().contains("20 of 25"));
        assert!(index(&[]).unwrap_err().contains("0 of 25"));
        let more = [GOOD.as_slice(), &[[3, 2, 60, 60, 60, 1]]].concat();
        assert!(index(&more).unwrap_err().contains("row 4"));
        assert!(
            RegionIndex::try_new(&[0; 7], 25, 10, 3)
                .unwrap_err()
                .contains("7 values")
        );
        assert!(RegionIndex::try_new(&[], 0, 0, 3).is_err());
    }
}
