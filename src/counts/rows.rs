//! The counting core: strips of the eight bit-planes of a row to counts of every wanted set.
//!
//! Both fast paths use this: [`planes`](super::planes) reads strips directly from bit-shuffled blocks,
//! [`bytes`](super::bytes) makes them from decoded codes. Invariant: each row was first counted as all reference
//! ([`Tally::add_all_reference`]), so that a strip only moves copies with other codes, and a row may be counted in several
//! pieces. Bits of a code: planes 0 to 6 are its value if plane 7 is clear; a set bit in plane 7 means not called, and
//! 0xFE (-2) that there is no such copy.

use std::ops::Range;

use super::lanes::{Lanes, STRIP};
use super::masks::{ChunkMasks, PhaseMasks, Slot};
use super::request::{ChunkCounts, GENOTYPE_CLASSES, HAPLOID, HET, HOM_ALT, HOM_REF, MISSING};

/// The first bit of each pair: the first copies of diploid calls.
const FIRSTS: u8 = 0x55;

/// Where the counts of one sample chunk go.
pub(super) struct Tally<'a> {
    pub(super) masks: &'a ChunkMasks,
    /// K.
    pub(super) n_alleles: usize,
    pub(super) out: &'a mut ChunkCounts,
}

/// A position in a row: the masks for the bit at which the row starts, and a byte offset in them.
#[derive(Clone, Copy)]
pub(super) struct RowPosition<'a> {
    pub(super) row: usize,
    pub(super) masks: &'a PhaseMasks,
    pub(super) byte: usize,
}

/// A wanted copy has a code of K or more.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BadCode {
    pub(super) row: usize,
    /// Index of the copy in the row.
    pub(super) copy: usize,
    /// The low byte of the code.
    pub(super) code: u8,
}

impl Tally<'_> {
    /// Counts every one of `rows` as all reference.
    pub(super) fn add_all_reference(&mut self, rows: Range<usize>) {
        let ploidy = self.masks.ploidy;
        let homozygous = if ploidy == 1 { HAPLOID } else { HOM_REF };
        self.add_uniform(rows, Some(0), homozygous);
    }

    /// Counts every copy of `rows` as allele `allele` (`None`: not called), every call as `class`.
    pub(super) fn add_uniform(&mut self, rows: Range<usize>, allele: Option<usize>, class: usize) {
        let Some(masks) = self.masks.unshifted() else {
            return;
        };
        for slot in &masks.alleles {
            let copies = self.masks.n_samples(slot) * self.masks.ploidy;
            if let (Some(allele), Some(column)) = (allele, self.out.alleles.get_mut(slot.column)) {
                add_to_rows(column, self.n_alleles, allele, rows.clone(), copies as i32);
            }
        }
        if let (2, Some(allele)) = (self.masks.ploidy, allele) {
            for slot in &masks.zygosity {
                let samples = self.masks.n_samples(slot);
                if let Some(column) = self.out.zygosity.get_mut(slot.column) {
                    add_to_rows(
                        column,
                        2 * self.n_alleles,
                        allele,
                        rows.clone(),
                        samples as i32,
                    );
                }
            }
        }
        for slot in &masks.genotypes {
            let samples = self.masks.n_samples(slot);
            if let Some(column) = self.out.genotypes.get_mut(slot.column) {
                add_to_rows(
                    column,
                    GENOTYPE_CLASSES,
                    class,
                    rows.clone(),
                    samples as i32,
                );
            }
        }
    }

    /// Moves copies of one row from the reference to `allele`; with `None`, only removes them.
    #[inline(always)]
    pub(super) fn move_alleles(
        &mut self,
        slot: &Slot,
        row: usize,
        allele: Option<usize>,
        copies: i32,
    ) {
        if let Some(column) = self.out.alleles.get_mut(slot.column)
            && let Some(counts) = column.get_mut(row * self.n_alleles..(row + 1) * self.n_alleles)
        {
            if let Some(count) = counts.first_mut() {
                *count -= copies;
            }
            if let Some(count) = allele.and_then(|allele| counts.get_mut(allele)) {
                *count += copies;
            }
        }
    }

    /// The classes of one row of a set.
    #[inline(always)]
    pub(super) fn classes(
        &mut self,
        slot: &Slot,
        row: usize,
    ) -> Option<&mut [i32; GENOTYPE_CLASSES]> {
        let column = self.out.genotypes.get_mut(slot.column)?;
        column.as_chunks_mut().0.get_mut(row)
    }

    /// The zygosity of one row of a set.
    #[inline(always)]
    pub(super) fn zygosity(&mut self, slot: &Slot, row: usize) -> Option<Zygosity<'_>> {
        let (column, k) = (self.out.zygosity.get_mut(slot.column)?, self.n_alleles);
        let counts = column.get_mut(2 * k * row..2 * k * (row + 1))?;
        let (homozygous, heterozygous) = counts.split_at_mut_checked(k)?;
        Some(Zygosity {
            homozygous,
            heterozygous,
        })
    }
}

