//! [`ListedRow`]: a row of bit-planes with few bits, as lists of the copies with a bit, which take a fraction of the memory.
//!
//! Its words are the header of the row with bit [`LISTED`] set, the number of bits of each of its planes, and then their copies, plane after
//! plane, from the lowest on. A copy takes 16 bits, or 32 where planes have more than 2¹⁶; what is left of the last word is 0.

use crate::counts::gathered::{ABSENT, PlanesRow, UNCALLED, plane_words};
use crate::counts::{Job, Lanes, Level};

/// Bit of the header of a list; headers of planes do not have it.
const LISTED: u32 = 60;
/// Bits of a header that stand for planes.
const PLANES: u64 = 1 << ABSENT | 1 << UNCALLED | ((1 << 30) - 1);

/// The bits of each copy in a list; `None` if copies do not fit.
fn bits_of(width: usize) -> Option<u32> {
    match width {
        0..=0x400 => Some(16),
        0x401..=0x400_0000 => Some(32),
        _ => None,
    }
}

/// A row, viewed.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListedRow<'a> {
    header: u64,
    counts: &'a [u64],
    copies: &'a [u64],
    bits: u32,
}

impl<'a> ListedRow<'a> {
    /// Appends the words of `row` to `to`. False, and nothing is appended, if they are not fewer than those of its planes.
    pub(super) fn push(row: PlanesRow<'_>, level: Level, to: &mut Vec<u64>) -> bool {
        level.run(Push { row, to })
    }

    /// Whether a row is one of planes of `copies` copies, and of no others.
    pub(super) fn are_planes(row: PlanesRow<'_>, copies: usize) -> bool {
        let past = match copies % 64 {
            0 => 0,
            bits => u64::MAX << bits,
        };
        let mut planes = row.all_planes().chunks_exact(row.width().max(1));
        row.header() & !PLANES == 0
            && planes.all(|plane| plane.last().is_none_or(|last| last & past == 0))
    }

    /// Whether a row that begins with this word is a list.
    #[inline]
    pub(super) fn is_listed(header: u64) -> bool {
        header >> LISTED & 1 == 1
    }

    /// Words of the list that `words` begin with, for rows of `copies` copies; `None` if there are fewer.
    #[inline]
    pub(super) fn len(words: &[u64], copies: usize) -> Option<usize> {
        let planes = (words.first()? & PLANES).count_ones() as usize;
        let counts = words.get(1..1 + planes)?;
        let all = counts.iter().try_fold(0u64, |all, n| all.checked_add(*n))?;
        let in_word = u64::from(u64::BITS / bits_of(plane_words(copies))?);
        let len = usize::try_from(all.div_ceil(in_word)).ok()?;
        len.checked_add(1 + planes)
    }

    /// The row with these words, as many as [`len`](Self::len); `None` if they are none.
    #[inline]
    pub(super) fn try_new(words: &'a [u64], copies: usize) -> Option<Self> {
        let (header, rest) = words.split_first()?;
        if !Self::is_listed(*header) || Self::len(words, copies)? != words.len() {
            return None;
        }
        let header = header & !(1 << LISTED);
        let (counts, copies_of) = rest.split_at_checked(header.count_ones() as usize)?;
        Some(Self {
            header,
            counts,
            copies: copies_of,
            bits: bits_of(plane_words(copies))?,
        })
    }

    /// Whether each of its planes has bits, of copies below `copies` and in ascending order, and it is shorter than its planes.
    pub(super) fn is_valid(&self, copies: usize) -> bool {
        let len = self.counts.len() + self.copies.len();
        let mut last = None;
        let mut is_valid = self.header & !PLANES == 0
            && self.counts.iter().all(|n| *n > 0)
            && len < self.counts.len().saturating_mul(plane_words(copies));
        self.for_each(|plane, copy| {
            is_valid &= copy < copies && last.is_none_or(|last| last < (plane, copy));
            last = Some((plane, copy));
        });
        is_valid
    }

