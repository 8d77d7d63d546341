//! [`Partition`]: which copies have carried the same alleles so far, exactly.
//!
//! A partition is refined by bit-planes, 64 at a time: their bits for one copy form a word, and two copies stay in one class if they
//! were in one class and their words are equal. Labels are numbered by the first copy that has them, so equal partitions have equal
//! labels, whatever planes refined them and in which order.

use hashbrown::HashMap;

/// Bit-planes per refinement, one for each bit of a word.
pub const PLANES: usize = 64;

/// A partition of `n` copies into classes. All are in one class at first, for which nothing is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partition {
    /// For each copy, the label of its class; empty while there is one class.
    labels: Vec<u32>,
    /// Number of classes; 0 while there is one.
    classes: u32,
}

impl Partition {
    /// The partition with these labels, numbered in any way; an empty slice is one class.
    pub fn of_labels(labels: &[u32]) -> Self {
        let mut partition = Self::default();
        if let Some(classes) = numbered_by_first(labels) {
            if classes > 1 {
                partition.labels = labels.to_vec();
                partition.classes = classes;
            }
            return partition;
        }
        partition.split(labels.len(), labels.iter().map(|label| u64::from(*label)));
        partition
    }

    /// For each copy, the label of its class; empty where there is one class.
    pub fn labels(&self) -> &[u32] {
        &self.labels
    }

    /// Whether each of `copies` copies is a class of its own, so that no plane can refine the partition further.
    #[inline]
    pub fn is_discrete(&self, copies: usize) -> bool {
        copies <= 1 || self.classes as usize == copies
    }

    /// Refines by planes of `copies` copies, `width` words each, one after the other in `planes`: at most [`PLANES`] of them.
    pub fn refine(&mut self, copies: usize, width: usize, planes: &[u64]) {
        if self.is_discrete(copies) || planes.is_empty() {
            return;
        }
        let mut words = Vec::with_capacity(width * 64);
        let mut block = [0u64; PLANES];
        for at in 0..width {
            block.fill(0);
            for (row, plane) in block.iter_mut().zip(planes.chunks_exact(width)) {
                *row = plane[at];
            }
            transpose(&mut block);
            words.extend_from_slice(&block);
        }
        self.split(copies, words.into_iter().take(copies));
    }

    /// The common refinement with another partition of the same copies.
    pub fn merge(&mut self, other: &Self) {
        if other.labels.is_empty() {
            return;
        }
        if self.labels.is_empty() {
            self.clone_from(other);
            return;
        }
        let copies = self.labels.len();
        if !self.is_discrete(copies) {
            self.split(copies, other.labels.iter().map(|label| u64::from(*label)));
        }
    }

    /// Splits classes by a key of each copy.
    fn split(&mut self, copies: usize, keys: impl Iterator<Item = u64>) {
        let mut known: HashMap<(u32, u64), u32> =
            HashMap::with_capacity((self.classes as usize * 2).clamp(16, copies.max(16)));
        let mut next = 0u32;
        let mut label = |key: (u32, u64)| {
            *known.entry(key).or_insert_with(|| {
                next += 1;
                next - 1
            })
        };
        if self.labels.is_empty() {
            self.labels = keys.map(|key| label((0, key))).collect();
        } else {
            for (of_copy, key) in self.labels.iter_mut().zip(keys) {
                *of_copy = label((*of_copy, key));
            }
        }
        self.classes = next;
        if next <= 1 {
            *self = Self::default();
        }
    }

    /// The sizes of the classes, counting only those of `copies` copies for which `kept` is true.
    pub fn sizes(&self, copies: usize, kept: impl Fn(usize) -> bool) -> Vec<u64> {
        let mut sizes = vec![0; (self.classes as usize).max(1)];
        for copy in (0..copies).filter(|copy| kept(*copy)) {
            let label = self.labels.get(copy).map_or(0, |label| *label as usize);
            if let Some(size) = sizes.get_mut(label) {
                *size += 1;
            }
        }
        sizes.retain(|size| *size > 0);
        sizes
    }

    /// Bytes on the heap.
    pub fn heap_size(&self) -> usize {
        self.labels.capacity() * size_of::<u32>()
    }
}

