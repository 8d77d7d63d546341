//! [`SharedLengths`]: how many pairs of copies with the same allele at a row are identical over how many rows up to it.
//!
//! In the prefix order two copies agree over the least of the lengths between neighbours from one to the other. So a length between two
//! neighbours is that of all pairs around them up to where a length is less, on both sides. A stack of ascending lengths finds these
//! borders in time proportional to the number of copies, and every pair is counted once.

use super::prefix_order::CopyPlace;

/// A length between neighbours whose pairs are not all known yet.
#[derive(Clone, Copy, Debug, Default)]
struct Open {
    start: u32,
    /// Copies before it up to the last shorter length.
    left: u32,
}

/// Below all open lengths: shorter than any.
const BOTTOM: Open = Open {
    start: u32::MAX,
    left: 0,
};

/// The stack, whose allocation is used again.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedLengths {
    open: Vec<Open>,
}

impl SharedLengths {
    /// Calls `found` with a length, which is at most `rows`, and a number of pairs that are identical over exactly so many last rows, until
    /// each pair of `places` was counted once. The places are those of all copies with one allele at row `rows` − 1.
    #[inline(always)]
    pub(super) fn of(&mut self, places: &[CopyPlace], rows: u32, mut found: impl FnMut(u32, u64)) {
        let Some((_, others)) = places.split_first() else {
            return;
        };
        if self.open.len() < places.len() {
            self.open.resize(places.len(), BOTTOM);
        }
        let open = &mut self.open[..places.len()];
        // `last` is the open length at `top`; those below it are in `open`, from 1 on.
        let (mut top, mut last) = (0, BOTTOM);
        open[0] = BOTTOM;
        // Copies after the last open length.
        let mut right = 1;
        for place in others {
            while last.start <= place.start {
                found(rows - last.start, u64::from(last.left) * u64::from(right));
                right += last.left;
                top -= 1;
                last = open[top];
            }
            last = Open {
                start: place.start,
                left: right,
            };
            top += 1;
            open[top] = last;
            right = 1;
        }
        while top > 0 {
            found(rows - last.start, u64::from(last.left) * u64::from(right));
            right += last.left;
            top -= 1;
            last = open[top];
        }
    }

    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.open.capacity() * size_of::<Open>()
    }
}
