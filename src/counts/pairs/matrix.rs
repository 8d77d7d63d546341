//! The trait of counts over pairs: rows are added to a matrix, and matrices are added, saved and loaded.

use std::fmt::Debug;
use std::num::Wrapping;

use super::on_device::OnDevice;
use crate::counts::gathered::PlanesRow;
use crate::counts::{CountError, Level, ResidentPart, Workers};

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

    /// Whether `device` counts rows that are on it. Then there is a counter of them.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    fn counts_resident(
        shape: Shape,
        options: Self::Options,
        device: &OnDevice,
    ) -> Result<bool, CountError>;

    /// Sends rows that are on the device, all of which it counts.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    fn send_resident(
        shape: Shape,
        options: Self::Options,
        device: &OnDevice,
        parts: Vec<ResidentPart>,
        workers: &Workers<'_>,
    ) -> Result<(), CountError>;

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
    ///
    /// # Errors
    /// [`CountError::TooLarge`] if there is too little memory.
    fn save(&self, out: &mut Vec<u64>, workers: &Workers<'_>) -> Result<(), CountError>;

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

/// Saved words, read from the front by some threads.
#[derive(Debug)]
pub(crate) struct Words<'a> {
    words: &'a [u64],
    workers: &'a Workers<'a>,
    failed: Option<CountError>,
}

impl<'a> Words<'a> {
    /// These words.
    pub(crate) fn new(words: &'a [u64], workers: &'a Workers<'a>) -> Self {
        Self {
            words,
            workers,
            failed: None,
        }
    }

    /// Those that were not read.
    pub(crate) fn rest(&self) -> &'a [u64] {
        self.words
    }

    /// The error if there was too little memory for numbers.
    ///
    /// # Errors
    /// [`CountError::TooLarge`].
    pub(crate) fn check(&self) -> Result<(), CountError> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// The next word.
    pub(crate) fn next(&mut self) -> Option<u64> {
        let (word, rest) = self.words.split_first()?;
        self.words = rest;
        Some(*word)
    }

    /// The next `len` words.
    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u64]> {
        let (words, rest) = self.words.split_at_checked(len)?;
        self.words = rest;
        Some(words)
    }

    /// Numbers that were saved, `len` of them.
    pub(super) fn numbers<T: Saved>(&mut self, len: usize) -> Option<Vec<T>> {
        let words = self.take(T::words(len)?)?;
        self.numbers_of(words, len, T::number)
    }

    /// `len` numbers, of which `number` is that at a place in `words`.
    pub(super) fn numbers_of<T: Copy + Send>(
        &mut self,
        words: &[u64],
        len: usize,
        number: impl Fn(&[u64], usize) -> T + Sync,
    ) -> Option<Vec<T>> {
        let mut numbers = vec![];
        let number = |at| number(words, at);
        match self
            .workers
            .extend(&mut numbers, len, "saved counts", number)
        {
            Ok(()) => Some(numbers),
            Err(error) => {
                self.failed = Some(error);
                None
            }
        }
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
///
/// # Errors
/// [`CountError::TooLarge`] if there is too little memory.
pub(super) fn save_optional<T: Saved>(
    numbers: &[T],
    out: &mut Vec<u64>,
    workers: &Workers<'_>,
) -> Result<(), CountError> {
    out.push(u64::from(!numbers.is_empty()));
    let words = T::words(numbers.len()).unwrap_or(usize::MAX);
    workers.extend(out, words, "words of saved counts", |at| {
        T::word(numbers, at)
    })
}

/// Numbers that are saved as words.
pub(super) trait Saved: Copy + Default + Send + Sync {
    /// Words of `len` numbers.
    fn words(len: usize) -> Option<usize>;

    /// Word `at` of some numbers.
    fn word(numbers: &[Self], at: usize) -> u64;

    /// Number `at` of those with these words.
    fn number(words: &[u64], at: usize) -> Self;
}

/// Number `at` of some; 0 past their end.
#[inline(always)]
fn at_or_zero<T: Copy + Default>(numbers: &[T], at: usize) -> T {
    numbers.get(at).copied().unwrap_or_default()
}

impl Saved for u32 {
    fn words(len: usize) -> Option<usize> {
        Some(len.div_ceil(2))
    }

    #[inline(always)]
    fn word(numbers: &[Self], at: usize) -> u64 {
        let [low, high] = [2 * at, 2 * at + 1].map(|at| at_or_zero(numbers, at));
        u64::from(low) | u64::from(high) << 32
    }

    #[inline(always)]
    fn number(words: &[u64], at: usize) -> Self {
        (at_or_zero(words, at / 2) >> (32 * (at % 2))) as u32
    }
}

/// Differences of counts, which may be negative meanwhile.
impl Saved for Wrapping<u32> {
    fn words(len: usize) -> Option<usize> {
        u32::words(len)
    }

    #[inline(always)]
    fn word(numbers: &[Self], at: usize) -> u64 {
        let [low, high] = [2 * at, 2 * at + 1].map(|at| at_or_zero(numbers, at).0);
        u64::from(low) | u64::from(high) << 32
    }

    #[inline(always)]
    fn number(words: &[u64], at: usize) -> Self {
        Wrapping(u32::number(words, at))
    }
}

impl Saved for i128 {
    fn words(len: usize) -> Option<usize> {
        len.checked_mul(2)
    }

    #[inline(always)]
    fn word(numbers: &[Self], at: usize) -> u64 {
        (at_or_zero(numbers, at / 2) >> (64 * (at % 2))) as u64
    }

    #[inline(always)]
    fn number(words: &[u64], at: usize) -> Self {
        let [low, high] = [2 * at, 2 * at + 1].map(|at| at_or_zero(words, at));
        i128::from(low) | i128::from(high as i64) << 64
    }
}

impl Saved for i64 {
    fn words(len: usize) -> Option<usize> {
        Some(len)
    }

    #[inline(always)]
    fn word(numbers: &[Self], at: usize) -> u64 {
        at_or_zero(numbers, at) as u64
    }

    #[inline(always)]
    fn number(words: &[u64], at: usize) -> Self {
        at_or_zero(words, at) as i64
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
