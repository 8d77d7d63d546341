//! Haploid and diploid calls of any alleles, complete, half-called or missing, as panels for counts over pairs of individuals.
//!
//! A call with one called copy stands for two copies with that code where distances are counted: the probability that copies differ
//! is the same.

use crate::counts::gathered::{ABSENT, PlanesRow, UNCALLED};
use crate::counts::{CountError, Lanes, Workers};

use super::diploids::pooled;
use super::matrix::Shape;
use super::products::{PairCounts, Panel, UnitStrip};
use super::transposed::Transposed;

/// Counts of a pair: those of biallelic calls (both heterozygous, opposite, both complete, heterozygous first, second); complete diploids
/// that share no allele and two; both with a called copy; and the four pairs of their copies with the same code.
pub(super) const COUNTS: usize = 12;

/// The plane of individuals with a called copy; those of biallelic calls are before it.
const ANY: usize = 3;
/// The first plane of codes: those of the first copies, then of the second ones.
const CODES: usize = 4;
/// The first bits of pairs of bits.
pub(super) const FIRSTS: u64 = 0x5555_5555_5555_5555;

/// Whether a diploid call of the row has exactly one called copy.
pub(super) fn has_half_calls(row: PlanesRow<'_>) -> bool {
    let word = |bit: u32, at: usize| {
        let plane = row.plane(bit);
        plane.and_then(|plane| plane.get(at)).copied().unwrap_or(0)
    };
    (0..row.width()).any(|at| {
        let none = word(UNCALLED, at) | word(ABSENT, at);
        (none ^ none >> 1) & FIRSTS != 0
    })
}

/// The panel of rows with `planes` planes of codes each.
pub(super) fn panel(
    rows: &[PlanesRow<'_>],
    shape: Shape,
    planes: usize,
    workers: &Workers<'_>,
) -> Result<Panel, CountError> {
    let bits = Transposed::try_new(rows, shape.copies(), planes, true, workers)?;
    let mut panel = Panel::try_new(shape.samples, CODES + 2 * planes, rows.len())?;
    panel.fill(workers, |sample, unit| {
        let mut words: Vec<Vec<u64>> = vec![Vec::with_capacity(bits.words); CODES + 2 * planes];
        // A haploid call has its only copy twice, and is no diploid.
        let (first, second) = match shape.ploidy {
            1 => (sample, sample),
            _ => (2 * sample, 2 * sample + 1),
        };
        let diploid = if shape.ploidy == 1 { 0 } else { u64::MAX };
        for at in 0..bits.words {
            let called = [first, second].map(|copy| bits.of(planes, copy)[at]);
            let both = called[0] & called[1] & diploid;
            let (mut alt1, mut alt2) = (0, 0);
            for plane in 0..planes {
                let [one, two] = [first, second].map(|copy| bits.of(plane, copy)[at]);
                alt1 |= one;
                alt2 |= two;
                words[CODES + plane].push(one | two & !called[0]);
                words[CODES + planes + plane].push(two | one & !called[1]);
            }
            words[0].push((alt1 ^ alt2) & both);
            words[1].push(alt1 & alt2 & both);
            words[2].push(both);
            words[ANY].push(called[0] | called[1]);
        }
        for (plane, words) in words.iter().enumerate() {
            unit.set(plane, words.iter().copied());
        }
    })?;
    Ok(panel)
}

/// Counts over a [`panel`].
#[derive(Clone, Copy)]
pub(super) struct AnyCalls {
    pub(super) planes: usize,
}

impl PairCounts<COUNTS> for AnyCalls {
    #[inline(always)]
    fn add<L: Lanes>(
        self,
        lanes: L,
        first: &UnitStrip<'_>,
        second: &UnitStrip<'_>,
        sums: &mut [L::Strip; COUNTS],
    ) {
        pooled(lanes, first, second, sums);
        let complete = lanes.and(first.plane(lanes, 2), second.plane(lanes, 2));
        let any = lanes.and(first.plane(lanes, ANY), second.plane(lanes, ANY));
        // Bits where copy a of the first individual and copy b of the second differ, at 2 a + b.
        let mut differ = [lanes.zero(); 4];
        for plane in 0..self.planes {
            let ones = [
                first.plane(lanes, CODES + plane),
                first.plane(lanes, CODES + self.planes + plane),
            ];
            let others = [
                second.plane(lanes, CODES + plane),
                second.plane(lanes, CODES + self.planes + plane),
            ];
            for at in 0..4 {
                let these = lanes.xor(ones[at / 2], others[at % 2]);
                differ[at] = lanes.or(differ[at], these);
            }
        }
        let [a, b, c, d] = differ;
        // No copies equal; and not both copies equal, in either order.
        let none = lanes.and(lanes.and(a, b), lanes.and(c, d));
        let unlike = lanes.and(lanes.or(a, d), lanes.or(b, c));
        let counted = [
            lanes.and(complete, none),
            lanes.and_not(complete, unlike),
            any,
            lanes.and_not(any, a),
            lanes.and_not(any, b),
            lanes.and_not(any, c),
            lanes.and_not(any, d),
        ];
        for at in 0..7 {
            let sum = &mut sums[5 + at];
            *sum = lanes.add(*sum, lanes.counters(counted[at]));
        }
    }
}
