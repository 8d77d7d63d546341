//! [`Partition`]: which copies have carried the same alleles so far, exactly.
//!
//! A partition is refined by bit-planes, [`PLANES`] at a time: their bits for one copy form its words, and two copies stay in one class
//! if they were in one class and their words are equal. Planes with few bits refine it as lists of the copies that carry them, in time that
//! grows with these copies only. Labels are numbered by the first copy that has them, so equal partitions have equal labels, whatever
//! planes refined them and in which order.

use std::hash::BuildHasher;

use hashbrown::DefaultHashBuilder;

use super::carrier_lists::CarrierLists;
pub use super::copy_words::PLANES;
use super::copy_words::{CopyWords, WORDS, copy_words};

/// A partition of `n` copies into classes. All are in one class at first, for which nothing is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partition {
    /// For each copy, the label of its class; empty while there is one class.
    labels: Vec<u32>,
    /// Number of classes; 0 while there is one.
    classes: u32,
}

/// Where the carriers of a list go that were in one class.
#[derive(Clone, Copy, Default)]
struct Move {
    /// The list; 0 for none.
    list: u32,
    /// Their new class.
    to: u32,
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
        partition.split(&keys(labels));
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

    /// Refines by planes of `copies` copies, `width` words each, one after the other in `planes`: best by [`PLANES`] of them at once.
    pub fn refine(&mut self, copies: usize, width: usize, planes: &[u64]) {
        if width == 0 {
            return;
        }
        for planes in planes.chunks(width.saturating_mul(PLANES)) {
            if self.is_discrete(copies) {
                return;
            }
            let mut words = copy_words(width, planes);
            words.resize(copies, [0; WORDS]);
            self.split(&words);
        }
    }

    /// Refines by lists of carriers among `copies` copies.
    pub fn refine_by_carriers(&mut self, copies: usize, lists: &CarrierLists) {
        if self.is_discrete(copies) || lists.is_empty() {
            return;
        }
        self.labels.resize(copies, 0);
        // The carriers of a list in a class form a new class, even if they are the whole of it: so its size need not be known.
        let mut next = self.classes.max(1);
        let mut moves = vec![Move::default(); next as usize + lists.len()];
        for (list, carrier) in lists.carriers() {
            let Some(label) = self.labels.get_mut(carrier) else {
                continue;
            };
            let Some(class) = moves.get_mut(*label as usize) else {
                continue;
            };
            let is_new = class.list != list;
            let to = if is_new { next } else { class.to };
            next += u32::from(is_new);
            *class = Move { list, to };
            *label = to;
        }
        self.renumber(next as usize);
    }

    /// Numbers labels, which are below `end`, by the first copy that has them.
    fn renumber(&mut self, end: usize) {
        // One more than the new label; 0 before it has one.
        let mut numbers = vec![0u32; end];
        let mut classes = 0;
        for label in &mut self.labels {
            if let Some(number) = numbers.get_mut(*label as usize) {
                let is_new = *number == 0;
                classes += u32::from(is_new);
                *number = if is_new { classes } else { *number };
                *label = *number - 1;
            }
        }
        self.set_classes(classes);
    }

    /// Sets the number of classes.
    fn set_classes(&mut self, classes: u32) {
        self.classes = classes;
        if classes <= 1 {
            *self = Self::default();
        }
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
        if !self.is_discrete(self.labels.len()) {
            self.split(&keys(&other.labels));
        }
    }

    /// Splits classes by a key of each copy.
    fn split(&mut self, keys: &[CopyWords]) {
        // Seeded, so that no data can be made for which all hashes are equal.
        let seed = DefaultHashBuilder::default().hash_one(0u64);
        self.split_by(keys, |label, key| {
            let mut hash = seed ^ u64::from(label);
            for word in key {
                let product = u128::from(hash ^ word) * 0x9e37_79b9_7f4a_7c15;
                hash = (product >> 64) as u64 ^ product as u64;
            }
            hash as usize
        });
    }