    /// Number of bits.
    #[inline]
    pub(super) fn ones(&self) -> usize {
        // No more than there are words for.
        self.counts.iter().sum::<u64>() as usize
    }

    /// Whether every copy is called, and as one of two alleles.
    #[inline]
    pub(super) fn is_biallelic(&self) -> bool {
        self.header == 1
    }

    /// Each bit: the number of its plane among those of the row, and its copy.
    #[inline(always)]
    pub(super) fn for_each(&self, mut each: impl FnMut(usize, usize)) {
        let mut counts = self.counts.iter().enumerate();
        let (mut plane, mut left) = (0, 0);
        let bits = self.bits.min(u64::BITS - 1);
        let mask = (1 << bits) - 1;
        for word in self.copies {
            let mut rest = *word;
            for _ in 0..u64::BITS / bits {
                while left == 0 {
                    let Some((at, count)) = counts.next() else {
                        return;
                    };
                    (plane, left) = (at, *count);
                }
                each(plane, (rest & mask) as usize);
                rest >>= bits;
                left -= 1;
            }
        }
    }

    /// Appends the row as planes of `width` words.
    pub(super) fn push_planes(&self, width: usize, to: &mut Vec<u64>) {
        to.push(self.header);
        let from = to.len();
        to.resize(from + self.counts.len() * width, 0);
        let planes = to.get_mut(from..).unwrap_or_default();
        self.for_each(|plane, copy| {
            if let Some(word) = planes.get_mut(plane * width + copy / 64) {
                *word |= 1 << (copy % 64);
            }
        });
    }
}

/// Appends a row to words.
struct Push<'a> {
    row: PlanesRow<'a>,
    to: &'a mut Vec<u64>,
}

