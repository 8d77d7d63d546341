//! Calls of more than two copies, pair by pair, from the definitions.

use crate::counts::gathered::PlanesRow;
use crate::counts::reference::diploid_alleles;

use super::diploids::{fixed, quarters};
use super::matrix::Shape;
use super::triangle::Part;

/// What one row gives for a pair of individuals.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PairOfCalls {
    /// Whether each is heterozygous, where both are complete diploids.
    pub(super) diploids: Option<[bool; 2]>,
    pub(super) both_het: bool,
    pub(super) opposite: bool,
    /// Exact numbers less those of pooled alleles.
    pub(super) ibs0: i64,
    pub(super) ibs2: i64,
    pub(super) distance_sites: i64,
    /// As a multiple of 2⁻⁹⁰.
    pub(super) distance: i128,
}

/// A call: the alleles of a complete diploid, and the number of called copies and of each allele among them.
pub(super) struct Call {
    diploid: Option<[usize; 2]>,
    called: i64,
    alleles: Vec<(i64, i64)>,
}

impl Call {
    fn of(codes: &[i64]) -> Self {
        let mut alleles: Vec<(i64, i64)> = vec![];
        for code in codes.iter().filter(|code| **code >= 0) {
            match alleles.iter_mut().find(|(allele, _)| allele == code) {
                Some((_, copies)) => *copies += 1,
                None => alleles.push((*code, 1)),
            }
        }
        Self {
            diploid: diploid_alleles(codes.iter().copied()),
            called: alleles.iter().map(|(_, copies)| copies).sum(),
            alleles,
        }
    }
}

/// The number of alleles that two diploids share.
fn shared([a, b]: [usize; 2], [c, d]: [usize; 2]) -> i64 {
    let straight = i64::from(a == c) + i64::from(b == d);
    let crossed = i64::from(a == d) + i64::from(b == c);
    straight.max(crossed)
}

/// a / b for 0 ≤ a ≤ b, b ≥ 1, as a multiple of 2⁻⁹⁰, rounded down.
fn fraction(a: i64, b: i64) -> i128 {
    (i128::from(a) << 90) / i128::from(b)
}

fn pair(first: &Call, second: &Call) -> PairOfCalls {
    let mut row = PairOfCalls::default();
    let mut pooled_quarters = 0;
    if let (Some(one), Some(two)) = (first.diploid, second.diploid) {
        let het = [one, two].map(|[a, b]| (a > 0) != (b > 0));
        let alt = [one, two].map(|[a, b]| i64::from(a > 0) + i64::from(b > 0));
        row.diploids = Some(het);
        row.both_het = het == [true, true];
        row.opposite = (alt[0] - alt[1]).abs() == 2;
        let shared = shared(one, two);
        row.ibs0 = i64::from(shared == 0) - i64::from(row.opposite);
        row.ibs2 = i64::from(shared == 2) - i64::from(alt[0] == alt[1]);
        row.distance_sites = -1;
        let count = i64::from;
        pooled_quarters = quarters(
            count(row.opposite),
            count(het[0]),
            count(het[1]),
            count(row.both_het),
        );
    }
    if first.called > 0 && second.called > 0 {
        let alike: i64 = first
            .alleles
            .iter()
            .map(|(allele, copies)| {
                let other = second.alleles.iter().find(|(other, _)| other == allele);
                copies * other.map_or(0, |(_, copies)| *copies)
            })
            .sum();
        let pairs = first.called * second.called;
        row.distance_sites += 1;
        row.distance = fraction(pairs - alike, pairs);
    }
    row.distance -= fixed(pooled_quarters);
    row
}

/// The calls of a row.
pub(super) fn calls(row: PlanesRow<'_>, shape: Shape) -> Vec<Call> {
    let call = |sample: usize| {
        let copies = sample * shape.ploidy..(sample + 1) * shape.ploidy;
        let codes: Vec<i64> = copies.map(|copy| row.code(copy)).collect();
        Call::of(&codes)
    };
    (0..shape.samples).map(call).collect()
}

/// Calls `sink(place in the part, counts of the row)` for every pair i < j of a part.
pub(super) fn for_each_pair(calls: &[Call], part: &Part, mut sink: impl FnMut(usize, PairOfCalls)) {
    for i in part.firsts.clone() {
        let (Some(first), Some(others)) = (calls.get(i), calls.get(i + 1..)) else {
            continue;
        };
        for (j, second) in (i + 1..).zip(others) {
            sink(part.at(i, j), pair(first, second));
        }
    }
}
