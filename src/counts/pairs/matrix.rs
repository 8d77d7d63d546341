//! The trait of counts over pairs: rows are added to a matrix, and matrices are added, saved and loaded.

use std::fmt::Debug;
use std::num::Wrapping;

use super::on_device::OnDevice;
use crate::counts::gathered::PlanesRow;
use crate::counts::{CountError, Level, Workers};

/// The individuals of a population.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Number of individuals.
    pub(crate) samples: usize,
    /// Copies of a call.
    pub(crate) ploidy: usize,
}

impl Shape {
    /// Copies of the population; saturating.
    pub(crate) fn copies(self) -> usize {
        self.samples.saturating_mul(self.ploidy)
    }
}

/// Counts over all pairs of a population.
pub(crate) trait PairMatrix: Clone + Debug + Send + Sync + Sized + 'static {
    /// Identifies saved matrices of this type, and the layout of their words.
    const KIND: u32;
    /// What is counted, beside the population.
    type Options: Copy + Debug + Send + Sync + 'static;

    /// Counts over no rows.
    ///
    /// # Errors
    /// [`CountError::TooLarge`] if they do not fit in memory.
    fn try_new(shape: Shape, options: Self::Options) -> Result<Self, CountError>;

    /// Adds rows.
    ///
    /// # Errors
    /// [`CountError::TooLarge`] if there are 2³² rows or more, or memory is short; [`CountError::Stopped`], after which the matrix must not be
    /// used.
    fn fold(
        &mut self,
        rows: &[PlanesRow<'_>],
        level: Level,
        workers: &Workers<'_>,
    ) -> Result<(), CountError>;

    /// Sends the rows that `device` counts; returns the numbers of the others, in order.
    ///
    /// # Errors
    /// [`CountError::Device`] and [`CountError::Stopped`].
    fn send(
        shape: Shape,
        options: Self::Options,
        device: &OnDevice,
        rows: &[PlanesRow<'_>],
        workers: &Workers<'_>,
    ) -> Result<Vec<usize>, CountError>;

    /// Adds the counts of all rows that were [sent](Self::send).
    ///
    /// # Errors
    /// [`CountError::Device`], [`CountError::TooLarge`] and [`CountError::Stopped`]. The matrix must not be used after.
    fn add_counted(&mut self, device: &OnDevice, workers: &Workers<'_>) -> Result<(), CountError>;

    /// Adds the rows of another matrix of the same population and options.
    ///
    /// # Errors
    /// As [`fold`](Self::fold).
    fn merge(&mut self, other: &Self) -> Result<(), CountError>;

    /// Appends its words.
    fn save(&self, out: &mut Vec<u64>);

    /// Reads what [`save`](Self::save) wrote; `None` for anything else.
    fn load(shape: Shape, options: Self::Options, words: &mut Words<'_>) -> Option<Self>;

    /// Bytes on the heap.
    fn heap_bytes(&self) -> usize;

    /// Bytes of a matrix with these options, the scratch memory of adding rows apart; saturating.
    fn bytes_of(shape: Shape, options: Self::Options) -> usize;
}

/// The error of counts that memory cannot hold.
pub(super) fn too_large(what: &str, units: usize) -> CountError {
    CountError::TooLarge(format!("{what} over all pairs of {units}"))
}

/// Zeros.
///
/// # Errors
/// [`CountError::TooLarge`] if they do not fit in memory.
pub(super) fn zeros<T: Copy + Default>(len: usize, units: usize) -> Result<Vec<T>, CountError> {
    let mut all = Vec::new();
    all.try_reserve_exact(len)
        .map_err(|_| too_large("counts", units))?;
    all.resize(len, T::default());
    Ok(all)
}

/// The number of rows after some more.
///
/// # Errors
/// [`CountError::TooLarge`] from 2³² on, where counts of a pair no longer fit.
pub(super) fn more_rows(rows: u64, more: u64) -> Result<u64, CountError> {
    match rows.checked_add(more) {
        Some(rows) if rows <= u64::from(u32::MAX) => Ok(rows),
        _ => Err(CountError::TooLarge(format!(
            "counts over pairs of {rows} and {more} variants, 2^32 or more"
        ))),
    }
}

/// Saved words, read from the front.
#[derive(Debug)]
pub(crate) struct Words<'a>(pub(crate) &'a [u64]);

impl<'a> Words<'a> {
    /// The next word.
    pub(crate) fn next(&mut self) -> Option<u64> {
        let (word, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*word)
    }

    /// The next `len` words.
    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u64]> {
        let (words, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(words)
    }

    /// Numbers that [`Saved::save`] wrote, `len` of them.
    pub(super) fn numbers<T: Saved>(&mut self, len: usize) -> Option<Vec<T>> {
        let words = self.take(T::words(len)?)?;
        Some(T::load(words, len))
    }

    /// Numbers that [`save_optional`] wrote: none, or `len` of them.
    pub(super) fn optional<T: Saved>(&mut self, len: usize) -> Option<Vec<T>> {
        match self.next()? {
            0 => Some(vec![]),
            1 => self.numbers(len),
            _ => None,
        }
    }
}

/// Appends numbers with a word before them that says whether there are any.
pub(super) fn save_optional<T: Saved>(numbers: &[T], out: &mut Vec<u64>) {
    out.push(u64::from(!numbers.is_empty()));
    T::save(numbers, out);
}

/// Numbers that are saved as words.
pub(super) trait Saved: Sized {
    /// Words of `len` numbers.
    fn words(len: usize) -> Option<usize>;
    fn save(numbers: &[Self], out: &mut Vec<u64>);
    fn load(words: &[u64], len: usize) -> Vec<Self>;
}

impl Saved for u32 {
    fn words(len: usize) -> Option<usize> {
        Some(len.div_ceil(2))
    }

    fn save(numbers: &[Self], out: &mut Vec<u64>) {
        let pair = |pair: &[u32]| {
            let high = pair.get(1).copied().unwrap_or_default();
            u64::from(pair[0]) | u64::from(high) << 32
        };
        out.extend(numbers.chunks(2).map(pair));
    }

    fn load(words: &[u64], len: usize) -> Vec<Self> {
        let numbers = words
            .iter()
            .flat_map(|word| [*word as u32, (word >> 32) as u32]);
        numbers.take(len).collect()
    }
}

/// Differences of counts, which may be negative meanwhile.
impl Saved for Wrapping<u32> {
    fn words(len: usize) -> Option<usize> {
        u32::words(len)
    }

    fn save(numbers: &[Self], out: &mut Vec<u64>) {
        let pair = |pair: &[Self]| {
            let high = pair.get(1).map_or(0, |high| high.0);
            u64::from(pair[0].0) | u64::from(high) << 32
        };
        out.extend(numbers.chunks(2).map(pair));
    }

    fn load(words: &[u64], len: usize) -> Vec<Self> {
        u32::load(words, len).into_iter().map(Wrapping).collect()
    }
}

impl Saved for i128 {
    fn words(len: usize) -> Option<usize> {
        len.checked_mul(2)
    }

    fn save(numbers: &[Self], out: &mut Vec<u64>) {
        out.extend(
            numbers
                .iter()
                .flat_map(|number| [*number as u64, (number >> 64) as u64]),
        );
    }

    fn load(words: &[u64], len: usize) -> Vec<Self> {
        let number = |pair: &[u64; 2]| i128::from(pair[0]) | i128::from(pair[1] as i64) << 64;
        words.as_chunks().0.iter().map(number).take(len).collect()
    }
}

impl Saved for i64 {
    fn words(len: usize) -> Option<usize> {
        Some(len)
    }

    fn save(numbers: &[Self], out: &mut Vec<u64>) {
        out.extend(numbers.iter().map(|number| *number as u64));
    }

    fn load(words: &[u64], len: usize) -> Vec<Self> {
        words.iter().map(|word| *word as i64).take(len).collect()
    }
}

/// Adds `from` to `to`; empty is all zeros.
pub(super) fn add_all<T: Copy + std::ops::AddAssign>(to: &mut Vec<T>, from: &[T]) {
    if to.is_empty() {
        to.extend_from_slice(from);
        return;
    }
    for (to, from) in to.iter_mut().zip(from) {
        *to += *from;
    }
}
