//! [`Unset`]: the memory of a vector that several threads set part by part. New memory is first touched by the thread that sets it, since new pages
//! take longer than most numbers.

use std::mem::{MaybeUninit, take};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::error::CountError;

/// A vector of `len` numbers that are not set.
#[derive(Debug)]
pub(crate) struct Unset<T> {
    numbers: Vec<T>,
    len: usize,
    /// How many are set.
    set: AtomicUsize,
}

/// Sets the numbers of a part, one after the other. What is left when it is dropped is set to the default.
#[derive(Debug)]
pub(crate) struct Setter<'a, T: Copy + Default> {
    left: &'a mut [MaybeUninit<T>],
    len: usize,
    set: &'a AtomicUsize,
}

impl<T: Copy + Default> Unset<T> {
    /// Memory for so many of `what`.
    ///
    /// # Errors
    /// [`CountError::TooLarge`] if there is too little.
    pub(crate) fn try_new(len: usize, what: &str) -> Result<Self, CountError> {
        let mut numbers = vec![];
        numbers
            .try_reserve_exact(len)
            .map_err(|_| CountError::TooLarge(format!("{len} {what}")))?;
        Ok(Self {
            numbers,
            len,
            set: AtomicUsize::new(0),
        })
    }

    /// Setters of parts of these lengths, one after the other.
    pub(crate) fn setters(&mut self, lens: impl Iterator<Item = usize>) -> Vec<Setter<'_, T>> {
        self.set = AtomicUsize::new(0);
        let numbers = self.numbers.spare_capacity_mut();
        let mut rest = numbers.get_mut(..self.len).unwrap_or_default();
        let mut setters = vec![];
        for len in lens {
            let (left, others) = take(&mut rest)
                .split_at_mut_checked(len)
                .unwrap_or_default();
            rest = others;
            setters.push(Setter {
                len: left.len(),
                left,
                set: &self.set,
            });
        }
        setters
    }

    /// The numbers; none if not all were set.
    pub(crate) fn finish(self) -> Vec<T> {
        let mut numbers = self.numbers;
        if self.set.into_inner() == self.len {
            // SAFETY: setters are of parts that do not overlap, and each has set all numbers of its part before it counted them.
            unsafe { numbers.set_len(self.len) };
        }
        numbers
    }
}

impl<T: Copy + Default> Setter<'_, T> {
    /// Sets the next number; none is left after the last.
    #[inline]
    pub(crate) fn push(&mut self, number: T) {
        if let Some((next, rest)) = take(&mut self.left).split_first_mut() {
            next.write(number);
            self.left = rest;
        }
    }

    /// Sets the next numbers.
    pub(crate) fn extend_from_slice(&mut self, numbers: &[T]) {
        let len = numbers.len().min(self.left.len());
        let (next, rest) = take(&mut self.left).split_at_mut(len);
        for (to, number) in next.iter_mut().zip(numbers) {
            to.write(*number);
        }
        self.left = rest;
    }
}

impl<T: Copy + Default> Drop for Setter<'_, T> {
    fn drop(&mut self) {
        for number in self.left.iter_mut() {
            number.write(T::default());
        }
        self.set.fetch_add(self.len, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_set_in_order() {
        let mut unset = Unset::try_new(7, "numbers").unwrap();
        let mut setters = unset.setters([2, 0, 4, 1].into_iter());
        setters.reverse();
        for (at, setter) in (0..).zip(&mut setters) {
            setter.push(at);
            setter.extend_from_slice(&[10, 11]);
            setter.push(12);
            setter.push(13);
        }
        drop(setters);
        assert_eq!(unset.finish(), [3, 10, 1, 10, 11, 12, 0]);
    }

    #[test]
    fn what_was_not_set_is_never_read() {
        let mut unset = Unset::<u64>::try_new(3, "numbers").unwrap();
        let mut setters = unset.setters([2, 1].into_iter());
        std::mem::forget(setters.pop());
        drop(setters);
        assert!(unset.finish().is_empty());
        let mut unset = Unset::<u64>::try_new(3, "numbers").unwrap();
        drop(unset.setters([2].into_iter()));
        assert!(unset.finish().is_empty());
        // Parts that are not begun are zeros.
        let mut unset = Unset::<u64>::try_new(3, "numbers").unwrap();
        drop(unset.setters([2, 1].into_iter()));
        assert_eq!(unset.finish(), [0; 3]);
        assert!(Unset::<u64>::try_new(usize::MAX, "numbers").is_err());
    }
}