    /// Splits classes by a key of each copy; `hash` of a label and a key is where their class is looked for first.
    #[inline(always)]
    fn split_by(&mut self, keys: &[CopyWords], hash: impl Fn(u32, CopyWords) -> usize) {
        self.labels.resize(keys.len(), 0);
        // The first copy of a class, from 1 on, and 0 in free slots, which are at least half of them.
        let mut slots = vec![0u32; keys.len().saturating_mul(2).next_power_of_two()];
        let last_slot = slots.len() - 1;
        let mut labels = vec![0u32; keys.len()];
        let mut classes = 0u32;
        for (copy, (&label, &key)) in self.labels.iter().zip(keys).enumerate() {
            // The copy is as if it were the first of its class. A free slot then holds a copy that is equal, and whether the slot was
            // free, which cannot be predicted, needs no branch.
            if let Some(label) = labels.get_mut(copy) {
                *label = classes;
            }
            let mut at = hash(label, key) & last_slot;
            while let Some(slot) = slots.get_mut(at) {
                let first = match *slot {
                    0 => copy,
                    first => first as usize - 1,
                };
                let (Some(of_first), Some(key_of_first)) =
                    (self.labels.get(first), keys.get(first))
                else {
                    break;
                };
                if is_same(label, key, *of_first, *key_of_first) {
                    *slot = first as u32 + 1;
                    classes += u32::from(first == copy);
                    let of_class = labels.get(first).copied();
                    if let (Some(label), Some(of_class)) = (labels.get_mut(copy), of_class) {
                        *label = of_class;
                    }
                    break;
                }
                at = (at + 1) & last_slot;
            }
        }
        self.labels = labels;
        self.set_classes(classes);
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

/// Labels as keys of a split.
fn keys(labels: &[u32]) -> Vec<CopyWords> {
    let key = |label: &u32| {
        let mut key = [0; WORDS];
        key[0] = u64::from(*label);
        key
    };
    labels.iter().map(key).collect()
}

/// Whether labels and keys are equal, without a branch for each of them.
#[inline(always)]
fn is_same(label: u32, key: CopyWords, of_first: u32, key_of_first: CopyWords) -> bool {
    let mut differences = u64::from(label ^ of_first);
    for (word, of_first) in key.iter().zip(key_of_first) {
        differences |= word ^ of_first;
    }
    differences == 0
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn splits_are_exact_if_hashes_collide() {
        for copies in [1, 2, 63, 64, 200] {
            for values in [1, 2, 7, copies] {
                let keys: Vec<CopyWords> = (0..copies)
                    .map(|copy| [(copy * copy % values) << 50, 0])
                    .collect();
                for hashes in [1, 3, usize::MAX] {
                    let (mut found, mut expected) = (Partition::default(), Partition::default());
                    for step in 1..3u64 {
                        let keys: Vec<CopyWords> =
                            keys.iter().map(|key| [key[0] / step, key[0]]).collect();
                        found.split_by(&keys, |label, key| {
                            (label as usize + key[0] as usize) % hashes + usize::MAX / 2
                        });
                        expected.split(&keys);
                        assert_eq!(found, expected);
                    }
                    let distinct = keys.iter().collect::<HashSet<_>>().len();
                    assert_eq!(found.sizes(keys.len(), |_| true).len(), distinct);
                    assert_eq!(found.labels().is_empty(), distinct == 1);
                }
            }
        }
    }

    #[test]
    fn all_equal_and_all_distinct() {
        for copies in [1usize, 2, 64, 65, 600] {
            let (width, mut lists) = (copies.div_ceil(64), CarrierLists::default());
            let equal = [vec![true; copies], vec![false; copies]].concat();
            let mut partition = Partition::default();
            partition.refine(copies, width, &planes(&[equal[..copies].to_vec()], copies));
            partition.refine(copies, width, &planes(&[equal[copies..].to_vec()], copies));
            assert_eq!(partition, Partition::default());
            // More planes than one refinement takes: of each copy but the first, one that it alone carries.
            let rows: Vec<Vec<bool>> = (1..copies)
                .map(|carrier| (0..copies).map(|copy| copy == carrier).collect())
                .collect();
            let rows = planes(&rows, copies);
            partition.refine(copies, width, &rows);
            assert!(partition.is_discrete(copies));
            assert!(partition.labels().iter().copied().eq(0..partition.classes));
            let mut by_carriers = Partition::default();
            rows.chunks(width).for_each(|row| assert!(lists.push(row)));
            by_carriers.refine_by_carriers(copies, &lists);
            assert_eq!(by_carriers, partition);
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

    /// Refined by lists of carriers where a plane has few bits, and by the other planes.
    fn refined_by_carriers(rows: &[Vec<bool>], copies: usize) -> Partition {
        let (width, mut lists) = (copies.div_ceil(64), CarrierLists::default());
        let mut others = planes(rows, copies);
        others = others
            .chunks(width)
            .filter(|plane| !lists.push(plane))
            .flatten()
            .copied()
            .collect();
        let mut partition = Partition::default();
        partition.refine_by_carriers(copies, &lists);
        partition.refine(copies, width, &others);
        partition.refine_by_carriers(copies, &lists);
        partition
    }

    proptest! {
        #[test]
        fn partitions_are_exact_in_any_order(
            (copies, rows) in (1usize..300, 0.001..0.2f64).prop_flat_map(|(copies, carriers)| {
                let row = prop::collection::vec(prop::bool::weighted(carriers), copies);
                (Just(copies), prop::collection::vec(row, 0..80))
            }),
            at_once in 1usize..=80,
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
            prop_assert_eq!(&refined_by_carriers(&rows, copies), &partition);
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
