//! The counts arguments of an aggregate of any number of populations; [`sites`](super::sites) has those of a known number.
//!
//! Invariant: no count of a row that is not NULL is negative, see [`CountsView`].

use arrow::array::ArrayRef;
use datafusion::common::{Result, internal_err};

use super::statistic::SiteInput;
use crate::functions::counts_arg::{CountsView, is_counts_type};

/// The allele counts of the same sites in each population; a site that is NULL in any is skipped.
pub(crate) struct ManySites<'a>(Vec<CountsView<'a>>);

impl<'a> ManySites<'a> {
    /// Views the arguments that are counts; whole numbers may follow them.
    pub(crate) fn try_new(values: &'a [ArrayRef]) -> Result<Self> {
        let counts = values
            .iter()
            .take_while(|values| is_counts_type(values.data_type()));
        let views: Vec<_> = counts.map(CountsView::try_new).collect::<Result<_>>()?;
        let lengths: Vec<usize> = views.iter().map(CountsView::len).collect();
        if views.is_empty() || lengths.windows(2).any(|pair| pair[0] != pair[1]) {
            return internal_err!("counts arguments of {lengths:?} rows");
        }
        Ok(Self(views))
    }

    /// Visits the sites of `rows`, none of them NULL: each row's number, and its counts in each population.
    pub(crate) fn for_each(
        &self,
        rows: impl Iterator<Item = usize>,
        mut visit: impl FnMut(usize, &[&[i32]]),
    ) {
        let mut counts: Vec<&[i32]> = Vec::with_capacity(self.0.len());
        for row in rows {
            counts.clear();
            counts.extend(self.0.iter().map(|view| view.row(row)));
            visit(row, &counts);
        }
    }
}

impl SiteInput for ManySites<'_> {
    fn len(&self) -> usize {
        self.0.first().map_or(0, CountsView::len)
    }

    #[inline]
    fn is_null(&self, row: usize) -> bool {
        self.0.iter().any(|view| view.is_null(row))
    }

    fn has_nulls(&self) -> bool {
        self.0.iter().any(CountsView::has_nulls)
    }
}

#[cfg(test)]
mod tests {
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
    }

    #[test]
    fn populations_must_have_the_same_sites() {
        let counts = sites(&[[1, 2]; 5]);
        assert!(ManySites::try_new(&[counts.slice(0, 2), counts]).is_err());
        assert!(ManySites::try_new(&[]).is_err());
    }
}
