//! The counting core: strips of the eight bit-planes of a row to counts of every wanted set.
//!
//! Both fast paths use this: [`planes`](super::planes) reads strips directly from bit-shuffled blocks,
//! [`bytes`](super::bytes) makes them from decoded codes. Invariant: each row was first counted as all reference
//! ([`Tally::add_all_reference`]), so that a strip only moves copies with other codes, and a row may be counted in several
//! pieces. Bits of a code: planes 0 to 6 are its value if plane 7 is clear; a set bit in plane 7 means not called, and
//! 0xFE (-2) that there is no such copy.

use super::by_copy::{count_members, move_members};
use super::gather::{Target, absent_copies, gather_codes, gather_piece, gather_strip};
use super::lanes::{Lanes, STRIP};
use super::masks::Slot;
use super::request::{HAPLOID, HET, HOM_ALT, HOM_REF, MISSING};
use super::tally::{BadCode, RowPosition, Tally, overlap};

/// The first bit of each pair: the first copies of diploid calls.
const FIRSTS: u8 = 0x55;

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
    gather_piece(l, tally, at, plane, len, Target::Code(0));
    let by_members = count_members(l, tally, at, plane, &[], len);
    let slots = match by_members {
        true => &[][..],
        false => &at.masks.alleles,
    };
    for slot in slots {
        if let Some(bits) = word_of(at, slot, plane, len) {
            tally.move_alleles(slot, at.row, Some(1), bits.count_ones() as i32);
            continue;
        }
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

/// The bits of a set in `plane`, a piece of a row as in [`count_plane0`], where its mask is one word, all of it in the piece.
#[inline(always)]
fn word_of(at: RowPosition, slot: &Slot, plane: &[u8], len: usize) -> Option<u64> {
    if slot.word == 0 || slot.span.end > at.byte + len {
        return None;
    }
    let start = slot.span.start.checked_sub(at.byte)?;
    let word = plane.get(start..)?.first_chunk()?;
    Some(u64::from_le_bytes(*word) & slot.word)
}

/// Moves the copies of one strip from the reference to `allele` in the counts of every set that they belong to, by members or by masks.
#[inline(always)]
fn move_strip<L: Lanes>(
    l: L,
    tally: &mut Tally,
    at: RowPosition,
    copies: L::Strip,
    allele: Option<usize>,
) {
    if let Some(members) = &tally.masks.members {
        let wanted = l.and(copies, l.load(at.masks.wanted(at.byte), STRIP));
        if members.pays(l.count(wanted)) {
            return move_members(l, tally, members, at, wanted, allele);
        }
    }
    for slot in &at.masks.alleles {
        if let Some(mask) = mask_strip(l, at, slot) {
            let n = l.count(l.and(copies, mask));
            tally.move_alleles(slot, at.row, allele, n);
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
    if count_members(l, tally, at, plane, negative, len) {
        return;
    }
    for slot in &at.masks.alleles {
        if let (Some(bits), Some(negative)) = (
            word_of(at, slot, plane, len),
            word_of(at, slot, negative, len),
        ) {
            let ones = (bits & !negative).count_ones() as i32;
            tally.move_alleles(slot, at.row, Some(1), ones);
            tally.move_alleles(slot, at.row, None, negative.count_ones() as i32);
            continue;
        }
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
    gather_strip(l, tally, at, plane, Target::Code(0));
    move_strip(l, tally, at, plane, Some(1));
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
        move_strip(l, tally, at, negative, None);
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
    if !at.masks.planes.is_empty() {
        gather_codes(l, tally, at, planes, &values, negative);
    }
    if low_only {
        move_strip(l, tally, at, values[0], Some(1));
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
        move_strip(l, tally, at, copies, Some(code.into()));
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
    let fill = absent_copies(l, planes, negative);
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
