//! A spectrum: a cell for each number of derived copies in each population, the last population fastest.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use datafusion::common::{Result, exec_err};

/// The cells of a spectrum.
#[derive(Debug, Clone, PartialEq)]
pub enum Cells {
    /// Numbers of sites.
    Whole(Vec<i64>),
    /// Those of projected and folded spectra.
    Real(Vec<f64>),
}

impl Cells {
    /// Number of cells.
    pub fn len(&self) -> usize {
        match self {
            Self::Whole(cells) => cells.len(),
            Self::Real(cells) => cells.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The cell at `index`, 0 beyond the end.
    pub fn value(&self, index: usize) -> f64 {
        match self {
            Self::Whole(cells) => cells.get(index).map_or(0.0, |cell| *cell as f64),
            Self::Real(cells) => cells.get(index).copied().unwrap_or(0.0),
        }
    }

    fn reals(self) -> Vec<f64> {
        match self {
            Self::Whole(cells) => cells.into_iter().map(|cell| cell as f64).collect(),
            Self::Real(cells) => cells,
        }
    }
}

/// A spectrum of one or several populations.
#[derive(Debug, Clone, PartialEq)]
pub struct Spectrum {
    cells: Cells,
    shape: Vec<usize>,
}

impl Spectrum {
    /// A spectrum with `shape` cells in each population.
    ///
    /// # Errors
    /// If the number of cells is not that of the shape, a population has fewer than two, or a cell is not a finite number.
    pub fn new(cells: Cells, shape: Vec<usize>) -> Result<Self> {
        let expected = shape
            .iter()
            .try_fold(1usize, |product, cells| product.checked_mul(*cells));
        if shape.is_empty() || expected != Some(cells.len()) {
            return exec_err!(
                "a spectrum of the shape {shape:?} cannot have {} cells",
                cells.len()
            );
        }
        if shape.iter().any(|cells| *cells < 2) {
            return exec_err!(
                "a spectrum has at least two cells in each population, found the shape {shape:?}"
            );
        }
        if let Cells::Real(reals) = &cells
            && let Some(index) = reals.iter().position(|cell| !cell.is_finite())
        {
            return exec_err!(
                "the cells of a spectrum must be finite numbers, found {} in cell {index}",
                reals[index]
            );
        }
        Ok(Self { cells, shape })
    }

    /// The spectrum in a row of a column: a list of numbers, or a list of such lists.
    ///
    /// # Errors
    /// If it is NULL or has NULLs, the lists differ in length, or the column is of another type.
    pub fn of_row(column: &ArrayRef, row: usize) -> Result<Self> {
        let mut shape = vec![];
        let mut values = column.slice(row, 1);
        while is_list(values.data_type()) {
            if values.null_count() > 0 {
                return exec_err!("{}", if shape.is_empty() { NULL } else { NULL_CELL });
            }
            let (lengths, inner) = unnested(&values)?;
            let first = lengths.first().copied().unwrap_or(0);
            if lengths.iter().any(|length| *length != first) {
                return exec_err!(
                    "the rows of a joint spectrum must have the same number of cells"
                );
            }
            shape.push(first);
            values = inner;
        }
        if shape.is_empty() {
            return exec_err!("{}", wrong_type(column.data_type()));
        }
        if values.null_count() > 0 {
            return exec_err!("{NULL_CELL}");
        }
        let cells = match values.data_type() {
            DataType::Int64 => Cells::Whole(values.as_primitive::<Int64Type>().values().to_vec()),
            DataType::Float64 => {
                Cells::Real(values.as_primitive::<Float64Type>().values().to_vec())
            }
            _ => return exec_err!("{}", wrong_type(column.data_type())),
        };
        Self::new(cells, shape)
    }

    /// Whether a column of this type may hold spectra.
    pub fn is_spectrum(data_type: &DataType) -> bool {
        match data_type {
            DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
                matches!(item.data_type(), DataType::Int64 | DataType::Float64)
                    || Self::is_spectrum(item.data_type())
            }
            _ => false,
        }
    }

    /// The cells, the last population fastest.
    pub fn cells(&self) -> &Cells {
        &self.cells
    }

    /// Number of cells in each population, one more than its copies.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Copies of all populations.
    pub fn copies(&self) -> usize {
        self.shape.iter().map(|cells| cells.saturating_sub(1)).sum()
    }

    /// Derived copies in all populations at the cell `index`.
    pub fn sum_of_indices(&self, index: usize) -> usize {
        let (mut rest, mut sum) = (index, 0);
        for cells in self.shape.iter().rev() {
            sum += rest % cells;
            rest /= cells;
        }
        sum
    }

    /// The spectrum of one population with zeros behind it, up to `cells`.
    pub fn padded(self, cells: usize) -> Result<Self> {
        let padded = match self.cells {
            Cells::Whole(mut values) => {
                values.resize(cells, 0);
                Cells::Whole(values)
            }
            Cells::Real(mut values) => {
                values.resize(cells, 0.0);
                Cells::Real(values)
            }
        };
        Self::new(padded, vec![cells])
    }

    /// The spectrum with `sites` in the cell without derived copies.
    pub fn with_monomorphic(self, sites: f64) -> Result<Self> {
        let whole = sites.fract() == 0.0 && sites.abs() < 9e15;
        let cells = match self.cells {
            Cells::Whole(mut cells) if whole => {
                cells
                    .iter_mut()
                    .take(1)
                    .for_each(|cell| *cell = sites as i64);
                Cells::Whole(cells)
            }
            other => {
                let mut cells = other.reals();
                cells.iter_mut().take(1).for_each(|cell| *cell = sites);
                Cells::Real(cells)
            }
        };
        Self::new(cells, self.shape)
    }
}

const NULL: &str = "the spectrum is NULL, so there is nothing to write: no site was counted";
const NULL_CELL: &str = "a cell of the spectrum is NULL, so it cannot be written";

fn is_list(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..)
    )
}

