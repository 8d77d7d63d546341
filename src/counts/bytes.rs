//! Counts decoded genotype codes: for everything that is not bit-shuffled one-byte Blosc, and for decoded matrices.
//!
//! Codes are converted to bit-planes 512 at a time, in registers, and counted by [`rows`](super::rows): with one compare and
//! mask per 64 codes this is faster than counting bytes, and each further set costs an eighth of a byte per copy. Wider codes
//! are first narrowed to a byte, which preserves their meaning for K up to 127. Larger K, and calls with more than two
//! copies, are counted code by code.

use super::error::CountError;
use super::gathered::FILL_CODE;
use super::lanes::{Job, Lanes, Level, STRIP, STRIP_COPIES};
use super::masks::PhaseMasks;
use super::reference::{bad_code, diploid_alleles};
use super::request::{HAPLOID, HET, HOM_ALT, HOM_REF, MISSING};
use super::rows::{count_low_strip, count_plane0, count_strip};
use super::tally::{RowPosition, Tally};
use crate::store::ElementType;

/// Largest K for one-byte codes.
const NARROW_ALLELES: usize = 127;

/// Decoded codes, row-major, `row_copies` apart from row to row.
#[derive(Clone, Copy)]
pub(super) struct DecodedCodes<'a> {
    /// Native-endian elements.
    pub(super) bytes: &'a [u8],
    pub(super) width: Width,
    /// Index, in the chunk, of the first code; a multiple of 8.
    pub(super) first: usize,
    /// Codes of a stored row, padding included.
    pub(super) row_copies: usize,
    /// Rows of the chunk that exist.
    pub(super) rows: usize,
}

/// Buffers for one row, kept between calls.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    /// Codes of one byte.
    narrow: Vec<u8>,
    /// Plane 0.
    low: Vec<u8>,
}

impl Buffers {
    pub(super) fn retained_bytes(&self) -> usize {
        self.narrow.capacity() + self.low.capacity()
    }
}

/// Bytes of a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    One,
    Two,
    Four,
    Eight,
}

impl Width {
    /// The width of genotype codes of this type; signed integers only, as VCF Zarr says.
    pub(super) fn of(element: &ElementType) -> Result<Self, CountError> {
        match element {
            ElementType::Int8 => Ok(Self::One),
            ElementType::Int16 => Ok(Self::Two),
            ElementType::Int32 => Ok(Self::Four),
            ElementType::Int64 => Ok(Self::Eight),
            other => Err(CountError::Mismatch(format!(
                "genotype codes of type {other}: expected int8, int16, int32 or int64"
            ))),
        }
    }

    pub(super) fn bytes(self) -> usize {
        match self {
            Self::One => 1,
            Self::Two => 2,
            Self::Four => 4,
            Self::Eight => 8,
        }
    }

    /// The code at index `i`.
    pub(super) fn get(self, codes: &[u8], i: usize) -> Option<i64> {
        fn at<const N: usize>(codes: &[u8], i: usize) -> Option<[u8; N]> {
            codes.as_chunks::<N>().0.get(i).copied()
        }
        Some(match self {
            Self::One => i64::from(i8::from_ne_bytes(at(codes, i)?)),
            Self::Two => i64::from(i16::from_ne_bytes(at(codes, i)?)),
            Self::Four => i64::from(i32::from_ne_bytes(at(codes, i)?)),
            Self::Eight => i64::from_ne_bytes(at(codes, i)?),
        })
    }

    /// The value of one little-endian code.
    pub(super) fn get_little_endian(self, code: &[u8]) -> i64 {
        let sign = if code.last().is_some_and(|&high| high >= 0x80) {
            -1
        } else {
            0
        };
        code.iter()
            .rev()
            .fold(sign, |value, &byte| value << 8 | i64::from(byte))
    }

