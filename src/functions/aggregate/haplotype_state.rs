//! The state of `garud_h`, `haplotype_diversity` and `haplotype_count`: the partition of copies into those that carry the same alleles in
//! all used rows, exactly.
//!
//! A row is used if every copy of the population that exists is called. Copies that do not exist in some row of the group, used or
//! not, are left out of the result. Planes of codes are kept until there are enough of them to refine the partition by all at once.

use crate::counts::gathered::{ABSENT, PlanesRow, UNCALLED, plane_words};
use crate::functions::numeric::haplotypes::{Haplotypes, haplotypes};
use crate::functions::numeric::partition::{PLANES, Partition};

/// The state of one group.
#[derive(Clone, Debug, Default)]
pub(crate) struct HaplotypeState {
    /// Used rows.
    pub(crate) sites: i64,
    pub(crate) partition: Partition,
    /// One bit for each copy that is left out; empty where none is.
    pub(crate) left_out: Vec<u64>,
    /// Planes that have not refined the partition yet, one after the other.
    pending: Vec<u64>,
}

/// The value of a group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HaplotypeRow {
    /// `None` without a copy or a used row.
    pub(crate) statistics: Option<Haplotypes>,
    /// Copies that are not left out.
    pub(crate) n: i64,
    /// Used rows.
    pub(crate) sites: i64,
}

impl HaplotypeState {
    /// Adds a row of `copies` copies.
    #[inline]
    pub(crate) fn add(&mut self, row: PlanesRow<'_>, copies: usize) {
        if let Some(absent) = row.plane(ABSENT) {
            self.leave_out(absent);
        }
        if row.plane(UNCALLED).is_some() {
            return;
        }
        self.sites += 1;
        if self.partition.is_discrete(copies) {
            return;
        }
        for (_, plane) in row.codes() {
            self.pending.extend_from_slice(plane);
            if self.pending.len() >= PLANES * row.width() {
                self.refine(copies);
            }
        }
    }

    fn leave_out(&mut self, absent: &[u64]) {
        if self.left_out.is_empty() {
            self.left_out = absent.to_vec();
        } else {
            for (sum, absent) in self.left_out.iter_mut().zip(absent) {
                *sum |= absent;
            }
        }
    }

    fn refine(&mut self, copies: usize) {
        let width = plane_words(copies);
        self.partition.refine(copies, width, &self.pending);
        match self.partition.is_discrete(copies) {
            true => self.pending = Vec::new(),
            false => self.pending.clear(),
        }
    }

    /// The partition by all rows.
    pub(crate) fn refined(&self, copies: usize) -> Partition {
        let mut partition = self.partition.clone();
        partition.refine(copies, plane_words(copies), &self.pending);
        partition
    }

    /// Merges another state from its saved columns.
    pub(crate) fn merge(
        &mut self,
        sites: i64,
        partition: &Partition,
        left_out: &[u64],
        copies: usize,
    ) {
        self.sites = self.sites.wrapping_add(sites);
        if !left_out.is_empty() {
            self.leave_out(left_out);
        }
        self.refine(copies);
        self.partition.merge(partition);
    }

    /// The value.
    pub(crate) fn value(&self, copies: usize) -> HaplotypeRow {
        let left_out = |copy: usize| {
            let word = self.left_out.get(copy / 64);
            word.is_some_and(|word| word >> (copy % 64) & 1 == 1)
        };
        let sizes = self.refined(copies).sizes(copies, |copy| !left_out(copy));
        let n = sizes.iter().sum::<u64>() as i64;
        HaplotypeRow {
            statistics: haplotypes(sizes).filter(|_| self.sites > 0),
            n,
            sites: self.sites,
        }
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        (self.left_out.capacity() + self.pending.capacity()) * size_of::<u64>()
            + self.partition.heap_size()
    }
}