/// The complete diploids of one row of a set, by allele.
pub(super) struct Zygosity<'a> {
    homozygous: &'a mut [i32],
    heterozygous: &'a mut [i32],
}

impl Zygosity<'_> {
    #[inline(always)]
    pub(super) fn add_homozygous(&mut self, allele: usize, individuals: i32) {
        if let Some(count) = self.homozygous.get_mut(allele) {
            *count += individuals;
        }
    }

    /// Adds heterozygous carriers of `allele`.
    #[inline(always)]
    pub(super) fn add_heterozygous(&mut self, allele: usize, individuals: i32) {
        if let Some(count) = self.heterozygous.get_mut(allele) {
            *count += individuals;
        }
    }

    /// Moves individuals of a biallelic row from the homozygous reference.
    #[inline(always)]
    fn move_biallelic(&mut self, het: i32, hom_alt: i32) {
        self.add_homozygous(0, -het - hom_alt);
        self.add_homozygous(1, hom_alt);
        self.add_heterozygous(0, het);
        self.add_heterozygous(1, het);
    }
}

fn add_to_rows(column: &mut [i32], width: usize, class: usize, rows: Range<usize>, n: i32) {
    let counted = column.chunks_exact_mut(width).take(rows.end);
    for counts in counted.skip(rows.start) {
        if let Some(count) = counts.get_mut(class) {
            *count += n;
        }
    }
}

/// The range of bytes of a piece of a row in which a slot's mask has bits, counted from the piece's first byte.
#[inline(always)]
fn overlap(at: RowPosition, slot: &Slot, len: usize) -> (usize, usize) {
    let start = slot.span.start.saturating_sub(at.byte);
    (start, slot.span.end.saturating_sub(at.byte).min(len))
}

/// Counts a piece of a row in which every code is 0 or 1. `plane` starts with the piece's `len` bytes of plane 0, which
/// correspond to the bytes from `at.byte` on of the masks. K is at least 2.
#[inline(always)]
pub(super) fn count_plane0<L: Lanes>(
    l: L,
    tally: &mut Tally,
    at: RowPosition,
    plane: &[u8],
    len: usize,
) {
    if len <= STRIP {
        return count_low_strip(l, tally, at, l.load(plane, len));
    }
    for slot in &at.masks.alleles {
        let (mut done, stop) = overlap(at, slot, len);
        let mut counters = l.zero();
        if slot.whole {
            while done < stop {
                let bits = l.load(plane.get(done..).unwrap_or(&[]), stop - done);
                counters = l.add(counters, l.counters(bits));
                done += STRIP;
            }
        } else {
            while done < stop {
                let bits = l.load(plane.get(done..).unwrap_or(&[]), stop - done);
                let mask = l.load(at.masks.mask(slot, at.byte + done), STRIP);
                counters = l.add(counters, l.counters(l.and(bits, mask)));
                done += STRIP;
            }
        }
        tally.move_alleles(slot, at.row, Some(1), l.sum(counters) as i32);
    }
    if tally.masks.ploidy == 2 {
        for slot in &at.masks.genotypes {
            let (het, hom_alt) = count_biallelic_calls(l, at, slot, plane, len);
            if let Some(classes) = tally.classes(slot, at.row) {
                classes[HOM_REF] -= het + hom_alt;
                classes[HET] += het;
                classes[HOM_ALT] += hom_alt;
            }
        }
        for slot in &at.masks.zygosity {
            let (het, hom_alt) = count_biallelic_calls(l, at, slot, plane, len);
            if let Some(mut zygosity) = tally.zygosity(slot, at.row) {
                zygosity.move_biallelic(het, hom_alt);
            }
        }
    }
}