    /// Narrows codes to one byte each. Codes out of range are clamped: negative codes stay negative, only -2 becomes -2, and a
    /// code above 127 stays too large.
    fn narrow(self, codes: &[u8], narrow: &mut Vec<u8>) {
        let (low, high) = (i8::MIN, i8::MAX);
        narrow.clear();
        match self {
            Self::One => narrow.extend_from_slice(codes),
            Self::Two => narrow.extend(codes.as_chunks().0.iter().map(|c| {
                let code = i16::from_ne_bytes(*c);
                code.clamp(low.into(), high.into()) as u8
            })),
            Self::Four => narrow.extend(codes.as_chunks().0.iter().map(|c| {
                let code = i32::from_ne_bytes(*c);
                code.clamp(low.into(), high.into()) as u8
            })),
            Self::Eight => narrow.extend(codes.as_chunks().0.iter().map(|c| {
                let code = i64::from_ne_bytes(*c);
                code.clamp(low.into(), high.into()) as u8
            })),
        }
    }
}

/// Counts codes into rows that were initially counted as all reference.
///
/// # Errors
/// A wanted code of K or more.
pub(super) fn count_codes(
    level: Level,
    tally: &mut Tally,
    codes: DecodedCodes,
    buffers: &mut Buffers,
) -> Result<(), CountError> {
    if codes.row_copies == 0 {
        return Ok(());
    }
    if codes.width != Width::One && tally.n_alleles > NARROW_ALLELES {
        return count_one_by_one(tally, codes, true);
    }
    level.run(CountRows {
        tally: &mut *tally,
        codes,
        buffers,
    })?;
    if tally.masks.ploidy > 2
        && tally
            .masks
            .unshifted()
            .is_some_and(PhaseMasks::counts_calls)
    {
        count_one_by_one(tally, codes, false)?;
    }
    Ok(())
}

/// The part of one row in `codes`: the index of its first copy, and its codes without padding.
fn row_piece<'a>(codes: &DecodedCodes<'a>, copies: usize, row: usize) -> (usize, &'a [u8]) {
    let width = codes.width.bytes();
    let start = row * codes.row_copies;
    let first_copy = codes.first.saturating_sub(start);
    let from = (start + first_copy).saturating_sub(codes.first);
    let len = copies.saturating_sub(first_copy);
    let bytes = codes.bytes.get(from * width..).unwrap_or(&[]);
    (first_copy, bytes.get(..len * width).unwrap_or(bytes))
}

/// The rows with a part in `codes`.
fn touched_rows(codes: &DecodedCodes) -> std::ops::Range<usize> {
    let stop = codes.first + codes.bytes.len() / codes.width.bytes();
    codes.first / codes.row_copies..stop.div_ceil(codes.row_copies).min(codes.rows)
}

struct CountRows<'a, 't> {
    tally: &'a mut Tally<'t>,
    codes: DecodedCodes<'a>,
    buffers: &'a mut Buffers,
}

impl Job for CountRows<'_, '_> {
    type Output = Result<(), CountError>;

