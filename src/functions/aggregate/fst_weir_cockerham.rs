//! `fst_weir_cockerham(zc1, zc2, …)`: Weir and Cockerham's F_ST of diploids, as a ratio of sums over sites.

use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::Result;
use datafusion::logical_expr::Documentation;

use super::definition::{Call, Definition, document_zygosity};
use super::many_sums_of::ManySumsOf;
use super::sums::{Block, ManySums, Site, Sums};
use crate::functions::numeric::blocks::Counts;
use crate::functions::numeric::many_blocks;
use crate::functions::numeric::zygosity::{Diploids, VARIANCE_UNIT, weir_cockerham};
use crate::functions::site_argument::SiteArgument;

/// `fst_weir_cockerham`.
#[derive(Debug)]
pub(crate) struct FstWeirCockerham;

impl ManySums<2, 0> for FstWeirCockerham {
    type Output = Float64Type;

    #[inline]
    fn site(counts: &[&[i32]], _work: &mut Vec<f64>) -> Option<Site<2, 0>> {
        let [a, b, c] = match *counts {
            // Most often two populations and two alleles: compiled for these lengths.
            [&[a, b], &[c, d], &[e, f], &[g, h]] => {
                let first = Diploids {
                    ac: &[a, b],
                    het: &[c, d],
                };
                let second = Diploids {
                    ac: &[e, f],
                    het: &[g, h],
                };
                weir_cockerham([first, second].into_iter())?
            }
            _ => {
                let (populations, _) = counts.as_chunks::<2>();
                weir_cockerham(populations.iter().map(|&[ac, het]| Diploids { ac, het }))?
            }
        };
        Some(Site {
            terms: [a * VARIANCE_UNIT, (a + b + c) * VARIANCE_UNIT],
            counts: [],
        })
    }

    #[inline(always)] // into a loop with vector instructions
    fn block<const K: usize>(counts: &[&Counts<K>]) -> Option<Block<2, 0>> {
        let [mut a, mut sum, c] = many_blocks::weir_cockerham(counts)?;
        for ((a, sum), c) in a.iter_mut().zip(&mut sum).zip(c) {
            *sum = (*a + *sum + c) * VARIANCE_UNIT;
            *a *= VARIANCE_UNIT;
        }
        Some(Block {
            terms: [a, sum],
            counts: [],
        })
    }

    fn finish(&self, sums: &Sums<2, 0>) -> Option<f64> {
        sums.ratio()
    }
}

impl Definition for FstWeirCockerham {
    type Statistic = ManySumsOf<Self, 2, 0>;
    const NAME: &'static str = "fst_weir_cockerham";
    const ARGUMENT: SiteArgument = SiteArgument::Zygosity;
    const COUNTS: usize = 2;
    const VARIADIC: bool = true;

    fn return_type() -> DataType {
        DataType::Float64
    }

    fn statistic(_call: &Call) -> Result<Self::Statistic> {
        Ok(ManySumsOf::new(Self))
    }

    fn documentation() -> Documentation {
        document_zygosity(
            "Weir and Cockerham's F_ST (1984, theta) of two or more populations of diploids: the sum of a \
             over the sum of a + b + c, the variance components among populations, among individuals and \
             within individuals, summed over the alleles of every site with a complete diploid in each \
             population and more than one on average. Half-calls and haploids are left out. NULL where the \
             denominator is not positive.",
            "fst_weir_cockerham(zc1, zc2, …)",
            "SELECT fst_weir_cockerham(call_genotype, 'YRI', 'CEU') FROM t",
            &[("zc1", "the first population"), ("zc2", "the second population; any number may follow")],
        )
        .with_related_udf("site_fst_weir_cockerham")
        .with_related_udf("fst_weir_cockerham_haploid")
        .with_related_udf("fst_hudson")
        .build()
    }
}

#[cfg(test)]
mod tests {
    use crate::functions::aggregate::harness::{Call, zygosity, zygosity_field};

    #[test]
    fn by_hand() {
        // Fixed for different alleles: a = b + c + a. One allele adds nothing, nor does a site without individuals or with NULL.
        let fixed = |ac: [i32; 2]| Some([ac.to_vec(), vec![0, 0]]);
        let first = zygosity(&[fixed([8, 0]), fixed([8, 0]), fixed([0, 0]), None]);
        let second = zygosity(&[fixed([0, 8]), fixed([4, 0]), fixed([4, 0]), fixed([0, 2])]);
        let fields = vec![zygosity_field("zc1"), zygosity_field("zc2")];
        let call = Call::on("fst_weir_cockerham", fields, &[]).unwrap();
        let found = call.value(&[first.clone(), second.clone()]).unwrap();
        assert_eq!(found, 1.0.into());
        let none = [first.slice(1, 3), second.slice(1, 3)];
        assert!(call.value(&none).unwrap().is_null());
    }
}
