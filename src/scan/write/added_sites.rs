//! [`SiteDigests`]: whether the rows of a query are at the variants of a store, in the same order.

use std::hash::{DefaultHasher, Hash, Hasher};

use datafusion::common::{Result, exec_err};

/// Rows that are compared at once.
const BLOCK: u64 = 1000;

/// Digests of contigs and positions, each of [`BLOCK`] rows.
#[derive(Debug, Default)]
pub struct SiteDigests {
    blocks: Vec<u64>,
    current: DefaultHasher,
    rows: u64,
}

impl SiteDigests {
    /// Adds a row: the index of its contig, and its position.
    pub fn push(&mut self, contig: i64, position: i64) {
        (contig, position).hash(&mut self.current);
        self.rows += 1;
        if self.rows.is_multiple_of(BLOCK) {
            self.end_block();
        }
    }

    fn end_block(&mut self) {
        let done = std::mem::take(&mut self.current);
        self.blocks.push(done.finish());
    }

    /// Returns an error that names the first rows that differ from `store`'s.
    ///
    /// # Errors
    /// If they differ.
    pub fn check(mut self, mut store: Self, location: &str) -> Result<()> {
        self.end_block();
        store.end_block();
        let mut pairs = self.blocks.iter().zip(&store.blocks);
        let Some(at) = pairs.position(|(query, store)| query != store) else {
            return Ok(());
        };
        let first = at as u64 * BLOCK;
        exec_err!(
            "the variants of the query are not those of store '{location}': among rows {first} to {} a contig or position differs; new \
             arrays have one value for each variant, in the store's order",
            (first + BLOCK).min(self.rows).saturating_sub(1)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digests(rows: impl Iterator<Item = (i64, i64)>) -> SiteDigests {
        let mut digests = SiteDigests::default();
        rows.for_each(|(contig, position)| digests.push(contig, position));
        digests
    }

    #[test]
    fn rows_that_differ_are_found() {
        let rows = || (0..2500).map(|at| (at / 1300, at));
        digests(rows()).check(digests(rows()), "x").unwrap();
        let other = rows().map(|(contig, at)| (contig, if at == 2100 { 7 } else { at }));
        let error = digests(other).check(digests(rows()), "x").unwrap_err();
        assert!(error.to_string().contains("rows 2000 to 2499"), "{error}");
    }
}
