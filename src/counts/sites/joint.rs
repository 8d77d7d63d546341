//! Joint counts of the sites of two blocks: the set bits that two planes have in common, for each pair of sites.

use std::ops::Range;

use crate::counts::lanes::STRIP;
use crate::counts::{Job, Lanes, Level};

use super::block::{BLOCK, GROUP, Plane};

/// For each site of the first block, counts with each of the second.
pub(crate) type JointCounts = [[u32; BLOCK]; BLOCK];
/// For each site of the first block, the sites of the second that it is compared with.
pub(crate) type Ranges = [Range<u8>; BLOCK];

/// Strips that are counted at a time, so that nine sites stay in the first-level cache.
const SLAB: usize = 32;

/// Counts the bits that sites have in common, in `first` and in `second`, for pairs in `ranges`. Other counts are changed, too.
pub(crate) fn joint_counts(
    level: Level,
    first: &Plane,
    second: &Plane,
    ranges: &Ranges,
    counts: &mut JointCounts,
) {
    level.run(Joint {
        first,
        second,
        ranges,
        counts,
    });
}

struct Joint<'a> {
    first: &'a Plane,
    second: &'a Plane,
    ranges: &'a Ranges,
    counts: &'a mut JointCounts,
}

impl Job for Joint<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let strips = self.first.strips();
        let mut from = 0;
        while from < strips {
            let slab = from..strips.min(from + SLAB);
            for (row, (range, counts)) in self.ranges.iter().zip(&mut *self.counts).enumerate() {
                if range.is_empty() {
                    continue;
                }
                let mine = self.first.group(row / GROUP, slab.clone());
                let groups = usize::from(range.start) / GROUP
                    ..usize::from(range.end).div_ceil(GROUP).min(BLOCK / GROUP);
                for group in groups {
                    let others = self.second.group(group, slab.clone());
                    let mut sums = [lanes.zero(); GROUP];
                    for (mine, others) in mine.iter().zip(others) {
                        let mine = lanes.load(&mine[row % GROUP].0, STRIP);
                        for (sum, other) in sums.iter_mut().zip(others) {
                            let both = lanes.and(mine, lanes.load(&other.0, STRIP));
                            *sum = lanes.add(*sum, lanes.counters(both));
                        }
                    }
                    let sums = lanes.sums(sums);
                    let counts = &mut counts[group * GROUP..(group + 1) * GROUP];
                    for (count, sum) in counts.iter_mut().zip(sums) {
                        *count = if from == 0 { 0 } else { *count } + sum as u32;
                    }
                }
            }
            from = slab.end;
        }
    }
}
