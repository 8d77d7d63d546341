//! The state of `garud_h`, `haplotype_diversity` and `haplotype_count`: the partition of copies into those that carry the same alleles in
//! all used rows, exactly.
//!
//! A row is used if every copy of the population that exists is called. Copies that do not exist in some row of the group, used or
//! not, are left out of the result. Planes of codes are kept, those with few bits as lists of carriers, until there are enough of them to
//! refine the partition by all at once.

use crate::counts::gathered::{ABSENT, PlanesRow, UNCALLED, plane_words};
use crate::functions::numeric::carrier_lists::CarrierLists;
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
    /// Likewise, planes with few bits.
    carriers: CarrierLists,
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
        // The planes of codes are the first ones. Which bits of codes they stand for does not matter.
        let codes = row.header() & !(1 << UNCALLED | 1 << ABSENT);
        let planes = row.all_planes().chunks_exact(row.width().max(1));
        for plane in planes.take(codes.count_ones() as usize) {
            if self.carriers.push(plane) {
                // So many carriers take half of the memory that pending planes may take.
                if self.carriers.len() >= PLANES * row.width() {
                    self.refine_by_carriers(copies);
                }
                continue;
            }
            self.pending.extend_from_slice(plane);
            if self.pending.len() >= PLANES * row.width() {
                self.refine_by_planes(copies);
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

    /// Refines the partition by the pending planes.
    fn refine_by_planes(&mut self, copies: usize) {
        let width = plane_words(copies);
        self.partition.refine(copies, width, &self.pending);
        self.pending.clear();
        self.release(copies);
    }

    /// Refines the partition by the pending lists of carriers.
    fn refine_by_carriers(&mut self, copies: usize) {
        self.partition.refine_by_carriers(copies, &self.carriers);
        self.carriers.clear();
        self.release(copies);
    }

    /// Frees what is pending if nothing can refine the partition further.
    fn release(&mut self, copies: usize) {
        if self.partition.is_discrete(copies) {
            self.pending = Vec::new();
            self.carriers = CarrierLists::default();
        }
    }

    /// The partition by all rows.
    pub(crate) fn refined(&self, copies: usize) -> Partition {
        let mut partition = self.partition.clone();
        partition.refine_by_carriers(copies, &self.carriers);
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
        // What is pending may refine the partition later: the order does not matter.
        self.partition.merge(partition);
        self.release(copies);
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
            + self.carriers.heap_size()
            + self.partition.heap_size()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// States of rows with few carriers and with many, all at once and merged from parts, against haplotypes compared in full.
    #[test]
    fn rows_of_any_frequency() {
        let mut state = 1u64;
        let mut random = move |below: usize| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (state >> 33) as usize % below
        };
        for (copies, kinds, rows) in [(1, 1, 9), (40, 3, 400), (150, 7, 400), (150, 150, 900)] {
            // Copies of one kind have equal alleles.
            let kinds_of_copies: Vec<usize> = (0..copies).map(|_| random(kinds)).collect();
            let mut haplotypes = vec![vec![]; copies];
            let (mut whole, mut parts) = (HaplotypeState::default(), HaplotypeState::default());
            let mut part = HaplotypeState::default();
            for row in 0..rows {
                let (one, common) = (random(kinds), random(4) == 0);
                let carry: Vec<bool> = (0..kinds)
                    .map(|kind| kind == one || common && random(3) == 0)
                    .collect();
                let mut words = vec![1u64];
                words.resize(1 + plane_words(copies), 0);
                for (copy, kind) in kinds_of_copies.iter().enumerate() {
                    words[1 + copy / 64] |= u64::from(carry[*kind]) << (copy % 64);
                    haplotypes[copy].push(carry[*kind]);
                }
                let view = PlanesRow::try_new(&words, copies).unwrap();
                whole.add(view, copies);
                part.add(view, copies);
                if row % 130 == 0 {
                    // Into a state that still has rows pending.
                    part.merge(parts.sites, &parts.refined(copies), &[], copies);
                    parts = std::mem::take(&mut part);
                }
            }
            parts.merge(part.sites, &part.refined(copies), &[], copies);
            let mut expected = HashMap::new();
            for haplotype in &haplotypes {
                *expected.entry(haplotype).or_insert(0u64) += 1;
            }
            let mut expected: Vec<u64> = expected.into_values().collect();
            expected.sort_unstable();
            for state in [&whole, &parts] {
                let mut sizes = state.refined(copies).sizes(copies, |_| true);
                sizes.sort_unstable();
                assert_eq!(sizes, expected);
                assert_eq!(state.sites, rows);
            }
            assert_eq!(whole.refined(copies), parts.refined(copies));
        }
    }
}