    #[inline(always)]
    fn run<L: Lanes>(self, l: L) -> Result<(), CountError> {
        let Self {
            tally,
            codes,
            buffers: Buffers { narrow, low },
        } = self;
        let masks = tally.masks;
        let only_reference_and_one = tally.n_alleles >= 2;
        for row in touched_rows(&codes) {
            let (first_copy, piece) = row_piece(&codes, masks.copies(), row);
            let mut bytes = piece;
            if codes.width != Width::One {
                codes.width.narrow(piece, narrow);
                bytes = narrow.as_slice();
            }
            // The piece's first copy is at a byte boundary of the masks of this phase.
            let phase = first_copy.wrapping_neg() % 8;
            let Some(at_phase) = masks.at_phase(phase) else {
                return Err(CountError::Mismatch(format!(
                    "a piece of row {row} starts at copy {first_copy}, which is not a whole number of bytes of bit-planes"
                )));
            };
            let first_byte = (first_copy + phase) / 8;
            let start = RowPosition {
                row,
                masks: at_phase,
                byte: first_byte,
            };
            if only_reference_and_one && bytes.len() > STRIP_COPIES {
                // A long row without other codes is summed once for each set, not once for each strip.
                low.resize(bytes.len().div_ceil(STRIP_COPIES) * STRIP, 0);
                let mut others = false;
                for (bytes, plane) in bytes.chunks(STRIP_COPIES).zip(low.as_chunks_mut().0) {
                    if bytes.len() < STRIP_COPIES {
                        plane.fill(0); // bytes past the codes may not be written
                    }
                    others |= l.store_low_plane(bytes, plane);
                    if others {
                        break;
                    }
                }
                if !others {
                    count_plane0(l, tally, start, low, bytes.len().div_ceil(8));
                    continue;
                }
            }
            for (strip, bytes) in bytes.chunks(STRIP_COPIES).enumerate() {
                let at = RowPosition {
                    byte: first_byte + strip * STRIP,
                    ..start
                };
                let (plane, others) = l.low_plane(bytes);
                if !others && only_reference_and_one {
                    count_low_strip(l, tally, at, plane);
                } else if let Err(bad) = count_strip(l, tally, at, &l.planes(bytes)) {
                    let code = codes.width.get(piece, bad.copy - first_copy.min(bad.copy));
                    return Err(bad_code(
                        row,
                        masks.first_sample + bad.copy / masks.ploidy,
                        code.unwrap_or(bad.code.into()),
                        tally.n_alleles,
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Counts code by code: genotype classes and zygosity for any ploidy, and what is of single copies if `with_alleles`. The codes must be a
/// whole chunk.
fn count_one_by_one(
    tally: &mut Tally,
    codes: DecodedCodes,
    with_alleles: bool,
) -> Result<(), CountError> {
    let (masks, k) = (tally.masks, tally.n_alleles);
    let ploidy = masks.ploidy;
    let Some(slots) = masks.unshifted() else {
        return Ok(());
    };
    let reference = if ploidy == 1 { HAPLOID } else { HOM_REF };
    for row in touched_rows(&codes) {
        let (_, piece) = row_piece(&codes, masks.copies(), row);
        if piece.iter().all(|&byte| byte == 0) {
            continue;
        }
        let call = |sample: usize| {
            (sample * ploidy..(sample + 1) * ploidy).filter_map(|i| codes.width.get(piece, i))
        };
        let check = |sample: usize, code: i64| match usize::try_from(code) {
            Ok(allele) if allele >= k => Err(bad_code(row, masks.first_sample + sample, code, k)),
            Ok(allele) => Ok(Some(allele)),
            Err(_) => Ok(None),
        };
        if with_alleles {
            for slot in &slots.alleles {
                for sample in masks.local_samples(slot) {
                    for code in call(sample).filter(|&code| code != 0) {
                        tally.move_alleles(slot, row, check(sample, code)?, 1);
                    }
                }
            }
        }
        if with_alleles {
            for gather in &slots.planes {
                let mut copy = gather.first;
                for sample in masks.local_samples(&gather.slot) {
                    for code in call(sample) {
                        check(sample, code)?;
                        if let Some(planes) = tally.out.planes.get_mut(gather.slot.column) {
                            planes.set(row, copy, code);
                        }
                        copy += 1;
                    }
                }
            }
        }
        for slot in &slots.genotypes {
            for sample in masks.local_samples(slot) {
                let (mut first, mut copies, mut missing, mut differ) = (None, 0, false, false);
                for code in call(sample).filter(|&code| code != FILL_CODE) {
                    missing |= check(sample, code)?.is_none();
                    differ |= *first.get_or_insert(code) != code;
                    copies += 1;
                }
                let class = match first {
                    _ if missing => MISSING,
                    None => MISSING,
                    Some(_) if copies == 1 => HAPLOID,
                    Some(_) if differ => HET,
                    Some(0) => HOM_REF,
                    Some(_) => HOM_ALT,
                };
                if class != reference
                    && let Some(classes) = tally.classes(slot, row)
                {
                    classes[reference] -= 1;
                    classes[class] += 1;
                }
            }
        }
        for slot in &slots.zygosity {
            for sample in masks.local_samples(slot) {
                for code in call(sample) {
                    check(sample, code)?;
                }
                let alleles = diploid_alleles(call(sample));
                let Some(mut zygosity) = tally.zygosity(slot, row) else {
                    continue;
                };
                if ploidy == 2 {
                    zygosity.add_homozygous(0, -1);
                }
                match alleles {
                    Some([first, second]) if first == second => zygosity.add_homozygous(first, 1),
                    Some(alleles) => {
                        for allele in alleles {
                            zygosity.add_heterozygous(allele, 1);
                        }
                    }
                    None => {}
                }
            }
        }
    }
    Ok(())
}