impl Job for Push<'_> {
    type Output = bool;

    #[inline(always)]
    fn run<L: Lanes>(self, _lanes: L) -> bool {
        let Self { row, to } = self;
        let (planes, number) = (row.all_planes(), row.header().count_ones() as usize);
        if row.header() & !PLANES != 0 {
            return false;
        }
        let (Some(bits), Some(room)) = (bits_of(row.width()), planes.len().checked_sub(number + 1))
        else {
            return false;
        };
        let ones: usize = planes.iter().map(|word| word.count_ones() as usize).sum();
        if ones.div_ceil((u64::BITS / bits) as usize) > room {
            return false;
        }
        to.push(row.header() | 1 << LISTED);
        let counts = to.len();
        to.resize(counts + number, 0);
        let (mut word, mut used) = (0, 0);
        for (plane, words) in planes.chunks_exact(row.width().max(1)).enumerate() {
            let mut count = 0;
            for (first, of_word) in (0u64..).step_by(64).zip(words) {
                let mut rest = *of_word;
                while rest != 0 {
                    word |= (first + u64::from(rest.trailing_zeros())) << used;
                    rest &= rest - 1;
                    count += 1;
                    used += bits;
                    if used == u64::BITS {
                        to.push(word);
                        (word, used) = (0, 0);
                    }
                }
            }
            if let Some(to) = to.get_mut(counts + plane) {
                *to = count;
            }
        }
        if used > 0 {
            to.push(word);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn row(copies: usize, planes: &[(u32, Vec<usize>)]) -> Vec<u64> {
        let width = plane_words(copies);
        let mut words = vec![0];
        for (bit, of) in planes {
            words[0] |= 1 << bit;
            let from = words.len();
            words.resize(from + width, 0);
            for copy in of {
                words[from + copy / 64] |= 1 << (copy % 64);
            }
        }
        words
    }

    proptest! {
        #[test]
        fn lists_are_their_planes(
            copies in prop_oneof![1usize..500, 65_530usize..65_700],
            of in vec((0usize..4, vec(any::<prop::sample::Index>(), 1..40)), 0..4),
        ) {
            let mut planes: Vec<(u32, Vec<usize>)> = vec![];
            for (bit, copies_of) in of {
                let bit = [0, 1, UNCALLED, ABSENT][bit];
                if planes.last().is_none_or(|(last, _)| *last < bit) {
                    planes.push((bit, copies_of.iter().map(|at| at.index(copies)).collect()));
                }
            }
            let words = row(copies, &planes);
            let view = PlanesRow::try_new(&words, copies).unwrap();
            let mut listed = vec![7];
            let bits: usize = words[1..].iter().map(|word| word.count_ones() as usize).sum();
            let in_word = if plane_words(copies) <= 1024 { 4 } else { 2 };
            let is_shorter = planes.len() + bits.div_ceil(in_word) + 1 < words.len();
            for level in Level::available() {
                listed.truncate(1);
                prop_assert_eq!(ListedRow::push(view, level, &mut listed), is_shorter);
            }
            if !is_shorter {
                prop_assert_eq!(listed, vec![7]);
                return Ok(());
            }
            let listed = &listed[1..];
            prop_assert!(ListedRow::is_listed(listed[0]) && !ListedRow::is_listed(words[0]));
            prop_assert_eq!(ListedRow::len(listed, copies), Some(listed.len()));
            for end in 0..listed.len() {
                prop_assert!(ListedRow::try_new(&listed[..end], copies).is_none());
            }
            let found = ListedRow::try_new(listed, copies).unwrap();
            prop_assert!(found.is_valid(copies));
            prop_assert_eq!(found.is_biallelic(), words[0] == 1);
            let mut expanded = vec![];
            found.push_planes(plane_words(copies), &mut expanded);
            prop_assert_eq!(expanded, words);
        }
    }

    #[test]
    fn what_is_no_list_is_refused() {
        let copies = 300;
        let words = row(copies, &[(0, vec![3, 5, 299]), (UNCALLED, vec![4])]);
        let mut listed = vec![];
        let view = PlanesRow::try_new(&words, copies).unwrap();
        assert!(ListedRow::push(view, Level::Portable, &mut listed));
        assert_eq!(listed.len(), 4);
        let is_valid = |words: &[u64]| {
            ListedRow::try_new(words, copies).is_some_and(|row| row.is_valid(copies))
        };
        assert!(is_valid(&listed));
        for (at, word) in [
            (0, words[0]),
            (0, listed[0] | 1 << 40),
            (1, 4),
            (1, u64::MAX),
            (1, 1 << 40),
            (2, 0),
            (3, 3 | 5 << 16 | 300 << 32),
            (3, 5 | 3 << 16 | 299 << 32),
            (3, 5 | 5 << 16 | 299 << 32),
        ] {
            let mut other = listed.clone();
            other[at] = word;
            assert!(!is_valid(&other), "{at} {word:x}");
        }
        // As long as the planes would be, or longer.
        let mut long = vec![1 | 1 << LISTED, 16];
        long.extend([0x0003_0002_0001_0000, 0x0007_0006_0005_0004]);
        long.extend([0x000b_000a_0009_0008, 0x000f_000e_000d_000c]);
        let is_valid = |copies: usize| {
            ListedRow::try_new(&long, copies).is_some_and(|row| row.is_valid(copies))
        };
        assert_eq!([300, 320, 321].map(is_valid), [false, false, true]);
        let are_planes = |words: &[u64], copies: usize| {
            let row = PlanesRow::try_new(words, copies).unwrap();
            ListedRow::are_planes(row, copies)
        };
        assert!(are_planes(&[0], 70) && are_planes(&[1 << ABSENT, 1, 1 << 5], 70));
        assert!(!are_planes(&[1, 1, 1 << 6], 70) && are_planes(&[1, 1, 1 << 63], 128));
        for bit in 30..UNCALLED {
            if bit != 61 {
                assert!(!are_planes(&[1 << bit, 1], 64), "{bit}");
            }
        }
    }
}
