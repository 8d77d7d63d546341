//! The sample sets that each copy of a sample chunk belongs to. With many sets, rows in which few codes are not 0 are counted copy by
//! copy.
//!
//! Counting by masks takes time for every set, counting by members for every copy that does not have the reference allele, which are few
//! in most variants. [`rows`](super::rows) chooses for each row, or piece of one, by [`Members::pays`].

use super::error::CountError;

/// Fewer sets are always counted by masks.
const MIN_SETS: usize = 32;
/// Most sets that a copy belongs to on average: members take 4 bytes for each.
const MAX_MEAN_SETS: usize = 4;
// Estimated costs, in instructions. They choose a method and never change a count.
/// Counting a set by a mask of one word.
const WORD_COST: usize = 3;
/// Counting a set by a mask of strips, without the strips.
const MASK_COST: usize = 5;
/// Loading and counting a strip.
const STRIP_COST: usize = 1;
/// Finding a copy.
const COPY_COST: usize = 2;
/// Counting a copy in a set.
const MEMBER_COST: usize = 2;

/// A set of samples.
#[derive(Debug, Clone, Copy)]
pub(super) struct MemberSet {
    /// Its column of counts.
    pub(super) column: usize,
    /// Number of its samples in the chunk.
    pub(super) samples: usize,
    /// Strips of its mask; `None` where the mask is one word.
    pub(super) strips: Option<usize>,
}

impl MemberSet {
    /// The cost of counting the set by its mask.
    fn mask_cost(&self) -> usize {
        self.strips
            .map_or(WORD_COST, |strips| MASK_COST + strips * STRIP_COST)
    }
}

/// For each copy of a sample chunk, the columns of counts of the sets that it belongs to.
#[derive(Debug)]
pub(super) struct Members {
    /// Where the columns of each copy start in `columns`, and where those of the last end.
    starts: Vec<u32>,
    columns: Vec<u32>,
    /// The most copies that are counted faster one by one than by masks.
    most: i32,
}

impl Members {
    /// The members of `sets`. `samples_of` gives the samples of a set by its index, counted from the chunk's first; the chunk has `samples`.
    /// `None` where masks are as fast, or the sets overlap so much that members would take too much memory.
    pub(super) fn new<S: Iterator<Item = usize>>(
        sets: &[MemberSet],
        samples_of: impl Fn(usize) -> S,
        samples: usize,
        ploidy: usize,
    ) -> Result<Option<Self>, CountError> {
        let total = sets
            .iter()
            .map(|set| set.samples)
            .fold(0, usize::saturating_add);
        if sets.len() < MIN_SETS || total > samples.saturating_mul(MAX_MEAN_SETS) {
            return Ok(None);
        }
        let too_large =
            || CountError::TooLarge(format!("sets over {samples} samples of ploidy {ploidy}"));
        let copies = samples.checked_mul(ploidy).ok_or_else(too_large)?;
        let members = total.checked_mul(ploidy).ok_or_else(too_large)?;
        if u32::try_from(members).is_err() {
            return Err(too_large());
        }
        let mut starts: Vec<u32> = Vec::new();
        let mut columns: Vec<u32> = Vec::new();
        starts
            .try_reserve_exact(copies + 1)
            .and_then(|()| columns.try_reserve_exact(members))
            .map_err(|_| too_large())?;
        starts.resize(copies + 1, 0);
        columns.resize(members, 0);
        // First the number of sets of each copy, one place on; then sums; then each column into its place, which moves the start on by
        // one place.
        for at in 0..sets.len() {
            for sample in samples_of(at) {
                for copy in sample * ploidy..(sample + 1) * ploidy {
                    if let Some(count) = starts.get_mut(copy + 1) {
                        *count += 1;
                    }
                }
            }
        }
        let mut sum = 0;
        for start in &mut starts {
            sum += *start;
            *start = sum;
        }
        for (at, set) in sets.iter().enumerate() {
            for sample in samples_of(at) {
                for copy in sample * ploidy..(sample + 1) * ploidy {
                    let Some(start) = starts.get_mut(copy) else {
                        continue;
                    };
                    if let Some(place) = columns.get_mut(*start as usize) {
                        *place = set.column as u32;
                    }
                    *start += 1;
                }
            }
        }
        // Every start is now the next one.
        starts.rotate_right(1);
        if let Some(first) = starts.first_mut() {
            *first = 0;
        }
        let mean_sets = total.div_ceil(samples.max(1));
        let by_masks: usize = sets.iter().map(MemberSet::mask_cost).sum();
        let most = by_masks / (COPY_COST + mean_sets * MEMBER_COST);
        Ok(Some(Self {
            starts,
            columns,
            most: i32::try_from(most).unwrap_or(i32::MAX),
        }))
    }

    /// Whether `copies` of a row are counted faster one by one than by masks.
    #[inline(always)]
    pub(super) fn pays(&self, copies: i32) -> bool {
        copies <= self.most
    }

    /// The columns of counts of the sets that copy `copy` belongs to.
    #[inline(always)]
    pub(super) fn of(&self, copy: usize) -> &[u32] {
        let at = |copy: usize| self.starts.get(copy).map_or(0, |start| *start as usize);
        self.columns.get(at(copy)..at(copy + 1)).unwrap_or(&[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_know_their_sets() {
        // Forty sets of two samples each of 25, diploid; the last sample is in none.
        let sets: Vec<[usize; 2]> = (0..40).map(|i| [i % 24, (i + 1) % 24]).collect();
        let described = (0..40).map(|at| MemberSet {
            column: at * 3,
            samples: 2,
            strips: Some(1),
        });
        let described: Vec<_> = described.collect();
        let members = Members::new(&described, |at| sets[at].into_iter(), 25, 2)
            .unwrap()
            .unwrap();
        for copy in 0..50 {
            let expected: Vec<u32> = (0..40)
                .filter(|&at| sets[at].contains(&(copy / 2)))
                .map(|at| at as u32 * 3)
                .collect();
            assert_eq!(members.of(copy), expected, "copy {copy}");
        }
        assert!(members.of(50).is_empty() && members.of(100).is_empty());
        assert!(members.pays(1) && !members.pays(1000));
    }

    #[test]
    fn few_sets_and_sets_of_everyone_are_masked() {
        let set = |samples| MemberSet {
            column: 0,
            samples,
            strips: None,
        };
        let few = vec![set(1); 3];
        assert!(Members::new(&few, |_| 0..1, 10, 2).unwrap().is_none());
        let everyone = vec![set(10); 40];
        assert!(Members::new(&everyone, |_| 0..10, 10, 2).unwrap().is_none());
    }
}