/// The diploid calls of a slot's set, in a piece of a row as in [`count_plane0`], that are heterozygous, and homozygous for allele 1.
#[inline(always)]
fn count_biallelic_calls<L: Lanes>(
    l: L,
    at: RowPosition,
    slot: &Slot,
    plane: &[u8],
    len: usize,
) -> (i32, i32) {
    let firsts = l.splat(FIRSTS);
    let (mut done, stop) = overlap(at, slot, len);
    let (mut hets, mut homs) = (l.zero(), l.zero());
    while done < stop {
        let first = l.load(plane.get(done..).unwrap_or(&[]), stop - done);
        let second = l.seconds(first);
        let wanted = l.and(l.load(at.masks.mask(slot, at.byte + done), STRIP), firsts);
        hets = l.add(hets, l.counters(l.and(l.xor(first, second), wanted)));
        homs = l.add(homs, l.counters(l.and(l.and(first, second), wanted)));
        done += STRIP;
    }
    (l.sum(hets) as i32, l.sum(homs) as i32)
}

/// Counts the alleles of a piece of a row in which every called code is 0 or 1, as [`count_plane0`] does; `negative` starts
/// with the same bytes of plane 7.
#[inline(always)]
pub(super) fn count_planes_0_and_7<L: Lanes>(
    l: L,
    tally: &mut Tally,
    at: RowPosition,
    plane: &[u8],
    negative: &[u8],
    len: usize,
) {
    for slot in &at.masks.alleles {
        let (mut done, stop) = overlap(at, slot, len);
        let (mut ones, mut missing) = (l.zero(), l.zero());
        while done < stop {
            let mask = l.load(at.masks.mask(slot, at.byte + done), STRIP);
            let negative = l.load(negative.get(done..).unwrap_or(&[]), stop - done);
            let bits = l.load(plane.get(done..).unwrap_or(&[]), stop - done);
            let one = l.and(l.and_not(bits, negative), mask);
            ones = l.add(ones, l.counters(one));
            missing = l.add(missing, l.counters(l.and(negative, mask)));
            done += STRIP;
        }
        tally.move_alleles(slot, at.row, Some(1), l.sum(ones) as i32);
        tally.move_alleles(slot, at.row, None, l.sum(missing) as i32);
    }
}

/// Counts one strip in which every code is 0 or 1, as [`count_plane0`] does; K is at least 2.
#[inline(always)]
pub(super) fn count_low_strip<L: Lanes>(l: L, tally: &mut Tally, at: RowPosition, plane: L::Strip) {
    for slot in &at.masks.alleles {
        if let Some(mask) = mask_strip(l, at, slot) {
            let n = l.count(l.and(plane, mask));
            tally.move_alleles(slot, at.row, Some(1), n);
        }
    }
    if tally.masks.ploidy == 2 {
        let second = l.seconds(plane);
        let firsts = l.splat(FIRSTS);
        let hets = l.and(l.xor(plane, second), firsts);
        let homs = l.and(l.and(plane, second), firsts);
        for slot in &at.masks.genotypes {
            if let Some(mask) = mask_strip(l, at, slot) {
                let (het, hom_alt) = (l.count(l.and(hets, mask)), l.count(l.and(homs, mask)));
                if let Some(classes) = tally.classes(slot, at.row) {
                    classes[HOM_REF] -= het + hom_alt;
                    classes[HET] += het;
                    classes[HOM_ALT] += hom_alt;
                }
            }
        }
        for slot in &at.masks.zygosity {
            if let Some(mask) = mask_strip(l, at, slot) {
                let (het, hom_alt) = (l.count(l.and(hets, mask)), l.count(l.and(homs, mask)));
                if let Some(mut zygosity) = tally.zygosity(slot, at.row) {
                    zygosity.move_biallelic(het, hom_alt);
                }
            }
        }
    }
}

