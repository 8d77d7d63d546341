//! `pbs(ac1, ac2, ac3)` and `pbs_n1(ac1, ac2, ac3)`: the population branch statistic of the first of three populations.

use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::Result;
use datafusion::logical_expr::Documentation;

use super::definition::{Call, Definition, document_populations};
use super::sums::{Block, Site, SiteSums, Sums};
use super::sums_of::SumsOf;
use crate::functions::numeric::blocks::{self, Counts};
use crate::functions::numeric::site::fst_hudson_terms;

/// `pbs`.
#[derive(Debug)]
pub(crate) struct Pbs;
/// `pbs_n1`.
#[derive(Debug)]
pub(crate) struct PbsN1;

/// The counts arguments and their populations.
const POPULATIONS: [(&str, &str); 3] = [
    ("ac1", "the population whose branch it is"),
    ("ac2", "its sister population"),
    ("ac3", "the population outside of both"),
];

/// The pairs of populations that have an F_ST each.
const PAIRS: [[usize; 2]; 3] = [[0, 1], [0, 2], [1, 2]];
/// A larger F_ST is taken as this one, because at 1 the branch length would be infinite.
const LARGEST_FST: f64 = 0.99999;

/// Numerator and denominator of the F_ST of each of [`PAIRS`], over the pair's own sites.
#[inline(always)] // once per row, in the loop over them
fn site(counts: [&[i32]; 3]) -> Option<Site<6, 0>> {
    let mut terms = [0.0; 6];
    for (at, [first, second]) in PAIRS.into_iter().enumerate() {
        if let Some((numerator, denominator)) = fst_hudson_terms(counts[first], counts[second]) {
            (terms[2 * at], terms[2 * at + 1]) = (numerator, denominator);
        }
    }
    Some(Site { terms, counts: [] })
}

/// [`site`] of the sites of a block.
#[inline(always)] // into a loop with vector instructions
fn block<const K: usize>(counts: [&Counts<K>; 3]) -> Option<Block<6, 0>> {
    // Not by `map` over `PAIRS`, whose closure is not inlined into code with vector instructions.
    let [first, second, third] = counts;
    let ([a, b], _) = blocks::fst_hudson([first, second])?;
    let ([c, d], _) = blocks::fst_hudson([first, third])?;
    let ([e, f], _) = blocks::fst_hudson([second, third])?;
    Some(Block {
        terms: [a, b, c, d, e, f],
        counts: [],
    })
}

/// Branch lengths T = -ln(1 - F_ST) of [`PAIRS`]; `None` where an F_ST is NULL.
fn lengths(sums: &Sums<6, 0>) -> Option<[f64; 3]> {
    let mut lengths = [0.0; 3];
    for (at, length) in lengths.iter_mut().enumerate() {
        let pair = Sums {
            terms: [sums.terms[2 * at], sums.terms[2 * at + 1]],
            counts: [],
        };
        *length = -(-pair.ratio()?.clamp(0.0, LARGEST_FST)).ln_1p();
    }
    Some(lengths)
}

fn branch([t12, t13, t23]: [f64; 3]) -> f64 {
    (t12 + t13 - t23) / 2.0
}

impl SiteSums<3, 6, 0> for Pbs {
    type Output = Float64Type;

    #[inline(always)]
    fn site(counts: [&[i32]; 3]) -> Option<Site<6, 0>> {
        site(counts)
    }

    #[inline(always)]
    fn block<const K: usize>(counts: [&Counts<K>; 3]) -> Option<Block<6, 0>> {
        block(counts)
    }

    fn finish(&self, sums: &Sums<6, 0>) -> Option<f64> {
        lengths(sums).map(branch)
    }
}

impl SiteSums<3, 6, 0> for PbsN1 {
    type Output = Float64Type;

    #[inline(always)]
    fn site(counts: [&[i32]; 3]) -> Option<Site<6, 0>> {
        site(counts)
    }

    #[inline(always)]
    fn block<const K: usize>(counts: [&Counts<K>; 3]) -> Option<Block<6, 0>> {
        block(counts)
    }

    fn finish(&self, sums: &Sums<6, 0>) -> Option<f64> {
        let lengths = lengths(sums)?;
        let total: f64 = lengths.iter().sum();
        Some(branch(lengths) / (1.0 + total / 2.0))
    }
}