/// The number of labels, if they are numbered by the first copy that has them, as those of a partition are.
fn numbered_by_first(labels: &[u32]) -> Option<u32> {
    let mut next = 0;
    for &label in labels {
        if label > next {
            return None;
        }
        next = next.max(label.checked_add(1)?);
    }
    Some(next)
}

/// Bit `c` of word `r` becomes bit `r` of word `c`.
fn transpose(block: &mut [u64; 64]) {
    let (mut half, mut mask) = (32usize, u64::MAX >> 32);
    while half > 0 {
        let mut row = 0;
        while row < 64 {
            let swapped = (block[row] >> half ^ block[row + half]) & mask;
            block[row] ^= swapped << half;
            block[row + half] ^= swapped;
            row = (row + half + 1) & !half;
        }
        half /= 2;
        mask ^= mask << half;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn transposition() {
        let mut block = [0u64; 64];
        let bit = |r: usize, c: usize| (r * 31 + c * 17 + r * c) % 5 < 2;
        for (r, row) in block.iter_mut().enumerate() {
            *row = (0..64).map(|c| u64::from(bit(r, c)) << c).sum();
        }
        transpose(&mut block);
        for (c, row) in block.iter().enumerate() {
            assert!((0..64).all(|r| (row >> r & 1 == 1) == bit(r, c)));
        }
    }

    /// Labels by first copy, of haplotypes as lists of bits.
    fn labels(rows: &[Vec<bool>], copies: usize) -> Vec<u32> {
        let mut known = HashMap::new();
        (0..copies)
            .map(|copy| {
                let haplotype: Vec<bool> = rows.iter().map(|row| row[copy]).collect();
                let next = known.len() as u32;
                *known.entry(haplotype).or_insert(next)
            })
            .collect()
    }

    fn planes(rows: &[Vec<bool>], copies: usize) -> Vec<u64> {
        let width = copies.div_ceil(64);
        rows.iter()
            .flat_map(|row| {
                let mut plane = vec![0u64; width];
                row.iter()
                    .enumerate()
                    .for_each(|(at, bit)| plane[at / 64] |= u64::from(*bit) << (at % 64));
                plane
            })
            .collect()
    }

    fn refined(rows: &[Vec<bool>], copies: usize, at_once: usize) -> Partition {
        let mut partition = Partition::default();
        for rows in rows.chunks(at_once) {
            partition.refine(copies, copies.div_ceil(64), &planes(rows, copies));
        }
        partition
    }

    proptest! {
        #[test]
        fn partitions_are_exact_in_any_order(
            (copies, rows) in (1usize..150).prop_flat_map(|copies| {
                (Just(copies), prop::collection::vec(prop::collection::vec(prop::bool::weighted(0.1), copies), 0..80))
            }),
            at_once in 1usize..=64,
            cut in any::<prop::sample::Index>(),
        ) {
            let expected = labels(&rows, copies);
            let partition = refined(&rows, copies, at_once);
            let distinct = expected.iter().max().map_or(1, |label| label + 1);
            match distinct {
                1 => prop_assert!(partition.labels().is_empty()),
                _ => prop_assert_eq!(partition.labels(), &expected[..]),
            }
            prop_assert_eq!(partition.is_discrete(copies), copies == 1 || distinct as usize == copies);
            let sizes = partition.sizes(copies, |_| true);
            prop_assert_eq!(sizes.len(), distinct as usize);
            prop_assert_eq!(sizes.iter().sum::<u64>(), copies as u64);
            // Rows in another order, and in two parts that are merged.
            let mut reversed = rows.clone();
            reversed.reverse();
            prop_assert_eq!(&refined(&reversed, copies, at_once), &partition);
            let (first, second) = rows.split_at(cut.index(rows.len() + 1));
            let (mut a, b) = (refined(first, copies, at_once), refined(second, copies, 64));
            a.merge(&b);
            prop_assert_eq!(&a, &partition);
            let renumbered: Vec<u32> = partition.labels().iter().map(|label| 7 * (distinct - label)).collect();
            prop_assert_eq!(&Partition::of_labels(&renumbered), &partition);
            prop_assert_eq!(Partition::of_labels(partition.labels()), partition);
        }
    }
}