/// Counts one strip of any codes; `planes` are zero past the piece of the row.
#[inline(always)]
pub(super) fn count_strip<L: Lanes>(
    l: L,
    tally: &mut Tally,
    at: RowPosition,
    planes: &[L::Strip; 8],
) -> Result<(), BadCode> {
    let wanted = l.load(at.masks.wanted(at.byte), STRIP);
    let negative = l.and(planes[7], wanted);
    let has_negative = !l.is_zero(negative);
    let called = l.and_not(wanted, negative);
    if has_negative {
        for slot in &at.masks.alleles {
            if let Some(mask) = mask_strip(l, at, slot) {
                let n = l.count(l.and(negative, mask));
                tally.move_alleles(slot, at.row, None, n);
            }
        }
    }

    // The planes of the wanted, called copies. Usually only the lowest has a set bit.
    let mut values = [l.zero(); 7];
    for (value, plane) in values.iter_mut().zip(planes) {
        *value = l.and(*plane, called);
    }
    let mut high = l.zero();
    for value in &values[1..] {
        high = l.or(high, *value);
    }
    let low_only = l.is_zero(high) && tally.n_alleles >= 2;
    if low_only {
        for slot in &at.masks.alleles {
            if let Some(mask) = mask_strip(l, at, slot) {
                let n = l.count(l.and(values[0], mask));
                tally.move_alleles(slot, at.row, Some(1), n);
            }
        }
    } else {
        count_values(l, tally, at, called, &values)?;
    }

    if tally.masks.ploidy == 2 && !at.masks.zygosity.is_empty() {
        count_zygosity(l, tally, at, called, &values, negative);
    }
    match tally.masks.ploidy {
        _ if at.masks.genotypes.is_empty() => {}
        1 if has_negative => {
            for slot in &at.masks.genotypes {
                if let Some(mask) = mask_strip(l, at, slot) {
                    let n = l.count(l.and(negative, mask));
                    if let Some(classes) = tally.classes(slot, at.row) {
                        classes[HAPLOID] -= n;
                        classes[MISSING] += n;
                    }
                }
            }
        }
        2 if low_only => count_pairs(l, tally, at, planes, &values[..1], negative),
        2 => count_pairs(l, tally, at, planes, &values, negative),
        _ => {} // for a ploidy of 3 and more, `bytes` counts genotype classes code by code
    }
    Ok(())
}

/// Counts the alleles of one strip with any codes; `values` are the planes of the `called` copies.
#[inline(always)]
fn count_values<L: Lanes>(
    l: L,
    tally: &mut Tally,
    at: RowPosition,
    called: L::Strip,
    values: &[L::Strip; 7],
) -> Result<(), BadCode> {
    let live = live_planes(l, values);
    if at.masks.alleles.is_empty() && usize::from(live) < tally.n_alleles {
        return Ok(());
    }
    // Every code that these planes can form, ascending: the subsets of `live`.
    let mut code = 0u8;
    loop {
        code = code.wrapping_sub(live) & live;
        if code == 0 {
            return Ok(());
        }
        let copies = copies_of(l, called, values, live, code);
        if l.is_zero(copies) {
            continue;
        }
        if usize::from(code) >= tally.n_alleles {
            return Err(bad_code(at, &l.store(copies), code));
        }
        for slot in &at.masks.alleles {
            if let Some(mask) = mask_strip(l, at, slot) {
                let n = l.count(l.and(copies, mask));
                tally.move_alleles(slot, at.row, Some(code.into()), n);
            }
        }
    }
}

/// The planes with a set bit, as bits.
#[inline(always)]
fn live_planes<L: Lanes>(l: L, values: &[L::Strip; 7]) -> u8 {
    let mut live = 0u8;
    for (k, value) in values.iter().enumerate() {
        live |= u8::from(!l.is_zero(*value)) << k;
    }
    live
}

/// The `called` copies with code `code`, a subset of `live`.
#[inline(always)]
fn copies_of<L: Lanes>(
    l: L,
    called: L::Strip,
    values: &[L::Strip; 7],
    live: u8,
    code: u8,
) -> L::Strip {
    let mut copies = called;
    for (k, value) in values.iter().enumerate() {
        if code >> k & 1 == 1 {
            copies = l.and(copies, *value);
        } else if live >> k & 1 == 1 {
            copies = l.and_not(copies, *value);
        }
    }
    copies
}

