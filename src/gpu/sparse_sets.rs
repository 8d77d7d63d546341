//! [`SparseSets`]: allele sets by the words of their masks that have a bit, for `kernels/sparse.cu`, which counts a set in a lane.

/// Sets of a group: the lanes of a warp.
const LANES: usize = 32;
/// Rows of this many copies or more are counted otherwise: two counts of a row must fit in one word (`VCZ_PAIR_COPIES` in the kernels).
const COPIES_LIMIT: usize = 1 << 16;

/// Sets of one sample chunk, as `VczCountSpec::sparse` in `kernels/vcz.cuh` says.
#[derive(Debug, PartialEq, Eq)]
pub struct SparseSets {
    /// The table, in pairs of 32-bit words, the first in the low half.
    pub words: Vec<u64>,
}

impl SparseSets {
    /// The sets with these masks over rows of `copies` copies, where a lane for each set is expected to be faster than a warp for every two
    /// sets; else `None`.
    pub fn try_new<'a>(
        masks: impl Iterator<Item = &'a [u32]>,
        copies: usize,
        n_alleles: usize,
    ) -> Option<Self> {
        if copies >= COPIES_LIMIT || n_alleles < 2 {
            return None;
        }
        let masks: Vec<&[u32]> = masks.collect();
        let used = |mask: &[u32]| mask.iter().filter(|bits| **bits != 0).count();
        let groups = masks.chunks(LANES);
        let steps: Vec<usize> = groups
            .clone()
            .map(|sets| sets.iter().map(|mask| used(mask)).max().unwrap_or(0))
            .collect();
        // Estimates of a warp's instructions for four rows: for each step of a group, and for each word and sum of a set.
        let sparse = 26 * steps.iter().sum::<usize>() + 60 * steps.len();
        let dense = masks.len() * (20 * copies.div_ceil(LANES * LANES) + 50);
        if sparse >= dense {
            return None;
        }
        let mut starts = vec![0u32];
        for steps in &steps {
            // At most the words of the masks.
            starts.push(starts.last()? + *steps as u32);
        }
        let sizes = masks
            .iter()
            .map(|mask| mask.iter().map(|bits| bits.count_ones()).sum());
        let mut head: Vec<u32> = starts.iter().copied().chain(sizes).collect();
        head.resize((starts.len() + LANES * steps.len()).next_multiple_of(2), 0);
        let pairs = head.chunks_exact(2);
        let mut words: Vec<u64> = pairs
            .map(|pair| u64::from(pair[1]) << 32 | u64::from(pair[0]))
            .collect();
        for (sets, steps) in groups.zip(steps) {
            let first = words.len();
            words.resize(first + LANES * steps, 0);
            for (lane, mask) in sets.iter().enumerate() {
                let used = mask.iter().enumerate().filter(|(_, bits)| **bits != 0);
                for (step, (word, bits)) in used.enumerate() {
                    if let Some(entry) = words.get_mut(first + step * LANES + lane) {
                        *entry = u64::from(*bits) << 32 | word as u64;
                    }
                }
            }
        }
        Some(Self { words })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_listed_by_words() {
        // 40 sets of two words of 100: set i has copies in word 2 i, and the odd ones another in word 2 i + 1.
        let mut masks = vec![vec![0u32; 100]; 40];
        for (set, mask) in masks.iter_mut().enumerate() {
            mask[2 * set] = 3;
            mask[2 * set + 1] = u32::from(set % 2 == 1);
        }
        let slices = || masks.iter().map(Vec::as_slice);
        let sparse = SparseSets::try_new(slices(), 3200, 2).unwrap();
        let low = |at: usize| (sparse.words[at / 2] >> (32 * (at % 2))) as u32;
        assert_eq!([0, 1, 2].map(low), [0, 2, 4], "two groups of two steps");
        assert_eq!([3, 4, 5].map(low), [2, 3, 2], "copies of sets");
        assert_eq!(
            [42, 43, 66].map(low),
            [3, 0, 0],
            "the last set, and no more"
        );
        let entries = &sparse.words[(3 + 2 * 32_usize).div_ceil(2)..];
        assert_eq!(entries.len(), 4 * 32);
        assert_eq!(entries[..2], [3 << 32, 3 << 32 | 2]);
        assert_eq!(entries[32..34], [0, 1 << 32 | 3]);
        assert_eq!(entries[64 + 7], 3 << 32 | 78, "set 39");
        assert_eq!(entries[64 + 8], 0);
        assert!(SparseSets::try_new(slices(), 3200, 1).is_none());
        assert!(SparseSets::try_new(slices(), 1 << 16, 2).is_none());
    }

    #[test]
    fn few_large_sets_are_not_listed() {
        let all = vec![u32::MAX; 92];
        let of = |n: usize| SparseSets::try_new(std::iter::repeat_n(&all[..], n), 2940, 2);
        assert!([0, 1, 2, 5].iter().all(|n| of(*n).is_none()));
        assert!(of(100).is_some());
    }
}
