//! The counts arguments of an aggregate of one or several populations, and the loops over their sites.
//!
//! Invariant: no count of a row that is not NULL is negative, see [`CountsView`].

use arrow::array::ArrayRef;
use datafusion::common::{Result, internal_err};

use super::statistic::{SiteInput, column};
use crate::functions::counts_arg::CountsView;

/// The body of a loop over sites. A trait and not a closure, so that implementations can be `#[inline(always)]`.
pub(crate) trait Visit<const P: usize> {
    /// Takes the counts of a site in each population; implementations are `#[inline(always)]`.
    fn visit(&mut self, counts: [&[i32]; P]) -> Result<()>;
}

/// The allele counts of the same sites in `P` populations; a site that is NULL in any is skipped.
pub(crate) struct Sites<'a, const P: usize>([CountsView<'a>; P]);

impl<'a, const P: usize> Sites<'a, P> {
    /// Views the first `P` arguments.
    pub(crate) fn try_new(values: &'a [ArrayRef]) -> Result<Self> {
        let mut views = Vec::with_capacity(P);
        for at in 0..P {
            views.push(CountsView::try_new(column(values, at)?)?);
        }
        let lengths: Vec<usize> = views.iter().map(CountsView::len).collect();
        match <[CountsView; P]>::try_from(views) {
            Ok(views) if lengths.windows(2).all(|pair| pair[0] == pair[1]) => Ok(Self(views)),
            _ => internal_err!("counts arguments of {lengths:?} rows"),
        }
    }

    /// The counts of a site in each population.
    #[inline(always)] // once per row, in the loop over them
    pub(crate) fn counts(&self, row: usize) -> [&[i32]; P] {
        std::array::from_fn(|p| self.0[p].row(row))
    }

    /// Visits the counts of the sites of `rows`, none of them NULL.
    #[inline(always)] // one loop for each caller
    pub(crate) fn try_for_each(
        &self,
        rows: impl Iterator<Item = usize>,
        visitor: &mut impl Visit<P>,
    ) -> Result<()> {
        // Separate loops for two, three and four alleles: with a known number of alleles, a visit is compiled without inner loops and
        // bounds checks.
        if let Some(counts) = self.of_width::<2>() {
            visit_all(counts, rows, visitor)
        } else if let Some(counts) = self.of_width::<3>() {
            visit_all(counts, rows, visitor)
        } else if let Some(counts) = self.of_width::<4>() {
            visit_all(counts, rows, visitor)
        } else {
            for row in rows {
                visitor.visit(self.counts(row))?;
            }
            Ok(())
        }
    }

    /// All counts, where every row of every population holds `K`.
    #[inline(always)]
    pub(crate) fn of_width<const K: usize>(&self) -> Option<[&[[i32; K]]; P]> {
        let mut all: [&[[i32; K]]; P] = [&[]; P];
        for (counts, view) in all.iter_mut().zip(&self.0) {
            *counts = view.of_width()?;
        }
        Some(all)
    }
}

/// Visits the counts of the sites of `rows`, of `K` alleles each.
#[inline(always)] // one loop for each caller and width
fn visit_all<const P: usize, const K: usize>(
    counts: [&[[i32; K]]; P],
    rows: impl Iterator<Item = usize>,
    visitor: &mut impl Visit<P>,
) -> Result<()> {
    for row in rows {
        visitor.visit(std::array::from_fn(|p| &counts[p][row][..]))?;
    }
    Ok(())
}

impl<const P: usize> SiteInput for Sites<'_, P> {
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
    use std::sync::Arc;

    use arrow::array::{Array, FixedSizeListArray, ListArray};
    use arrow::datatypes::Int32Type;

    use super::*;

    /// Rows `2..` of a column, so that what comes before must be left out.
    fn fixed(width: i32, rows: &[Vec<i32>]) -> ArrayRef {
        let rows = rows
            .iter()
            .map(|row| Some(row.iter().copied().map(Some).collect::<Vec<_>>()));
        let all = FixedSizeListArray::from_iter_primitive::<Int32Type, _, _>(rows, width);
        Arc::new(all.slice(2, all.len() - 2))
    }

    #[derive(Default)]
    struct Seen(Vec<Vec<i32>>);

    impl Visit<2> for Seen {
        fn visit(&mut self, [first, second]: [&[i32]; 2]) -> Result<()> {
            assert_eq!(first, second);
            self.0.push(first.to_vec());
            Ok(())
        }
    }

    #[test]
    fn every_width_visits_the_same_rows() {
        for width in 1..6usize {
            let rows: Vec<Vec<i32>> = (0..9)
                .map(|row| (0..width).map(|k| (row * 10 + k) as i32).collect())
                .collect();
            let counts = fixed(width as i32, &rows);
            let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(
                rows[2..]
                    .iter()
                    .map(|row| Some(row.iter().copied().map(Some).collect::<Vec<_>>())),
            ));
            for second in [&counts, &lists] {
                let values = [Arc::clone(&counts), Arc::clone(second)];
                let sites = Sites::<2>::try_new(&values).unwrap();
                assert_eq!(SiteInput::len(&sites), 7);
                let mut seen = Seen::default();
                sites
                    .try_for_each([0, 3, 6].into_iter(), &mut seen)
                    .unwrap();
                assert_eq!(seen.0, [&rows[2][..], &rows[5], &rows[8]]);
                assert_eq!(sites.counts(1), [&rows[3][..]; 2]);
            }
        }
    }

    #[test]
    fn populations_must_have_the_same_sites() {
        let counts = fixed(2, &vec![vec![1, 2]; 5]);
        let fewer = counts.slice(0, 2);
        assert!(Sites::<2>::try_new(&[Arc::clone(&counts), fewer]).is_err());
        assert!(Sites::<2>::try_new(&[counts]).is_err());
    }
}
