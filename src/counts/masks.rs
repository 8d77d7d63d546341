//! Sample sets as bit masks over the copies of one row of a sample chunk.
//!
//! A row of a bit-plane starts at any of eight bits of a byte (its *phase*). So that planes and masks are combined byte by
//! byte, without shifting, a mask is kept for every phase that occurs: the multiples of gcd(copies per row, 8). Bit
//! `phase + i` of a mask stands for copy `i` of the row; padding samples and bits outside of the row are zero.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::lanes::STRIP;
use super::request::CountRequest;
use super::sample_set::SampleSet;

/// A requested set's part in one sample chunk; only sets with samples there have a slot.
#[derive(Debug)]
pub(super) struct Slot {
    /// Index of the set in the request, and so of its column of counts.
    pub(super) column: usize,
    /// Index of its mask.
    pub(super) mask: usize,
    /// Its number of samples in this chunk.
    pub(super) samples: usize,
}

#[derive(Debug)]
struct LocalSet {
    set: Arc<SampleSet>,
    /// First sample, and one past the last, counted from the chunk's first.
    span: Range<usize>,
    /// Whether the mask can be left out at phase 0: every copy of the row is in, and they are whole bytes.
    whole: bool,
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
    /// Sets whose alleles are counted.
    pub(super) alleles: Vec<Slot>,
    /// Sets whose genotypes are counted.
    pub(super) genotypes: Vec<Slot>,
    sets: Vec<LocalSet>,
    /// Phases are multiples of this.
    phase_step: usize,
    /// Bytes of one mask.
    mask_bytes: usize,
    /// `[phase][mask][mask_bytes]`
    bits: Vec<u8>,
}

/// The mask of every sample that the request wants.
pub(super) const UNION: usize = 0;

/// The distinct sets of a request; the first is their union.
#[derive(Debug)]
pub(super) struct DistinctSets {
    sets: Vec<Arc<SampleSet>>,
    /// For each set of `request.alleles`, its index in `sets`.
    alleles: Vec<usize>,
    /// The same for `request.genotypes`.
    genotypes: Vec<usize>,
}

