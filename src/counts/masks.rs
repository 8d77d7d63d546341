//! Sample sets as bit masks over the copies of one row of a sample chunk.
//!
//! A row of a bit-plane starts at any of eight bits of a byte (its *phase*). A mask is kept for every phase that occurs, the
//! multiples of gcd(copies per row, 8), so that planes and masks are combined byte by byte, without shifting. Bit `phase + i` of
//! a mask stands for copy `i` of the row; padding samples and bits outside the row are zero.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::error::CountError;
use super::lanes::STRIP;
use super::members::{MemberSet, Members};
use super::request::CountRequest;
use super::sample_set::SampleSet;

/// A requested set's part in one sample chunk, at one phase; only sets with samples there have a slot.
#[derive(Debug)]
pub(super) struct Slot {
    /// Index of the set in the request, and so of its column of counts.
    pub(super) column: usize,
    /// Where its mask starts in [`PhaseMasks::bits`].
    bits: usize,
    /// Bytes of the mask, from its start, that hold set bits.
    pub(super) span: Range<usize>,
    /// Whether every bit of the span is set, so that the mask can be left out.
    pub(super) whole: bool,
    /// The mask from the span's start on, where the span is no longer than a word; else 0.
    pub(super) word: u64,
    set: usize,
}

/// A requested set's part in one sample chunk, for gathering the bits of its copies.
#[derive(Debug)]
pub(super) struct GatherSlot {
    pub(super) slot: Slot,
    /// Copies of the set in the sample chunks before.
    pub(super) first: usize,
    /// For each byte of the mask: the set bits before it.
    pub(super) ranks: Vec<u32>,
}

/// The masks for rows that start at one bit of a byte.
#[derive(Debug)]
pub(super) struct PhaseMasks {
    /// The bit at which rows start.
    pub(super) phase: usize,
    /// Sets whose alleles are counted.
    pub(super) alleles: Vec<Slot>,
    /// Sets whose genotypes are counted.
    pub(super) genotypes: Vec<Slot>,
    /// Sets whose zygosity is counted.
    pub(super) zygosity: Vec<Slot>,
    /// Sets whose genotypes are kept.
    pub(super) planes: Vec<GatherSlot>,
    /// All masks, that of all wanted samples first, then padding to read a whole strip past the end.
    bits: Vec<u8>,
}

impl PhaseMasks {
    /// Whether only alleles are counted: no whole calls, and no genotypes are kept.
    pub(super) fn alleles_only(&self) -> bool {
        !self.counts_calls() && self.planes.is_empty()
    }

    /// Whether whole calls are counted.
    pub(super) fn counts_calls(&self) -> bool {
        !self.genotypes.is_empty() || !self.zygosity.is_empty()
    }

    /// A slot's mask from byte `byte` on. Bytes after the slot's span belong to other masks.
    #[inline(always)]
    pub(super) fn mask(&self, slot: &Slot, byte: usize) -> &[u8] {
        self.bits.get(slot.bits + byte..).unwrap_or(&[])
    }

    /// The mask of every wanted sample from byte `byte` on. Bytes after the row belong to other masks.
    #[inline(always)]
    pub(super) fn wanted(&self, byte: usize) -> &[u8] {
        self.bits.get(byte..).unwrap_or(&[])
    }
}

#[derive(Debug)]
struct LocalSet {
    set: Arc<SampleSet>,
    samples: usize,
    /// First sample, and one past the last, counted from the chunk's first.
    span: Range<usize>,
}

/// The masks of one sample chunk.
#[derive(Debug)]
pub(super) struct ChunkMasks {
    /// Index of the chunk's first sample.
    pub(super) first_sample: usize,
    /// Samples that exist in this chunk.
    pub(super) samples: usize,
    /// Copies of a call.
    pub(super) ploidy: usize,
    /// Copies from one row of a bit-plane to the next, padding included.
    pub(super) row_copies: usize,
    /// Sets with samples in this chunk.
    sets: Vec<LocalSet>,
    /// Phases are multiples of this power of two.
    phase_step: usize,
    phases: Vec<PhaseMasks>,
    /// The sets whose alleles are counted, by copy, where that may be faster than masks.
    pub(super) members: Option<Members>,
}

/// The mask of every sample that the request wants.
pub(super) const UNION: usize = 0;

/// The distinct sets of a request; the first is their union.
#[derive(Debug)]
pub(super) struct DistinctSets {
    sets: Vec<Arc<SampleSet>>,
    /// For each set of `request.alleles`, its index in `sets`.
    alleles: Vec<usize>,
    /// The same for `request.genotypes`, `request.zygosity` and `request.planes`.
    genotypes: Vec<usize>,
    zygosity: Vec<usize>,
    planes: Vec<usize>,
}

