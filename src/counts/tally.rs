//! [`Tally`]: where the counts of a sample chunk go, for the loops over its rows in [`rows`](super::rows) and [`gather`](super::gather).
//!
//! Invariant: each row was first counted as all reference ([`Tally::add_all_reference`]), so that what follows only moves copies with
//! other codes.

use std::ops::Range;

use super::masks::{ChunkMasks, PhaseMasks, Slot};
use super::request::{ChunkCounts, GENOTYPE_CLASSES, HAPLOID, HOM_REF};

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
        self.move_in_column(slot.column, row, allele, copies);
    }

    /// [`move_alleles`](Self::move_alleles) of the set with this column of counts.
    #[inline(always)]
    pub(super) fn move_in_column(
        &mut self,
        column: usize,
        row: usize,
        allele: Option<usize>,
        copies: i32,
    ) {
        if let Some(counts) = self.out.alleles.row_mut(column, row, self.n_alleles) {
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
        let width = GENOTYPE_CLASSES;
        let classes = self.out.genotypes.row_mut(slot.column, row, width)?;
        classes.first_chunk_mut()
    }

    /// The zygosity of one row of a set.
    #[inline(always)]
    pub(super) fn zygosity(&mut self, slot: &Slot, row: usize) -> Option<Zygosity<'_>> {
        let k = self.n_alleles;
        let counts = self.out.zygosity.row_mut(slot.column, row, 2 * k)?;
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
    pub(super) fn move_biallelic(&mut self, het: i32, hom_alt: i32) {
        self.add_homozygous(0, -het - hom_alt);
        self.add_homozygous(1, hom_alt);
        self.add_heterozygous(0, het);
        self.add_heterozygous(1, het);
    }
}

fn add_to_rows(column: &mut [i32], width: usize, class: usize, rows: Range<usize>, n: i32) {
    // The usual width in a loop of its own, for vector instructions.
    if let (2, Some(counted)) = (width, column.as_chunks_mut().0.get_mut(rows.clone())) {
        let (first, second) = (n * i32::from(class == 0), n * i32::from(class == 1));
        for [of_first, of_second] in counted {
            *of_first += first;
            *of_second += second;
        }
        return;
    }
    let counted = column.chunks_exact_mut(width).take(rows.end);
    for counts in counted.skip(rows.start) {
        if let Some(count) = counts.get_mut(class) {
            *count += n;
        }
    }
}

/// The range of bytes of a piece of a row in which a slot's mask has bits, counted from the piece's first byte.
#[inline(always)]
pub(super) fn overlap(at: RowPosition, slot: &Slot, len: usize) -> (usize, usize) {
    let start = slot.span.start.saturating_sub(at.byte);
    (start, slot.span.end.saturating_sub(at.byte).min(len))
}