impl DistinctSets {
    /// Finds equal sets, so that each is masked once.
    pub(super) fn new(request: &CountRequest) -> Self {
        let wanted = request.alleles.iter().chain(&request.genotypes);
        let union = Arc::new(SampleSet::new(wanted.flat_map(|set| set.iter()).collect()));
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
        Self {
            sets,
            alleles,
            genotypes,
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
    ) -> Result<Option<Self>, String> {
        let too_large =
            || format!("masks over {samples} samples of ploidy {ploidy} do not fit in memory");
        let (start, stop) = match (
            u32::try_from(first_sample),
            u32::try_from(first_sample + samples),
        ) {
            (Ok(start), Ok(stop)) => (start, stop),
            _ => {
                return Err(format!(
                    "expected fewer than 2^32 samples, found sample {first_sample}"
                ));
            }
        };
        let copies = samples.checked_mul(ploidy).ok_or_else(too_large)?;

        // Sets without a sample here get no mask.
        let mut sets = Vec::new();
        let mut mask_of = Vec::with_capacity(distinct.sets.len());
        for set in &distinct.sets {
            let here = set.within(start, stop);
            mask_of.push(match (here.first(), here.last()) {
                (Some(&first), Some(&last)) => {
                    sets.push(LocalSet {
                        set: Arc::clone(set),
                        span: (first - start) as usize..(last - start) as usize + 1,
                        whole: here.len() == samples && copies.is_multiple_of(8),
                    });
                    Some((sets.len() - 1, here.len()))
                }
                _ => None,
            });
        }
        if mask_of.first().copied().flatten().is_none() {
            return Ok(None);
        }
        let slots = |columns: &[usize]| -> Vec<Slot> {
            let slot = |(column, &set): (usize, &usize)| {
                let (mask, samples) = mask_of.get(set).copied().flatten()?;
                Some(Slot {
                    column,
                    mask,
                    samples,
                })
            };
            columns.iter().enumerate().filter_map(slot).collect()
        };
        let (alleles, genotypes) = (slots(&distinct.alleles), slots(&distinct.genotypes));

        let phase_step = gcd(row_copies, 8);
        let mask_bytes = copies
            .checked_add(7)
            .and_then(|bits| bits.div_ceil(8).checked_next_multiple_of(STRIP))
            .ok_or_else(too_large)?;
        let total = mask_bytes
            .checked_mul(sets.len())
            .and_then(|n| n.checked_mul(8 / phase_step))
            .ok_or_else(too_large)?;
        let mut bits = Vec::new();
        bits.try_reserve_exact(total).map_err(|_| too_large())?;
        bits.resize(total, 0u8);
        let mut masks = bits.chunks_exact_mut(mask_bytes);
        for phase in (0..8).step_by(phase_step) {
            for (local, mask) in sets.iter().zip(&mut masks) {
                for sample in local.set.within(start, stop) {
                    let first = phase + (sample - start) as usize * ploidy;
                    for bit in first..first + ploidy {
                        if let Some(byte) = mask.get_mut(bit / 8) {
                            *byte |= 1 << (bit % 8);
                        }
                    }
                }
            }
        }
        Ok(Some(Self {
            first_sample,
            samples,
            ploidy,
            alleles,
            genotypes,
            sets,
            phase_step,
            mask_bytes,
            bits,
        }))
    }

    /// Copies of a row that exist.
    pub(super) fn copies(&self) -> usize {
        self.samples * self.ploidy
    }

    /// Whether rows may start at this bit of a byte.
    pub(super) fn has_phase(&self, phase: usize) -> bool {
        phase < 8 && phase.is_multiple_of(self.phase_step)
    }

    /// The bytes of a mask for rows that start at bit `phase`.
    #[inline(always)]
    pub(super) fn bits(&self, phase: usize, mask: usize) -> &[u8] {
        let start = (phase / self.phase_step * self.sets.len() + mask) * self.mask_bytes;
        self.bits.get(start..start + self.mask_bytes).unwrap_or(&[])
    }

    /// The bytes of a mask that may hold set bits.
    #[inline(always)]
    pub(super) fn span(&self, phase: usize, mask: usize) -> Range<usize> {
        match self.sets.get(mask) {
            Some(local) => {
                let bits =
                    local.span.start * self.ploidy + phase..local.span.end * self.ploidy + phase;
                bits.start / 8..bits.end.div_ceil(8)
            }
            None => 0..0,
        }
    }

    /// Whether every byte of the mask's span is all ones.
    #[inline(always)]
    pub(super) fn is_whole(&self, phase: usize, mask: usize) -> bool {
        phase == 0 && self.sets.get(mask).is_some_and(|local| local.whole)
    }

    /// Samples of a mask's set, counted from the chunk's first.
    pub(super) fn local_samples(&self, mask: usize) -> impl Iterator<Item = usize> + '_ {
        let here = match self.sets.get(mask) {
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
            n_alleles: 2,
            n_samples: 8,
            ploidy: 3,
        };
        let distinct = DistinctSets::new(&request);
        assert_eq!(distinct.union().indices(), [0, 1, 5, 6]);
        // Samples 5, 6, 7 of a chunk that is 5 samples wide: rows are 15 copies apart, so all phases occur.
        let masks = ChunkMasks::new(&distinct, 3, 5, 3, 15).unwrap().unwrap();
        assert_eq!((masks.alleles.len(), masks.genotypes.len()), (1, 1));
        assert_eq!((masks.alleles[0].column, masks.alleles[0].samples), (0, 2));
        assert_eq!(masks.alleles[0].mask, masks.genotypes[0].mask);
        assert_eq!(
            masks
                .local_samples(masks.alleles[0].mask)
                .collect::<Vec<_>>(),
            [0, 1]
        );
        for phase in 0..8 {
            assert!(masks.has_phase(phase));
            let bits = masks.bits(phase, masks.alleles[0].mask);
            let word = u32::from_le_bytes(bits[..4].try_into().unwrap());
            assert_eq!(word, 0b11_1111 << phase);
            assert_eq!(masks.span(phase, UNION), 0..(6 + phase).div_ceil(8));
        }
        assert!(ChunkMasks::new(&distinct, 3, 7, 1, 15).unwrap().is_none());
        let aligned = ChunkMasks::new(&distinct, 3, 0, 5, 24).unwrap().unwrap();
        assert!(aligned.has_phase(0) && !aligned.has_phase(4));
        assert!(!aligned.is_whole(0, UNION));
    }
}
