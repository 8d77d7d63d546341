//! The state of a spectrum: the number of sites in each cell, sparse while few cells are in use, dense once that takes no more
//! memory.
//!
//! With few groups and a known number of cells the state soon becomes an array. With 100,000 groups each state takes at most a few times
//! the memory of its cells in use.

use std::fmt::Debug;
use std::hash::Hash;

use datafusion::common::{Result, internal_err};
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

use super::statistic::GroupState;

/// Identifies a cell. The order of keys is the order in which cells are evaluated.
pub(crate) trait Key:
    Copy + Debug + Default + Eq + Hash + Ord + Send + Sync + 'static
{
    /// How many 64-bit words hold a key.
    const WORDS: usize;
    /// Word `at` of the key, the most significant first.
    fn word(self, at: usize) -> u64;
    /// The key, with `word` appended at its end.
    fn push(self, word: u64) -> Self;
    /// The index of this cell in a dense state; only called if the domain is known.
    fn index(self) -> usize;
    /// The key of a cell in a dense state.
    fn at(index: usize) -> Self;
}

impl Key for u64 {
    const WORDS: usize = 1;

    fn word(self, _at: usize) -> u64 {
        self
    }

    fn push(self, word: u64) -> Self {
        word
    }

    #[inline]
    fn index(self) -> usize {
        usize::try_from(self).unwrap_or(usize::MAX)
    }

    fn at(index: usize) -> Self {
        index as u64
    }
}

impl Key for u128 {
    const WORDS: usize = 2;

    fn word(self, at: usize) -> u64 {
        if at == 0 {
            (self >> 64) as u64
        } else {
            self as u64
        }
    }

    fn push(self, word: u64) -> Self {
        self << 64 | u128::from(word)
    }

    #[inline]
    fn index(self) -> usize {
        usize::try_from(self).unwrap_or(usize::MAX)
    }

    fn at(index: usize) -> Self {
        index as u128
    }
}

#[derive(Debug)]
enum Cells<K> {
    Sparse(HashMap<K, i64>),
    Dense(Vec<i64>),
}

/// Number of sites in each cell.
#[derive(Debug)]
pub(crate) struct Histogram<K>(Cells<K>);

impl<K: Key> Default for Histogram<K> {
    fn default() -> Self {
        Self(Cells::Sparse(HashMap::new()))
    }
}

impl<K: Key> GroupState for Histogram<K> {
    #[inline]
    fn heap_size(&self) -> usize {
        match &self.0 {
            Cells::Sparse(cells) => cells.allocation_size(),
            Cells::Dense(cells) => cells.capacity() * size_of::<i64>(),
        }
    }
}

/// A state becomes dense once its domain has at most this many times the cells in use, plus [`SMALL`].
const DENSITY: usize = 8;
const SMALL: usize = 64;

impl<K: Key> Histogram<K> {
    /// Adds `sites` sites to a cell; a negative number removes them.
    ///
    /// `domain` is the number of cells there can be, 0 where that is not known: the state then stays sparse.
    #[inline]
    pub(crate) fn add(&mut self, cell: K, sites: i64, domain: usize) -> Result<()> {
        match &mut self.0 {
            Cells::Dense(cells) => match cells.get_mut(cell.index()) {
                Some(count) => *count = count.wrapping_add(sites),
                None => return outside(cell, domain),
            },
            Cells::Sparse(_) => self.add_sparse(cell, sites, domain)?,
        }
        Ok(())
    }

    fn add_sparse(&mut self, cell: K, sites: i64, domain: usize) -> Result<()> {
        let Cells::Sparse(cells) = &mut self.0 else {
            return internal_err!("a dense histogram is not sparse");
        };
        if domain > 0 && cell.index() >= domain {
            return outside(cell, domain);
        }
        match cells.entry(cell) {
            Entry::Occupied(mut entry) => {
                *entry.get_mut() = entry.get().wrapping_add(sites);
                if *entry.get() == 0 {
                    entry.remove();
                }
            }
            Entry::Vacant(entry) => {
                entry.insert(sites);
            }
        }
        let in_use = cells.len();
        self.expect(in_use, domain)
    }

    /// Makes the state dense if `in_use` or more cells of `domain` are expected and the dense state is no larger.
    pub(crate) fn expect(&mut self, in_use: usize, domain: usize) -> Result<()> {
        if domain > 0
            && in_use * DENSITY + SMALL >= domain
            && let Cells::Sparse(cells) = &self.0
        {
            let mut dense = vec![0; domain];
            for (cell, &count) in cells.iter() {
                match dense.get_mut(cell.index()) {
                    Some(of_cell) => *of_cell = count,
                    None => return outside(*cell, domain),
                }
            }
            self.0 = Cells::Dense(dense);
        }
        Ok(())
    }

    /// The cells in use and their numbers of sites, in no particular order.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(K, i64)) {
        match &self.0 {
            Cells::Sparse(cells) => cells.iter().for_each(|(&cell, &count)| visit(cell, count)),
            Cells::Dense(cells) => {
                for (index, &count) in cells.iter().enumerate() {
                    if count != 0 {
                        visit(K::at(index), count);
                    }
                }
            }
        }
    }

    /// The cells in use and their numbers of sites, in ascending order of the cells, into `sorted`.
    pub(crate) fn sorted(&self, sorted: &mut Vec<(K, i64)>) {
        sorted.clear();
        self.for_each(|cell, count| sorted.push((cell, count)));
        sorted.sort_unstable_by_key(|&(cell, _)| cell);
    }
}

#[cold]
fn outside<T, K: Key>(cell: K, domain: usize) -> Result<T> {
    internal_err!("cell {cell:?} of a spectrum is not below {domain}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(histogram: &Histogram<u64>) -> Vec<(u64, i64)> {
        let mut sorted = Vec::new();
        histogram.sorted(&mut sorted);
        sorted
    }

    #[test]
    fn sparse_and_dense_agree() {
        let (mut sparse, mut dense) = (Histogram::default(), Histogram::default());
        for i in 0..1000u64 {
            let cell = i * i % 97;
            sparse.add(cell, 1, 0).unwrap();
            dense.add(cell, 1, 97).unwrap();
        }
        assert!(matches!(sparse.0, Cells::Sparse(_)));
        assert!(matches!(dense.0, Cells::Dense(_)));
        assert_eq!(cells(&sparse), cells(&dense));
    }

    #[test]
    fn few_cells_of_many_stay_sparse() {
        let mut histogram = Histogram::<u64>::default();
        for cell in 0..100 {
            histogram.add(cell * 200, 1, 20_001).unwrap();
        }
        assert!(histogram.heap_size() < 8192, "{}", histogram.heap_size());
    }

    #[test]
    fn cells_that_run_empty_are_gone() {
        let mut histogram = Histogram::<u64>::default();
        histogram.add(3, 1, 0).unwrap();
        histogram.add(5, 2, 0).unwrap();
        histogram.add(3, -1, 0).unwrap();
        assert_eq!(cells(&histogram), [(5, 2)]);
    }

    #[test]
    fn cells_outside_are_errors() {
        let mut histogram = Histogram::<u64>::default();
        assert!(histogram.add(10, 1, 10).is_err());
        histogram.add(9, 1, 10).unwrap();
        assert!(histogram.add(10, 1, 10).is_err());
    }

    #[test]
    fn keys_go_through_words() {
        let key = 7u128 << 100 | 12;
        let back = (0..u128::WORDS).fold(0u128, |back, at| back.push(key.word(at)));
        assert_eq!(back, key);
    }
}