/// Zygosity of diploid calls, both copies called, by allele; `values` are the planes of the `called` copies.
#[inline(always)]
fn count_zygosity<L: Lanes>(
    l: L,
    tally: &mut Tally,
    at: RowPosition,
    called: L::Strip,
    values: &[L::Strip; 7],
    negative: L::Strip,
) {
    let firsts = l.splat(FIRSTS);
    let none = l.or(negative, l.seconds(negative));
    let mut alt = l.zero();
    for value in values {
        alt = l.or(alt, *value);
    }
    // Calls other than homozygous reference, and those of them that are complete with one reference copy.
    let others = l.and(l.or(none, l.or(alt, l.seconds(alt))), firsts);
    let with_reference = l.and(l.and_not(l.xor(alt, l.seconds(alt)), none), firsts);
    for slot in &at.masks.zygosity {
        if let Some(mask) = mask_strip(l, at, slot) {
            let moved = l.count(l.and(others, mask));
            let het = l.count(l.and(with_reference, mask));
            if let Some(mut zygosity) = tally.zygosity(slot, at.row) {
                zygosity.add_homozygous(0, -moved);
                zygosity.add_heterozygous(0, het);
            }
        }
    }
    let live = live_planes(l, values);
    let mut code = 0u8;
    loop {
        code = code.wrapping_sub(live) & live;
        if code == 0 {
            return;
        }
        let copies = copies_of(l, called, values, live, code);
        if l.is_zero(copies) {
            continue;
        }
        let second = l.seconds(copies);
        let homs = l.and(l.and(copies, second), firsts);
        let hets = l.and(l.and_not(l.xor(copies, second), none), firsts);
        for slot in &at.masks.zygosity {
            if let Some(mask) = mask_strip(l, at, slot) {
                let (hom, het) = (l.count(l.and(homs, mask)), l.count(l.and(hets, mask)));
                if let Some(mut zygosity) = tally.zygosity(slot, at.row) {
                    zygosity.add_homozygous(code.into(), hom);
                    zygosity.add_heterozygous(code.into(), het);
                }
            }
        }
    }
}

/// Genotype classes of diploid calls: the two copies of a call are neighbouring bits of one byte.
#[inline(always)]
fn count_pairs<L: Lanes>(
    l: L,
    tally: &mut Tally,
    at: RowPosition,
    planes: &[L::Strip; 8],
    values: &[L::Strip],
    negative: L::Strip,
) {
    let firsts = l.splat(FIRSTS);
    let (mut differ, mut alt) = (l.zero(), l.zero());
    for value in values {
        differ = l.or(differ, l.xor(*value, l.seconds(*value)));
        alt = l.or(alt, l.or(*value, l.seconds(*value)));
    }
    let none = l.or(negative, l.seconds(negative));
    let hets = l.and(l.and_not(differ, none), firsts);
    let homs = l.and(l.and_not(l.and_not(alt, differ), none), firsts);
    // -2 is 0xFE: every plane but the lowest.
    let mut fill = l.and_not(negative, planes[0]);
    for plane in &planes[1..7] {
        fill = l.and(fill, *plane);
    }
    let one_copy = l.or(
        l.and_not(fill, l.seconds(negative)),
        l.and_not(l.seconds(fill), negative),
    );
    let haploids = l.and(one_copy, firsts);
    let missings = l.and(l.and_not(none, one_copy), firsts);
    for slot in &at.masks.genotypes {
        if let Some(mask) = mask_strip(l, at, slot) {
            let (het, hom_alt) = (l.count(l.and(hets, mask)), l.count(l.and(homs, mask)));
            let (haploid, missing) = (
                l.count(l.and(haploids, mask)),
                l.count(l.and(missings, mask)),
            );
            if let Some(classes) = tally.classes(slot, at.row) {
                classes[HOM_REF] -= het + hom_alt + haploid + missing;
                classes[HET] += het;
                classes[HOM_ALT] += hom_alt;
                classes[HAPLOID] += haploid;
                classes[MISSING] += missing;
            }
        }
    }
}

/// The strip of a slot's mask at `at`, if the set has samples there. Bits after the row belong to other masks, but the planes
/// are zero there.
#[inline(always)]
fn mask_strip<L: Lanes>(l: L, at: RowPosition, slot: &Slot) -> Option<L::Strip> {
    if slot.span.start < at.byte + STRIP && at.byte < slot.span.end {
        Some(l.load(at.masks.mask(slot, at.byte), STRIP))
    } else {
        None
    }
}

#[cold]
fn bad_code(at: RowPosition, copies: &[u8; STRIP], code: u8) -> BadCode {
    let first = copies
        .iter()
        .zip(at.byte..)
        .find(|(bits, _)| **bits != 0)
        .map_or(0, |(bits, byte)| byte * 8 + bits.trailing_zeros() as usize);
    BadCode {
        row: at.row,
        copy: first.saturating_sub(at.masks.phase),
        code,
    }
}
