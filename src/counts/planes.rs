//! Counts on the bit-planes of bit-shuffled Blosc blocks, without un-shuffling them: the fast path of default VCZ stores.
//!
//! A decompressed block of one-byte codes is eight planes, one bit of every code each, eight codes to a byte. Rows straddle
//! bytes and blocks, so codes are found by their index in the chunk: a block holds codes `[block start, block end)`, and a row
//! starts at some bit of some byte of each plane, or in an earlier block. Biallelic rows without missing calls have bits in
//! plane 0 only. Such blocks end in zeros, which the codec does not decode, so the other planes are known to be empty without
//! reading them. With missing calls, the higher planes are mostly copies of each other, which the codec does not decode either,
//! and only one of them is read. Blocks that are not bit-shuffled (the last, if its length is not a multiple of eight; whole
//! containers) hold plain codes, which [`bytes`](super::bytes) counts block by block.

use super::bytes::{Buffers, DecodedCodes, Width, count_codes};
use super::error::CountError;
use super::lanes::{Job, Lanes, Level, STRIP};
use super::masks::PhaseMasks;
use super::reference::bad_code;
use super::rows::{count_plane0, count_planes_0_and_7, count_strip};
use super::tally::{BadCode, RowPosition, Tally};
use crate::codec::Scratch;
use crate::codec::blosc::{self, BloscHeader};

/// Whether the blocks of this container can be counted one by one: one-byte elements, and every block starts at a multiple of
/// eight codes.
pub(super) fn is_countable(header: &BloscHeader) -> bool {
    header.typesize() == 1
        && (header.memcpyed() || header.n_blocks() <= 1 || header.blocksize().is_multiple_of(8))
}

/// Counts a whole container of one-byte codes into rows that were initially counted as all reference. `rows` rows exist.
///
/// # Errors
/// A block that does not decode, or a wanted code of K or more.
pub(super) fn count_container(
    level: Level,
    tally: &mut Tally,
    header: &BloscHeader,
    container: &[u8],
    rows: usize,
    buffers: (&mut Vec<u8>, &mut Scratch, &mut Buffers),
) -> Result<(), CountError> {
    let (block, codec, row_buffers) = buffers;
    let row_copies = tally.masks.row_copies;
    let wanted = rows.saturating_mul(row_copies);
    if header.memcpyed() {
        let bytes = container.get(blosc::HEADER_LEN..).unwrap_or(&[]);
        return count_codes(
            level,
            tally,
            DecodedCodes {
                bytes,
                width: Width::One,
                first: 0,
                row_copies,
                rows,
            },
            row_buffers,
        );
    }
    if block.len() < header.blocksize() + STRIP {
        // Room for whole strips past the end. A new allocation, because the old contents are not needed.
        *block = vec![0; header.blocksize() + STRIP];
    }
    for i in 0..header.n_blocks() {
        let first = header.block_range(i).start;
        if first >= wanted {
            break; // only padding rows are left
        }
        let found = blosc::decompress_block_planes(header, container, i, block, codec)?;
        if found.bit_planes {
            level
                .run(CountBlock {
                    tally: &mut *tally,
                    block,
                    n_planes: found.n_planes(),
                    repeats: found.repeats,
                    plane_len: found.plane_len,
                    first,
                    rows,
                })
                .map_err(|bad| {
                    let sample = tally.masks.first_sample + bad.copy / tally.masks.ploidy;
                    bad_code(bad.row, sample, bad.code.into(), tally.n_alleles)
                })?;
        } else {
            // The tail of zeros of a plain block was not written.
            let tail = block.get_mut(found.decoded..found.len).unwrap_or_default();
            tail.fill(0);
            let bytes = block.get(..found.len).unwrap_or(&[]);
            count_codes(
                level,
                tally,
                DecodedCodes {
                    bytes,
                    width: Width::One,
                    first,
                    row_copies,
                    rows,
                },
                row_buffers,
            )?;
        }
    }
    Ok(())
}

/// One bit-shuffled block.
struct CountBlock<'a, 't> {
    tally: &'a mut Tally<'t>,
    /// The planes from plane 0 on, then padding: whole strips can be read past the end of the last plane.
    block: &'a [u8],
    /// Planes that were decoded; the others are zero.
    n_planes: usize,
    /// Whether the others equal the last decoded plane instead of zero.
    repeats: bool,
    /// Bytes of one plane.
    plane_len: usize,
    /// Index, in the chunk, of the block's first code; a multiple of 8.
    first: usize,
    /// Rows of the chunk that exist.
    rows: usize,
}

impl Job for CountBlock<'_, '_> {
    type Output = Result<(), BadCode>;

