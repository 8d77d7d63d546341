//! What all classes of rows of diploid calls share: the planes of biallelic calls, the counts that pool all alleles other than the
//! reference, and distances in fixed point.

use crate::counts::Lanes;

use super::products::UnitStrip;

/// Fraction bits of distances.
pub(super) const DISTANCE_BITS: u32 = 90;

/// Quarters of the distance of complete diploids, at rows where alleles are pooled.
pub(super) fn quarters(opposite: i64, het1: i64, het2: i64, both_het: i64) -> i64 {
    4 * opposite + 2 * (het1 + het2 - both_het)
}

/// A distance in quarters as a multiple of 2⁻⁹⁰.
pub(super) fn fixed(quarters: i64) -> i128 {
    i128::from(quarters) << (DISTANCE_BITS - 2)
}

/// Planes of the panels of biallelic diploid calls.
pub(super) const HET: usize = 0;
pub(super) const ALT: usize = 1;
pub(super) const CALLED: usize = 2;

/// Adds, of planes 0 to 2: both heterozygous, opposite homozygotes, both called, and then the first or the second heterozygous.
#[inline(always)]
pub(super) fn pooled<L: Lanes>(
    lanes: L,
    first: &UnitStrip<'_>,
    second: &UnitStrip<'_>,
    sums: &mut [L::Strip],
) {
    let (het1, het2) = (first.plane(lanes, HET), second.plane(lanes, HET));
    let (called1, called2) = (first.plane(lanes, CALLED), second.plane(lanes, CALLED));
    let differ = lanes.xor(first.plane(lanes, ALT), second.plane(lanes, ALT));
    let called = lanes.and(called1, called2);
    let opposite = lanes.and(lanes.and_not(lanes.and_not(differ, het1), het2), called);
    let counted = [
        lanes.and(het1, het2),
        opposite,
        called,
        lanes.and(het1, called2),
        lanes.and(called1, het2),
    ];
    for at in 0..5 {
        sums[at] = lanes.add(sums[at], lanes.counters(counted[at]));
    }
}
