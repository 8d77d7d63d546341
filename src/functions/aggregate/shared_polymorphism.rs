//! `shared_polymorphism(ac1, ac2)`: the numbers of fixed differences, private polymorphisms and shared polymorphisms.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StructArray};
use arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Documentation;

use super::definition::{Call, Definition, document_two};
use super::sums::{Block, Output, Site, SiteSums, Sums};
use super::sums_of::SumsOf;
use crate::functions::numeric::blocks::Counts;
use crate::functions::numeric::many_blocks;
use crate::functions::numeric::populations::shared_polymorphism;

/// `shared_polymorphism`.
#[derive(Debug)]
pub(crate) struct SharedPolymorphism;

/// The classes of sites, in the order of the struct.
const CLASSES: [&str; 4] = ["fixed", "private1", "private2", "shared"];

fn fields() -> Fields {
    CLASSES
        .map(|class| Field::new(class, DataType::Int64, true))
        .to_vec()
        .into()
}

/// Numbers of sites of each of [`CLASSES`], as a struct.
pub(crate) struct Sites;

impl Output for Sites {
    type Value = [i64; 4];

    fn column(values: impl Iterator<Item = Option<[i64; 4]>>) -> Result<ArrayRef> {
        // No value is NULL.
        let rows: Vec<[i64; 4]> = values.map(Option::unwrap_or_default).collect();
        let class = |at: usize| -> ArrayRef {
            Arc::new(rows.iter().map(|row| Some(row[at])).collect::<Int64Array>())
        };
        let columns = (0..CLASSES.len()).map(class).collect();
        Ok(Arc::new(StructArray::try_new(fields(), columns, None)?))
    }
}

impl SiteSums<2, 0, 4> for SharedPolymorphism {
    type Output = Sites;

    #[inline(always)] // once per row, in the loop over them
    fn site([first, second]: [&[i32]; 2]) -> Option<Site<0, 4>> {
        Some(Site {
            terms: [],
            counts: shared_polymorphism(first, second)?,
        })
    }

    #[inline(always)] // into a loop with vector instructions
    fn block<const K: usize>(counts: [&Counts<K>; 2]) -> Option<Block<0, 4>> {
        Some(Block {
            terms: [],
            counts: many_blocks::shared_polymorphism(counts),
        })
    }

    fn finish(&self, sums: &Sums<0, 4>) -> Option<[i64; 4]> {
        Some(sums.counts)
    }
}

impl Definition for SharedPolymorphism {
    type Statistic = SumsOf<Self, 2, 0, 4>;
    const NAME: &'static str = "shared_polymorphism";
    const COUNTS: usize = 2;

    fn return_type() -> DataType {
        DataType::Struct(fields())
    }

    fn default_value() -> Result<ScalarValue> {
        ScalarValue::try_from_array(&Sites::column([Some([0; 4])].into_iter())?, 0)
    }

    fn statistic(_call: &Call) -> Result<Self::Statistic> {
        Ok(SumsOf::new(Self))
    }

    fn documentation() -> Documentation {
        document_two(
            "How many sites are polymorphic in which of two populations (Wakeley and Hey 1997), as a \
             struct of whole numbers, over the sites with a called copy in both: fixed, where no \
             allele is in both; shared, where two alleles or more are; and where one is, private1 if \
             the first population has others, private2 if the second has. A site with three alleles \
             may be in private1 and private2.",
            "shared_polymorphism(ac1, ac2)",
            "SELECT shared_polymorphism(call_genotype, 'YRI', 'CEU')['shared'] FROM t",
        )
        .with_related_udf("private_alleles")
        .with_related_udf("joint_sfs")
        .build()
    }
}

#[cfg(test)]
mod tests {
    use datafusion::common::ScalarValue;

    use super::*;
    use crate::functions::aggregate::harness::{Call, sites};

    #[test]
    fn by_hand() {
        // Fixed twice, private to the first, to the second, to both, shared, the same allele, no call in the first.
        let first = sites(&[
            [4, 0, 0],
            [1, 1, 0],
            [3, 1, 0],
            [4, 0, 0],
            [2, 2, 0],
            [3, 1, 0],
            [4, 0, 0],
            [0, 0, 0],
        ]);
        let second = sites(&[
            [0, 4, 0],
            [0, 0, 4],
            [4, 0, 0],
            [1, 0, 3],
            [2, 0, 2],
            [2, 1, 1],
            [4, 0, 0],
            [1, 1, 1],
        ]);
        let call = Call::new("shared_polymorphism", &[None, None], &[]).unwrap();
        let found = call.value(&[first, second]).unwrap();
        let expected = Sites::column([Some([2, 2, 2, 1])].into_iter()).unwrap();
        assert_eq!(found, ScalarValue::try_from_array(&expected, 0).unwrap());
    }
}