impl DistinctSets {
    /// Finds equal sets, so that each is masked once.
    pub(super) fn new(request: &CountRequest) -> Self {
        let wanted = request.sets().flat_map(|set| set.iter()).collect();
        let union = Arc::new(SampleSet::new(wanted));
        let mut sets = vec![Arc::clone(&union)];
        let mut known = HashMap::from([(union, UNION)]);
        let mut index_of = |set: &Arc<SampleSet>| {
            *known.entry(Arc::clone(set)).or_insert_with(|| {
                sets.push(Arc::clone(set));
                sets.len() - 1
            })
        };
        let alleles = request.alleles.iter().map(&mut index_of).collect();
        let genotypes = request.genotypes.iter().map(&mut index_of).collect();
        let zygosity = request.zygosity.iter().map(&mut index_of).collect();
        let planes = request.planes.iter().map(&mut index_of).collect();
        Self {
            sets,
            alleles,
            genotypes,
            zygosity,
            planes,
        }
    }

    /// Every sample that is wanted.
    pub(super) fn union(&self) -> &SampleSet {
        // `new` puts it first.
        self.sets
            .first()
            .map_or(const { &SampleSet::EMPTY }, |set| set)
    }
}

impl ChunkMasks {
    /// The masks of `distinct` over samples `first_sample..first_sample + samples`, for rows that are `row_copies` apart in a
    /// bit-plane; `None` if no wanted sample is among them.
    pub(super) fn new(
        distinct: &DistinctSets,
        ploidy: usize,
        first_sample: usize,
        samples: usize,
        row_copies: usize,
    ) -> Result<Option<Self>, CountError> {
        let too_large =
            || CountError::TooLarge(format!("masks over {samples} samples of ploidy {ploidy}"));
        let (start, stop) = match (
            u32::try_from(first_sample),
            u32::try_from(first_sample + samples),
        ) {
            (Ok(start), Ok(stop)) => (start, stop),
            _ => {
                return Err(CountError::Request(format!(
                    "expected fewer than 2^32 samples, found sample {first_sample}"
                )));
            }
        };
        let copies = samples.checked_mul(ploidy).ok_or_else(too_large)?;

        // Sets without a sample here get no mask.
        let mut sets = Vec::new();
        let mut local_of = Vec::with_capacity(distinct.sets.len());
        for set in &distinct.sets {
            let here = set.within(start, stop);
            local_of.push(match (here.first(), here.last()) {
                (Some(&first), Some(&last)) => {
                    sets.push(LocalSet {
                        set: Arc::clone(set),
                        samples: here.len(),
                        span: (first - start) as usize..(last - start) as usize + 1,
                    });
                    Some(sets.len() - 1)
                }
                _ => None,
            });
        }
        if local_of.get(UNION).copied().flatten().is_none() {
            return Ok(None);
        }

        let mask_bytes = copies.checked_add(7).ok_or_else(too_large)?.div_ceil(8);
        let total = mask_bytes
            .checked_mul(sets.len())
            .and_then(|bytes| bytes.checked_add(STRIP))
            .ok_or_else(too_large)?;
        let phase_step = gcd(row_copies, 8);
        let mut phases = Vec::new();
        for phase in (0..8).step_by(phase_step) {
            let mut bits = Vec::new();
            bits.try_reserve_exact(total).map_err(|_| too_large())?;
            bits.resize(total, 0u8);
            for (local, mask) in sets.iter().zip(bits.chunks_exact_mut(mask_bytes)) {
                for sample in local.set.within(start, stop) {
                    let first = phase + (sample - start) as usize * ploidy;
                    for bit in first..first + ploidy {
                        if let Some(byte) = mask.get_mut(bit / 8) {
                            *byte |= 1 << (bit % 8);
                        }
                    }
                }
            }
            let slot = |(column, &set): (usize, &usize)| {
                let set = local_of.get(set).copied().flatten()?;
                let local = sets.get(set)?;
                let (first, stop) = (
                    local.span.start * ploidy + phase,
                    local.span.end * ploidy + phase,
                );
                let span = first / 8..stop.div_ceil(8);
                let start = set * mask_bytes;
                let mask = bits.get(start + span.start..start + span.end);
                Some(Slot {
                    column,
                    bits: start,
                    word: mask.and_then(one_word).unwrap_or(0),
                    span,
                    whole: local.samples == local.span.len() && first % 8 == 0 && stop % 8 == 0,
                    set,
                })
            };
            phases.push(PhaseMasks {
                phase,
                alleles: distinct
                    .alleles
                    .iter()
                    .enumerate()
                    .filter_map(slot)
                    .collect(),
                genotypes: distinct
                    .genotypes
                    .iter()
                    .enumerate()
                    .filter_map(slot)
                    .collect(),
                zygosity: distinct
                    .zygosity
                    .iter()
                    .enumerate()
                    .filter_map(slot)
                    .collect(),
                planes: distinct
                    .planes
                    .iter()
                    .enumerate()
                    .filter_map(slot)
                    .map(|slot| {
                        let mask = bits.get(slot.bits..slot.bits + mask_bytes).unwrap_or(&[]);
                        let set = sets.get(slot.set).map(|local| &local.set);
                        let before = set.map_or(0, |set| set.within(0, start).len());
                        GatherSlot {
                            first: before * ploidy,
                            ranks: ranks(mask),
                            slot,
                        }
                    })
                    .collect(),
                bits,
            });
        }
        let mut masks = Self {
            first_sample,
            samples,
            ploidy,
            row_copies,
            sets,
            phase_step,
            phases,
            members: None,
        };
        masks.members = masks.members()?;
        Ok(Some(masks))
    }