impl Definition for Pbs {
    type Statistic = SumsOf<Self, 3, 6, 0>;
    const NAME: &'static str = "pbs";
    const COUNTS: usize = 3;

    fn return_type() -> DataType {
        DataType::Float64
    }

    fn statistic(_call: &Call) -> Result<Self::Statistic> {
        Ok(SumsOf::new(Self))
    }

    fn documentation() -> Documentation {
        document_populations(
            "The population branch statistic of the first of three populations (Yi et al. 2010): (T12 + \
             T13 - T23) / 2 with T = -ln(1 - F) and F Hudson's F_ST of a pair, as a ratio of sums \
             over the sites with at least two called copies in both of that pair, between 0 and \
             0.99999. NULL where an F_ST is NULL.",
            "pbs(ac1, ac2, ac3)",
            "SELECT pbs(call_genotype, 'TIB', 'CHB', 'CEU') FROM t",
            &POPULATIONS,
        )
        .with_related_udf("pbs_n1")
        .with_related_udf("fst_hudson")
        .build()
    }
}

impl Definition for PbsN1 {
    type Statistic = SumsOf<Self, 3, 6, 0>;
    const NAME: &'static str = "pbs_n1";
    const COUNTS: usize = 3;

    fn return_type() -> DataType {
        DataType::Float64
    }

    fn statistic(_call: &Call) -> Result<Self::Statistic> {
        Ok(SumsOf::new(Self))
    }

    fn documentation() -> Documentation {
        document_populations(
            "The normalised population branch statistic of the first of three populations (Malaspinas \
             et al. 2016): pbs / (1 + (T12 + T13 + T23) / 2), with pbs and T as there.",
            "pbs_n1(ac1, ac2, ac3)",
            "SELECT pbs_n1(call_genotype, 'TIB', 'CHB', 'CEU') FROM t",
            &POPULATIONS,
        )
        .with_related_udf("pbs")
        .with_related_udf("fst_hudson")
        .build()
    }
}

#[cfg(test)]
mod tests {
    use datafusion::common::ScalarValue;

    use crate::functions::aggregate::harness::{Call, sites};

    fn value<const K: usize>(name: &str, columns: [&[[i32; K]]; 3]) -> Option<f64> {
        let call = Call::new(name, &[None; 3], &[]).unwrap();
        match call.value(&columns.map(sites)).unwrap() {
            ScalarValue::Float64(value) => value,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn by_hand() {
        // F12 = F13 = (1 - 1/3) / 1, and F23 = (1/2 - 2/3) / (1/2) is taken as 0.
        let columns = [&[[4, 0, 0]][..], &[[0, 2, 2]], &[[0, 2, 2]]];
        let t = -(1.0f64 - 2.0 / 3.0).ln();
        assert!((value("pbs", columns).unwrap() - t).abs() < 1e-15);
        assert!((value("pbs_n1", columns).unwrap() - t / (1.0 + t)).abs() < 1e-15);
        // The second and third do not vary: no F_ST.
        let fixed = [&[[4, 0]][..], &[[0, 4]], &[[0, 4]]];
        assert_eq!(value("pbs", fixed), None);
        // F12 = F13 = F23 = 1, taken as 0.99999.
        let cut = [&[[4, 0], [4, 0]][..], &[[0, 4], [0, 4]], &[[0, 4], [4, 0]]];
        let expected = -(1e-5f64).ln() / 2.0;
        assert!((value("pbs", cut).unwrap() - expected).abs() < 1e-9);
    }

    #[test]
    fn each_pair_has_its_own_sites() {
        // At the second site only the first two populations are called, at the third only the last two.
        let all = [
            &[[3, 1], [0, 4], [1, 0]][..],
            &[[1, 3], [4, 0], [4, 0]],
            &[[2, 2], [1, 0], [0, 4]],
        ];
        let pair = |first: &[[i32; 2]], second: &[[i32; 2]]| {
            let call = Call::new("fst_hudson", &[None; 2], &[]).unwrap();
            match call.value(&[sites(first), sites(second)]).unwrap() {
                ScalarValue::Float64(Some(fst)) => -(1.0 - fst.clamp(0.0, 0.99999)).ln(),
                other => panic!("{other:?}"),
            }
        };
        let [a, b, c] = all;
        let expected = (pair(a, b) + pair(a, c) - pair(b, c)) / 2.0;
        assert!((value("pbs", all).unwrap() - expected).abs() < 1e-12);
    }
}
