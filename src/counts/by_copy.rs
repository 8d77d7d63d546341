//! Counts the alleles of a row copy by copy: the part of [`rows`](super::rows) for many sets and rows with few codes other than 0.

use super::lanes::{Lanes, STRIP};
use super::members::Members;
use super::tally::{RowPosition, Tally};

/// Counts a piece of a row copy by copy, if that is faster than by masks; returns whether it did. Every called code must be 0 or 1;
/// `negative` is empty where every copy is called.
#[inline(always)]
pub(super) fn count_members<L: Lanes>(
    l: L,
    tally: &mut Tally,
    at: RowPosition,
    plane: &[u8],
    negative: &[u8],
    len: usize,
) -> bool {
    let Some(members) = &tally.masks.members else {
        return false;
    };
    let (mut done, mut counters) = (0, l.zero());
    while done < len {
        let bits = l.load(plane.get(done..).unwrap_or(&[]), len - done);
        let negative = l.load(negative.get(done..).unwrap_or(&[]), len - done);
        let wanted = l.load(at.masks.wanted(at.byte + done), len - done);
        counters = l.add(counters, l.counters(l.and(l.or(bits, negative), wanted)));
        done += STRIP;
    }
    if !members.pays(l.sum(counters) as i32) {
        return false;
    }
    let mut done = 0;
    while done < len {
        let bits = l.load(plane.get(done..).unwrap_or(&[]), len - done);
        let negative = l.load(negative.get(done..).unwrap_or(&[]), len - done);
        let wanted = l.load(at.masks.wanted(at.byte + done), len - done);
        let at = RowPosition {
            byte: at.byte + done,
            ..at
        };
        let ones = l.and(l.and_not(bits, negative), wanted);
        move_members(l, tally, members, at, ones, Some(1));
        move_members(l, tally, members, at, l.and(negative, wanted), None);
        done += STRIP;
    }
    true
}

/// Moves the copies of one strip, all of them wanted, from the reference to `allele` (`None`: only removes them) in the counts of every set
/// that they belong to.
#[inline(always)]
pub(super) fn move_members<L: Lanes>(
    l: L,
    tally: &mut Tally,
    members: &Members,
    at: RowPosition,
    copies: L::Strip,
    allele: Option<usize>,
) {
    if l.is_zero(copies) {
        return;
    }
    let bytes = l.store(copies);
    for (word, bits) in bytes.as_chunks().0.iter().enumerate() {
        let mut bits = u64::from_le_bytes(*bits);
        while bits != 0 {
            let bit = (at.byte + word * size_of::<u64>()) * 8 + bits.trailing_zeros() as usize;
            bits &= bits - 1;
            for &column in members.of(bit.saturating_sub(at.masks.phase)) {
                tally.move_in_column(column as usize, at.row, allele, 1);
            }
        }
    }
}
