//! The counts arguments of an aggregate of any number of populations; [`sites`](super::sites) has those of a known number.
//!
//! Invariant: no count of a row that is not NULL is negative, see [`CountsView`].

use arrow::array::{Array, ArrayRef};
use arrow::buffer::NullBuffer;
use datafusion::common::{Result, internal_err};

use super::statistic::SiteInput;
use crate::functions::counts_arg::{CountsView, is_counts_type};
use crate::functions::numeric::many_blocks::MOST_LISTS;
use crate::functions::zygosity_arg::lists as zygosity_lists;

/// The counts of the same sites in each population: one list for allele counts, two lists, `ac` and `het`, for zygosity. A site that is
/// NULL in any population is skipped.
pub(crate) struct ManySites<'a> {
    lists: Vec<CountsView<'a>>,
    /// Validity of the structs that hold the lists.
    nulls: Vec<&'a NullBuffer>,
}

impl<'a> ManySites<'a> {
    /// Views the arguments that are counts; whole numbers may follow them.
    pub(crate) fn try_new(values: &'a [ArrayRef]) -> Result<Self> {
        let (mut lists, mut nulls) = (vec![], vec![]);
        for values in values {
            if is_counts_type(values.data_type()) {
                lists.push(CountsView::try_new(values)?);
            } else if let Some((of, parts)) = zygosity_lists(values) {
                nulls.extend(of.nulls());
                for part in parts {
                    lists.push(CountsView::try_new(part)?);
                }
            } else {
                break;
            }
        }
        let lengths: Vec<usize> = lists.iter().map(CountsView::len).collect();
        if lists.is_empty() || lengths.windows(2).any(|pair| pair[0] != pair[1]) {
            return internal_err!("counts arguments of {lengths:?} rows");
        }
        Ok(Self { lists, nulls })
    }

    /// Number of lists of a site.
    pub(crate) fn lists(&self) -> usize {
        self.lists.len()
    }

    /// All counts, if there are at most [`MOST_LISTS`] lists and every row of each holds `K`; the first list stands in place of those
    /// that are missing.
    pub(crate) fn of_width<const K: usize>(&self) -> Option<[&[[i32; K]]; MOST_LISTS]> {
        let mut all = [self.lists.first()?.of_width()?; MOST_LISTS];
        if self.lists.len() > MOST_LISTS {
            return None;
        }
        for (counts, list) in all.iter_mut().zip(&self.lists) {
            *counts = list.of_width()?;
        }
        Some(all)
    }

    /// Visits the sites of `rows`, none of them NULL: each row's number, and its lists, population by population.
    pub(crate) fn for_each(
        &self,
        rows: impl Iterator<Item = usize>,
        mut visit: impl FnMut(usize, &[&[i32]]),
    ) {
        let mut counts: Vec<&[i32]> = Vec::with_capacity(self.lists.len());
        for row in rows {
            counts.clear();
            counts.extend(self.lists.iter().map(|view| view.row(row)));
            visit(row, &counts);
        }
    }
}

impl SiteInput for ManySites<'_> {
    fn len(&self) -> usize {
        self.lists.first().map_or(0, CountsView::len)
    }

    #[inline]
    fn is_null(&self, row: usize) -> bool {
        self.nulls.iter().any(|nulls| nulls.is_null(row))
            || self.lists.iter().any(|view| view.is_null(row))
    }

    fn has_nulls(&self) -> bool {
        !self.nulls.is_empty() || self.lists.iter().any(CountsView::has_nulls)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::FixedSizeListArray;
    use arrow::datatypes::Int32Type;

    use super::*;
    use crate::functions::aggregate::harness::{counts, sites};

    #[test]
    fn sites_have_their_counts_in_each_population() {
        let values = [
            sites(&[[3, 1], [2, 2]]),
            counts(&[None, Some(vec![5])]),
            sites(&[[1, 1, 1], [0, 1, 4]]),
        ];
        let all = ManySites::try_new(&values).unwrap();
        assert!(SiteInput::len(&all) == 2 && all.has_nulls());
        assert!(all.is_null(0) && !all.is_null(1));
        let mut seen = vec![];
        all.for_each([1].into_iter(), |row, counts| {
            seen.push((row, counts.iter().map(|counts| counts.to_vec()).collect()));
        });
        let expected: Vec<Vec<i32>> = vec![vec![2, 2], vec![5], vec![0, 1, 4]];
        assert_eq!(seen, [(1, expected)]);
        assert!(all.lists() == 3 && all.of_width::<2>().is_none());
    }

    #[test]
    fn lists_of_one_width_are_blocks() {
        let fixed = |rows: &[[i32; 2]]| -> ArrayRef {
            let rows = rows.iter().map(|row| Some(row.map(Some).to_vec()));
            Arc::new(FixedSizeListArray::from_iter_primitive::<Int32Type, _, _>(
                rows, 2,
            ))
        };
        let values = [fixed(&[[3, 1], [2, 2]]), fixed(&[[1, 0], [0, 4]])];
        let all = ManySites::try_new(&values).unwrap();
        let [first, second, third, ..] = all.of_width::<2>().unwrap();
        assert_eq!(first, [[3, 1], [2, 2]]);
        assert_eq!(second, [[1, 0], [0, 4]]);
        assert_eq!(third, first);
        assert!(all.of_width::<3>().is_none());
        let many = vec![fixed(&[[1, 1]]); MOST_LISTS + 1];
        let many = ManySites::try_new(&many).unwrap();
        assert!(many.of_width::<2>().is_none());
    }

    #[test]
    fn populations_must_have_the_same_sites() {
        let counts = sites(&[[1, 2]; 5]);
        assert!(ManySites::try_new(&[counts.slice(0, 2), counts]).is_err());
        assert!(ManySites::try_new(&[]).is_err());
    }
}