    /// The members of the sets whose alleles are counted.
    fn members(&self) -> Result<Option<Members>, CountError> {
        let slots = self
            .unshifted()
            .map_or(&[][..], |masks| masks.alleles.as_slice());
        let sets: Vec<_> = slots
            .iter()
            .map(|slot| MemberSet {
                column: slot.column,
                samples: self.n_samples(slot),
                strips: (slot.word == 0).then(|| slot.span.len().div_ceil(STRIP)),
            })
            .collect();
        let samples_of = |set: usize| {
            let slot = slots.get(set).into_iter();
            slot.flat_map(|slot| self.local_samples(slot))
        };
        Members::new(&sets, samples_of, self.samples, self.ploidy)
    }

    /// Copies of a row that exist.
    pub(super) fn copies(&self) -> usize {
        self.samples * self.ploidy
    }

    /// The masks for rows that start at bit `phase`; `None` if no row does.
    #[inline(always)]
    pub(super) fn at_phase(&self, phase: usize) -> Option<&PhaseMasks> {
        // A power of two, so that this is no division.
        let step = self.phase_step.trailing_zeros();
        self.phases
            .get(phase >> step)
            .filter(|masks| masks.phase == phase)
    }

    /// The masks for rows that start at a byte boundary; they always exist.
    pub(super) fn unshifted(&self) -> Option<&PhaseMasks> {
        self.phases.first()
    }

    /// Number of samples of a slot's set that are in this chunk.
    pub(super) fn n_samples(&self, slot: &Slot) -> usize {
        self.sets.get(slot.set).map_or(0, |local| local.samples)
    }

    /// Samples of a slot's set, counted from the chunk's first.
    pub(super) fn local_samples(&self, slot: &Slot) -> impl Iterator<Item = usize> + '_ {
        let here = match self.sets.get(slot.set) {
            // Both fit: `new` checked them.
            Some(local) => local.set.within(
                self.first_sample as u32,
                (self.first_sample + self.samples) as u32,
            ),
            None => &[],
        };
        here.iter()
            .map(|&sample| sample as usize - self.first_sample)
    }
}

/// For each byte of a mask: the set bits before it.
fn ranks(mask: &[u8]) -> Vec<u32> {
    let mut before = 0;
    let bytes = mask.iter();
    bytes
        .map(|byte| {
            let rank = before;
            before += byte.count_ones();
            rank
        })
        .collect()
}

/// The bytes of a mask as a word, if they fit.
fn one_word(mask: &[u8]) -> Option<u64> {
    let mut word = [0; size_of::<u64>()];
    word.get_mut(..mask.len())?.copy_from_slice(mask);
    Some(u64::from_le_bytes(word))
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_shifted_by_phase() {
        let request = CountRequest {
            alleles: vec![
                Arc::new(SampleSet::new(vec![1, 5, 6])),
                Arc::new(SampleSet::new(vec![0])),
            ],
            genotypes: vec![Arc::new(SampleSet::new(vec![1, 5, 6]))],
            zygosity: vec![],
            planes: vec![],
            n_alleles: 2,
            n_samples: 8,
            ploidy: 3,
        };
        let distinct = DistinctSets::new(&request);
        assert_eq!(distinct.union().indices(), [0, 1, 5, 6]);
        // Samples 5, 6, 7 of a chunk that is 5 samples wide: rows are 15 copies apart, so all phases occur.
        let masks = ChunkMasks::new(&distinct, 3, 5, 3, 15).unwrap().unwrap();
        for phase in 0..8 {
            let at = masks.at_phase(phase).unwrap();
            assert_eq!((at.alleles.len(), at.genotypes.len()), (1, 1));
            let slot = &at.alleles[0];
            assert_eq!(
                (slot.column, masks.n_samples(slot), slot.whole),
                (0, 2, false)
            );
            assert_eq!(slot.bits, at.genotypes[0].bits);
            assert_eq!(masks.local_samples(slot).collect::<Vec<_>>(), [0, 1]);
            assert_eq!(slot.span, 0..(6 + phase).div_ceil(8));
            assert_eq!(slot.word, 0b11_1111 << phase);
            for mask in [at.mask(slot, 0), at.wanted(0)] {
                assert_eq!(
                    u16::from_le_bytes(mask[..2].try_into().unwrap()),
                    0b11_1111 << phase
                );
            }
        }
        assert!(ChunkMasks::new(&distinct, 3, 7, 1, 15).unwrap().is_none());
        let aligned = ChunkMasks::new(&distinct, 3, 0, 5, 24).unwrap().unwrap();
        assert!(aligned.at_phase(0).is_some() && aligned.at_phase(4).is_none());
    }
}