    #[inline(always)]
    fn run<L: Lanes>(self, l: L) -> Result<(), BadCode> {
        let Self {
            tally,
            block,
            n_planes,
            repeats,
            plane_len,
            first,
            rows,
        } = self;
        let masks = tally.masks;
        let row_copies = masks.row_copies;
        if row_copies == 0 || plane_len == 0 {
            return Ok(());
        }
        // Each slice is from the start of the plane to the end of the block, so that whole strips can be loaded; empty for planes
        // without a set bit, whose rows need not be read.
        let mut plane = [&[] as &[u8]; 8];
        for (k, plane) in plane.iter_mut().enumerate().take(n_planes) {
            let bytes = block.get(k * plane_len..).unwrap_or(&[]);
            if k == 0 || !is_zero(l, bytes.get(..plane_len).unwrap_or(bytes)) {
                *plane = bytes;
            }
        }
        // Planes from `end` on are empty or equal the one before, so they need not be read.
        let mut end = n_planes.clamp(1, 8);
        if repeats && let Some(last) = n_planes.checked_sub(1) {
            let copied = plane.get(last).copied().unwrap_or(&[]);
            for plane in plane.iter_mut().skip(n_planes) {
                *plane = copied;
            }
            end = end.max(2);
        }
        let others = plane[1..end].iter().any(|plane| !plane.is_empty());
        // The planes with bits of called codes above 1, without the last where it repeats, as that is plane 7.
        let above = 1..if repeats { end - 1 } else { end.min(7) };
        let plane0_counts = tally.n_alleles >= 2;
        // Calls need pairs of codes, strip by strip.
        let alleles_only = masks.unshifted().is_some_and(PhaseMasks::alleles_only);

        let rows = first / row_copies..(first + plane_len * 8).div_ceil(row_copies).min(rows);
        for row in rows {
            // The row's first copy is bit `phase` of byte `skew` of a plane, counted from the block's first byte; both can be
            // before it. Bytes of the masks count from there.
            let start = row * row_copies;
            let (phase, skipped, skew) = if start >= first {
                ((start - first) % 8, 0, (start - first) / 8)
            } else {
                let before = (first - start).div_ceil(8);
                (before * 8 - (first - start), before, 0)
            };
            let mask_len = (masks.copies() + phase).div_ceil(8);
            let len = mask_len
                .saturating_sub(skipped)
                .min(plane_len.saturating_sub(skew));
            if len == 0 {
                continue; // the block holds only padding of this row
            }
            let Some(at_phase) = masks.at_phase(phase) else {
                continue; // unreachable: there are masks for every phase of rows that are `row_copies` apart
            };
            let at = RowPosition {
                row,
                masks: at_phase,
                byte: skipped,
            };
            if plane0_counts && (!others || is_zero_at(l, &plane[1..end], skew, len)) {
                count_plane0(l, tally, at, from(plane[0], skew), len);
                continue;
            }
            if plane0_counts
                && alleles_only
                && called_are_low(l, &plane[above.clone()], plane[7], skew, len)
            {
                let (low, negative) = (from(plane[0], skew), from(plane[7], skew));
                count_planes_0_and_7(l, tally, at, low, negative, len);
                continue;
            }
            let mut done = 0;
            while done < len {
                let n = (len - done).min(STRIP);
                let mut strips = [l.zero(); 8];
                for (strip, plane) in strips.iter_mut().zip(plane) {
                    *strip = l.load(from(plane, skew + done), n);
                }
                let at = RowPosition {
                    byte: skipped + done,
                    ..at
                };
                count_strip(l, tally, at, &strips)?;
                done += n;
            }
        }
        Ok(())
    }
}

/// A plane from byte `start` on; empty for an empty plane, which loads as zeros.
#[inline(always)]
fn from(plane: &[u8], start: usize) -> &[u8] {
    plane.get(start..).unwrap_or(&[])
}

/// Whether none of these planes has a set bit in these bytes. Bits of neighbouring rows in the first and last byte can make
/// this false, which only costs time.
#[inline(always)]
fn is_zero_at<L: Lanes>(l: L, planes: &[&[u8]], start: usize, len: usize) -> bool {
    let mut done = 0;
    while done < len {
        let n = (len - done).min(STRIP);
        let mut any = l.zero();
        for plane in planes {
            if !plane.is_empty() {
                any = l.or(any, l.load(from(plane, start + done), n));
            }
        }
        if !l.is_zero(any) {
            return false;
        }
        done += n;
    }
    true
}

/// Whether no called code in these bytes is above 1: every code with a bit in `between` also has one in plane 7, `negative`, so
/// it is not called. Reads whole strips, which include the start of the next row; that only costs time.
#[inline(always)]
fn called_are_low<L: Lanes>(
    l: L,
    between: &[&[u8]],
    negative: &[u8],
    start: usize,
    len: usize,
) -> bool {
    // Plain loops, here and below: closures in iterators are not always inlined into the function with the instruction set.
    let mut done = 0;
    while done < len {
        let mut high = l.zero();
        for plane in between {
            high = l.or(high, l.load(from(plane, start + done), STRIP));
        }
        let negative = l.load(from(negative, start + done), STRIP);
        if !l.is_zero(l.and_not(high, negative)) {
            return false;
        }
        done += STRIP;
    }
    true
}

/// Whether a plane has no set bit.
#[inline(always)]
fn is_zero<L: Lanes>(l: L, plane: &[u8]) -> bool {
    for bytes in plane.chunks(8 * STRIP) {
        let mut any = l.zero();
        for strip in bytes.chunks(STRIP) {
            any = l.or(any, l.load(strip, STRIP));
        }
        if !l.is_zero(any) {
            return false;
        }
    }
    true
}
