//! `fst_weir_cockerham_haploid(ac1, ac2, …)`: Weir and Cockerham's F_ST of copies, as a ratio of sums over sites.

use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::Result;
use datafusion::logical_expr::Documentation;

use super::definition::{Call, Definition, document_populations};
use super::many_sums_of::ManySumsOf;
use super::sums::{Block, ManySums, Site, Sums};
use crate::functions::numeric::blocks::Counts;
use crate::functions::numeric::many_blocks;
use crate::functions::numeric::zygosity::{VARIANCE_UNIT, weir_cockerham_haploid};

/// `fst_weir_cockerham_haploid`.
#[derive(Debug)]
pub(crate) struct FstWeirCockerhamHaploid;

impl ManySums<2, 0> for FstWeirCockerhamHaploid {
    type Output = Float64Type;

    #[inline]
    fn site(counts: &[&[i32]], _work: &mut Vec<f64>) -> Option<Site<2, 0>> {
        let [a, b] = weir_cockerham_haploid(counts)?;
        Some(Site {
            terms: [a * VARIANCE_UNIT, (a + b) * VARIANCE_UNIT],
            counts: [],
        })
    }

    #[inline(always)] // into a loop with vector instructions
    fn block<const K: usize>(counts: &[&Counts<K>]) -> Option<Block<2, 0>> {
        let [mut a, mut sum] = many_blocks::weir_cockerham_haploid(counts)?;
        for (a, sum) in a.iter_mut().zip(&mut sum) {
            *sum = (*a + *sum) * VARIANCE_UNIT;
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

impl Definition for FstWeirCockerhamHaploid {
    type Statistic = ManySumsOf<Self, 2, 0>;
    const NAME: &'static str = "fst_weir_cockerham_haploid";
    const COUNTS: usize = 2;
    const VARIADIC: bool = true;

    fn return_type() -> DataType {
        DataType::Float64
    }

    fn statistic(_call: &Call) -> Result<Self::Statistic> {
        Ok(ManySumsOf::new(Self))
    }

    fn documentation() -> Documentation {
        document_populations(
            "Weir and Cockerham's F_ST of two or more populations from allele counts, without genotypes \
             (Weir 1996): the sum of a over the sum of a + b, the variance components among and within \
             populations, summed over the alleles of every site with a called copy in each population and \
             more than one on average. For haploids, and where individuals do not matter. NULL where the \
             denominator is not positive.",
            "fst_weir_cockerham_haploid(ac1, ac2, …)",
            "SELECT fst_weir_cockerham_haploid(call_genotype, 'YRI', 'CEU') FROM t",
            &[("ac1", "the first population"), ("ac2", "the second population; any number may follow")],
        )
        .with_related_udf("fst_weir_cockerham")
        .with_related_udf("fst_hudson")
        .build()
    }
}

#[cfg(test)]
mod tests {
    use datafusion::common::ScalarValue;

    use crate::functions::aggregate::harness::{Call, sites};

    fn value(name: &str, columns: &[arrow::array::ArrayRef]) -> ScalarValue {
        let copies = vec![None; columns.len()];
        Call::new(name, &copies, &[])
            .unwrap()
            .value(columns)
            .unwrap()
    }

    #[test]
    fn of_samples_of_one_size_it_is_hudsons() {
        let columns = [
            sites(&[[5, 2, 1], [8, 0, 0], [3, 5, 0]]),
            sites(&[[1, 6, 1], [8, 0, 0], [4, 4, 0]]),
        ];
        let [
            ScalarValue::Float64(Some(haploid)),
            ScalarValue::Float64(Some(hudson)),
        ] = ["fst_weir_cockerham_haploid", "fst_hudson"].map(|name| value(name, &columns))
        else {
            panic!()
        };
        assert!((haploid - hudson).abs() < 1e-14, "{haploid} {hudson}");
    }

    #[test]
    fn without_variation_it_is_null() {
        let fixed = sites(&[[4, 0], [4, 0]]);
        let columns = [fixed.clone(), fixed.clone(), fixed];
        assert!(value("fst_weir_cockerham_haploid", &columns).is_null());
    }
}