fn wrong_type(data_type: &DataType) -> String {
    format!(
        "a spectrum is a list of numbers, or a list of such lists, as sfs and joint_sfs give it; found {data_type}"
    )
}

/// The lengths of lists, and all their elements.
fn unnested(lists: &ArrayRef) -> Result<(Vec<usize>, ArrayRef)> {
    let (lengths, inner): (Vec<usize>, ArrayRef) = match lists.data_type() {
        DataType::List(_) => {
            let lists = lists.as_list::<i32>();
            let offsets = lists.value_offsets();
            let (start, end) = ends(offsets.first(), offsets.last());
            (
                offsets
                    .windows(2)
                    .map(|pair| (pair[1] - pair[0]) as usize)
                    .collect(),
                lists.values().slice(start, end - start),
            )
        }
        DataType::LargeList(_) => {
            let lists = lists.as_list::<i64>();
            let offsets = lists.value_offsets();
            let first = offsets.first().map_or(0, |at| *at as usize);
            let last = offsets.last().map_or(0, |at| *at as usize);
            (
                offsets
                    .windows(2)
                    .map(|pair| (pair[1] - pair[0]) as usize)
                    .collect(),
                lists.values().slice(first, last - first),
            )
        }
        DataType::FixedSizeList(_, _) => {
            let lists = lists.as_fixed_size_list();
            let length = lists.value_length() as usize;
            let first = lists.value_offset(0) as usize;
            (
                vec![length; lists.len()],
                lists.values().slice(first, length * lists.len()),
            )
        }
        other => return exec_err!("{}", wrong_type(other)),
    };
    Ok((lengths, inner))
}

fn ends(first: Option<&i32>, last: Option<&i32>) -> (usize, usize) {
    (
        first.map_or(0, |at| *at as usize),
        last.map_or(0, |at| *at as usize),
    )
}
