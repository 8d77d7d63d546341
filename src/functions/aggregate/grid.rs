//! Spectra as Arrow lists: `List(T)` and `List(List(T))` of equal shape in every row, folding, and the limits on size.

use std::sync::Arc;

use arrow::array::{ArrayRef, ArrowPrimitiveType, ListArray, PrimitiveArray};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, internal_err, resources_err};

/// The maximum number of cells of the spectra of all groups together (2 GiB).
pub(crate) const MAX_SPECTRUM_CELLS: u64 = 1 << 28;
/// The maximum number of cells of the joint spectra of all groups together (512 MiB).
pub(crate) const MAX_JOINT_CELLS: u64 = 1 << 26;

/// `List(item)`.
pub(crate) fn list_of(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(item, true)))
}

fn item_field(values: &ArrayRef) -> FieldRef {
    Arc::new(Field::new_list_field(values.data_type().clone(), true))
}

/// Cells of `groups` grids of `rows` × `columns`, if that is below `limit`.
pub(crate) fn cells_within(limit: u64, rows: u64, columns: u64, groups: usize) -> Option<usize> {
    let cells = rows
        .checked_mul(columns)?
        .checked_mul(u64::try_from(groups).ok()?)?;
    if cells > limit {
        None
    } else {
        usize::try_from(cells).ok()
    }
}

/// `len` zeros, or an error if they cannot be allocated.
pub(crate) fn zeros<T: Clone + Default>(len: usize) -> Result<Vec<T>> {
    let mut values = Vec::new();
    if values.try_reserve_exact(len).is_err() {
        return resources_err!("no memory for the {len} cells of a spectrum");
    }
    values.resize(len, T::default());
    Ok(values)
}

/// `groups` lists of `length` cells each.
fn lists(groups: usize, length: usize, values: ArrayRef) -> Result<ArrayRef> {
    let mut offsets = Vec::with_capacity(groups + 1);
    for group in 0..=groups {
        match group.checked_mul(length).map(i32::try_from) {
            Some(Ok(offset)) => offsets.push(offset),
            _ => return resources_err!("{groups} spectra of {length} cells are too large"),
        }
    }
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    Ok(Arc::new(ListArray::try_new(
        item_field(&values),
        offsets,
        values,
        None,
    )?))
}

/// `values`, `groups` × `bins` of them in this order, as `List(T)`.
pub(crate) fn spectra<T: ArrowPrimitiveType>(
    groups: usize,
    bins: usize,
    values: Vec<T::Native>,
) -> Result<ArrayRef> {
    if groups.checked_mul(bins) != Some(values.len()) {
        return internal_err!("{groups} spectra of {bins} bins, {} cells", values.len());
    }
    let values = PrimitiveArray::<T>::new(ScalarBuffer::from(values), None);
    lists(groups, bins, Arc::new(values))
}

/// `values`, `groups` × `rows` × `columns` of them in this order, as `List(List(T))`.
pub(crate) fn grids<T: ArrowPrimitiveType>(
    groups: usize,
    rows: usize,
    columns: usize,
    values: Vec<T::Native>,
) -> Result<ArrayRef> {
    let Some(inner) = groups.checked_mul(rows) else {
        return internal_err!("{groups} grids of {rows} rows");
    };
    lists(groups, rows, spectra::<T>(inner, columns, values)?)
}

/// Folds a spectrum of m + 1 bins into ⌊m/2⌋ + 1 bins: bin m − j is added to bin j.
pub(crate) fn fold_spectrum(spectrum: &[f64], folded: &mut [f64]) {
    let last = spectrum.len().saturating_sub(1);
    for (j, bin) in folded.iter_mut().enumerate() {
        let (one, other) = (spectrum.get(j), spectrum.get(last.wrapping_sub(j)));
        *bin = match (one, other) {
            (Some(&one), Some(_)) if 2 * j == last => one,
            (Some(&one), Some(&other)) => one + other,
            _ => 0.0,
        };
    }
}

/// Folds a grid of (m1 + 1) × (m2 + 1) = `grid.len()` cells in place: cells with i + j over half of m1 + m2 move to
/// (m1 − i, m2 − j); ties are split ½ and ½.
pub(crate) fn fold_grid(grid: &mut [f64], columns: usize) {
    let cells = grid.len();
    let last = cells / columns.max(1) + columns;
    let Some(total) = last.checked_sub(2) else {
        return;
    };
    // The mirror of cell k is cells − 1 − k, so each pair is visited once; with an odd number of cells the middle one is its own mirror.
    let (front, back) = grid.split_at_mut(cells / 2);
    for (k, (one, mirror)) in front.iter_mut().zip(back.iter_mut().rev()).enumerate() {
        let (i, j) = (k / columns, k % columns);
        let both = *one + *mirror;
        (*one, *mirror) = match (2 * (i + j)).cmp(&total) {
            std::cmp::Ordering::Less => (both, 0.0),
            std::cmp::Ordering::Equal => (0.5 * both, 0.5 * both),
            std::cmp::Ordering::Greater => (0.0, both),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folding_a_spectrum() {
        let mut folded = [0.0; 3];
        fold_spectrum(&[1.0, 2.0, 3.0, 4.0, 5.0], &mut folded);
        assert_eq!(folded, [6.0, 6.0, 3.0]);
        let mut folded = [0.0; 2];
        fold_spectrum(&[1.0, 2.0, 3.0, 4.0], &mut folded);
        assert_eq!(folded, [5.0, 5.0]);
        let mut folded = [0.0];
        fold_spectrum(&[3.0, 4.0], &mut folded);
        assert_eq!(folded, [7.0]);
    }

    /// Folds by the definition, cell by cell.
    fn fold_plainly(grid: &[f64], columns: usize) -> Vec<f64> {
        let rows = grid.len() / columns;
        let mut folded = vec![0.0; grid.len()];
        for i in 0..rows {
            for j in 0..columns {
                let value = grid[i * columns + j];
                let mirror = (rows - 1 - i) * columns + columns - 1 - j;
                match (2 * (i + j)).cmp(&(rows + columns - 2)) {
                    std::cmp::Ordering::Less => folded[i * columns + j] += value,
                    std::cmp::Ordering::Greater => folded[mirror] += value,
                    std::cmp::Ordering::Equal => {
                        folded[i * columns + j] += value / 2.0;
                        folded[mirror] += value / 2.0;
                    }
                }
            }
        }
        folded
    }

    #[test]
    fn folding_a_grid() {
        for (rows, columns) in [
            (3, 3),
            (3, 5),
            (2, 4),
            (3, 4),
            (1, 4),
            (5, 1),
            (1, 1),
            (2, 2),
        ] {
            let mut grid: Vec<f64> = (0..rows * columns).map(|k| (k * k + 1) as f64).collect();
            let expected = fold_plainly(&grid, columns);
            fold_grid(&mut grid, columns);
            assert_eq!(grid, expected, "{rows} x {columns}");
        }
    }

    #[test]
    fn limits() {
        assert_eq!(cells_within(100, 5, 5, 4), Some(100));
        assert_eq!(cells_within(99, 5, 5, 4), None);
        assert_eq!(cells_within(u64::MAX, u64::MAX, 2, 1), None);
        assert!(spectra::<arrow::datatypes::Int64Type>(2, 2, vec![0; 3]).is_err());
    }
}
