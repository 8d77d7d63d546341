//! [`Regions`]: the order of the variants that are written, and their region index.
//!
//! The index has a row for each run of one contig in one chunk of variants: `[chunk, contig, start, end, max_end, n_records]` (VCF Zarr
//! specification, "Region index").

use std::collections::HashSet;

use datafusion::common::{Result, exec_err};

/// Numbers in a row of the index.
pub const FIELDS: usize = 6;

/// Follows the variants in the order in which they are written.
#[derive(Debug)]
pub struct Regions {
    chunk_rows: u64,
    /// Whether variants out of order are an error; else there is no index.
    must_be_sorted: bool,
    rows: Vec<[i64; FIELDS]>,
    seen: HashSet<i64>,
    is_sorted: bool,
    variants: u64,
}

impl Regions {
    /// No variants yet; chunks have `chunk_rows` of them.
    pub fn new(chunk_rows: u64, must_be_sorted: bool) -> Self {
        Self {
            chunk_rows,
            must_be_sorted,
            rows: vec![],
            seen: HashSet::new(),
            is_sorted: true,
            variants: 0,
        }
    }

    /// Adds variants: the index of the contig, the position, and the last position that each covers.
    ///
    /// # Errors
    /// If a variant is out of order and that is an error.
    pub fn push(
        &mut self,
        contigs: &[usize],
        positions: &[i64],
        ends: impl Iterator<Item = i64>,
    ) -> Result<()> {
        for ((&contig, &position), end) in contigs.iter().zip(positions).zip(ends) {
            let chunk = (self.variants / self.chunk_rows) as i64;
            let contig = contig as i64;
            let previous = self.rows.last().map(|row| (row[1], row[3]));
            let in_order = match previous {
                Some((last, at)) if last == contig => position >= at,
                _ => self.seen.insert(contig),
            };
            if !in_order {
                if self.must_be_sorted {
                    return exec_err!(
                        "row {} of the query is out of order: its position {position} comes after {}; a VCZ store has the variants of a \
                         contig together and by position: add ORDER BY variant_contig, variant_position",
                        self.variants,
                        match previous {
                            Some((last, at)) if last == contig => format!("position {at}"),
                            _ =>
                                "variants of another contig, which come between variants of its own"
                                    .to_string(),
                        }
                    );
                }
                self.is_sorted = false;
            }
            match self.rows.last_mut() {
                Some(row) if row[0] == chunk && row[1] == contig && self.is_sorted => {
                    row[3] = position;
                    row[4] = row[4].max(end);
                    row[5] += 1;
                }
                _ if self.is_sorted => {
                    self.rows.push([chunk, contig, position, position, end, 1]);
                }
                _ => {}
            }
            self.variants += 1;
        }
        Ok(())
    }

    /// The rows of the index; `None` if the variants are not in order.
    pub fn index(&self) -> Option<&[[i64; FIELDS]]> {
        self.is_sorted.then_some(&self.rows[..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(regions: &mut Regions, contigs: &[usize], positions: &[i64]) -> Result<()> {
        regions.push(contigs, positions, positions.iter().map(|at| at + 1))
    }

    #[test]
    fn runs_of_a_contig_in_a_chunk_are_rows() {
        let mut regions = Regions::new(3, true);
        push(&mut regions, &[1, 1, 1, 1], &[5, 5, 9, 9]).unwrap();
        push(&mut regions, &[0], &[2]).unwrap();
        let rows = [[0, 1, 5, 9, 10, 3], [1, 1, 9, 9, 10, 1], [1, 0, 2, 2, 3, 1]];
        assert_eq!(regions.index().unwrap(), rows);
    }

    #[test]
    fn variants_out_of_order_have_no_index() {
        for (contigs, positions, part) in [
            (&[0, 0][..], &[5, 4][..], "after position 5"),
            (&[0, 1, 0], &[1, 1, 2], "of another contig"),
        ] {
            let error = push(&mut Regions::new(3, true), contigs, positions).unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
            let mut regions = Regions::new(3, false);
            push(&mut regions, contigs, positions).unwrap();
            assert!(regions.index().is_none());
        }
    }
}
