//! [`SampleSet`]: a set of samples, such as a population. [`SampleIndex`]: the map from sample ids to indices.
//!
//! Sets come from a populations file ([`Populations`](super::Populations)), from a list of ids in SQL
//! ([`SampleIndex::set`]) or hold every sample ([`SampleSet::all`]). Invariant: indices are sorted and unique, so equal sets
//! compare and hash equal and are counted once.

use std::collections::HashMap;

use super::near_names::near_names;
use crate::error::{Result, VczError};

/// Sorted, unique indices into `sample_id`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SampleSet {
    indices: Vec<u32>,
}

impl SampleSet {
    /// No samples. SQL cannot make this set: an empty list is an error.
    pub const EMPTY: Self = Self {
        indices: Vec::new(),
    };

    /// The set of these samples, in any order; duplicates count once.
    pub fn new(mut indices: Vec<u32>) -> Self {
        indices.sort_unstable();
        indices.dedup();
        Self { indices }
    }

    /// Every sample of a store that has `n` of them.
    pub fn all(n: u32) -> Self {
        Self {
            indices: (0..n).collect(),
        }
    }

    /// Number of samples (individuals, not copies).
    pub fn len(&self) -> usize {
        self.indices.len()
    }

    /// Whether the set holds no sample.
    pub fn is_empty(&self) -> bool {
        self.indices.is_empty()
    }

    /// The indices, ascending.
    pub fn indices(&self) -> &[u32] {
        &self.indices
    }

    /// The indices, ascending.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        self.indices.iter().copied()
    }

    /// Whether `sample` is in the set.
    pub fn contains(&self, sample: u32) -> bool {
        self.indices.binary_search(&sample).is_ok()
    }

    /// The part of the set with `start <= index < stop`.
    pub fn within(&self, start: u32, stop: u32) -> &[u32] {
        let from = self.indices.partition_point(|&i| i < start);
        let to = self.indices.partition_point(|&i| i < stop);
        self.indices.get(from..to).unwrap_or(&[])
    }
}

/// Sample ids to indices. An id that occurs twice in a store stands for no sample: asking for it is an error.
#[derive(Debug, Default)]
pub struct SampleIndex<'a> {
    ids: &'a [String],
    by_id: HashMap<&'a str, Option<u32>>,
}

impl<'a> SampleIndex<'a> {
    /// Indexes a store's `sample_id`.
    pub fn new(ids: &'a [String]) -> Self {
        let mut by_id = HashMap::with_capacity(ids.len());
        for (id, index) in ids.iter().zip(0u32..) {
            by_id
                .entry(id.as_str())
                .and_modify(|known| *known = None)
                .or_insert(Some(index));
        }
        Self { ids, by_id }
    }

    /// Whether a sample has this id.
    pub fn has(&self, id: &str) -> bool {
        self.by_id.contains_key(id)
    }

    /// The index of one sample.
    ///
    /// # Errors
    /// [`VczError::Invalid`] for an unknown id (with near ids), and for one that occurs more than once.
    pub fn get(&self, id: &str) -> Result<u32> {
        match self.by_id.get(id) {
            Some(Some(index)) => Ok(*index),
            Some(None) => Err(VczError::Invalid(format!(
                "sample '{id}' occurs more than once in the store's sample_id, so it names no single sample"
            ))),
            None => Err(VczError::Invalid(format!(
                "the store has no sample '{id}'{}",
                near_names(id, self.ids.iter().map(String::as_str))
            ))),
        }
    }

    /// The set of the samples with these ids; duplicates count once.
    ///
    /// # Errors
    /// [`VczError::Invalid`] for an unknown id (with near ids) and for no ids at all.
    pub fn set<S: AsRef<str>>(&self, ids: impl IntoIterator<Item = S>) -> Result<SampleSet> {
        let indices = ids
            .into_iter()
            .map(|id| self.get(id.as_ref()))
            .collect::<Result<Vec<u32>>>()?;
        if indices.is_empty() {
            return Err(VczError::Invalid(
                "an empty list of sample ids: name at least one sample, or leave the argument out for every sample"
                    .into(),
            ));
        }
        Ok(SampleSet::new(indices))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_sorted_unique_and_comparable() {
        let set = SampleSet::new(vec![5, 1, 5, 3]);
        assert_eq!(set.indices(), [1, 3, 5]);
        assert_eq!(set, SampleSet::new(vec![3, 5, 1]));
        assert!(set.contains(3) && !set.contains(2));
        assert_eq!(set.within(2, 5), [3]);
        assert_eq!(set.within(6, 9), [] as [u32; 0]);
        assert_eq!(SampleSet::all(3).iter().collect::<Vec<_>>(), [0, 1, 2]);
        assert!(SampleSet::new(vec![]).is_empty());
    }

    #[test]
    fn ids_resolve_or_say_what_is_near() {
        let ids: Vec<String> = ["HG001", "HG002", "NA1", "NA1"].map(String::from).into();
        let index = SampleIndex::new(&ids);
        assert_eq!(
            index.set(["HG002", "HG001", "HG002"]).unwrap().indices(),
            [0, 1]
        );
        assert!(
            index
                .get("HG003")
                .unwrap_err()
                .to_string()
                .contains("'HG002'")
        );
        assert!(
            index
                .get("NA1")
                .unwrap_err()
                .to_string()
                .contains("more than once")
        );
        assert!(index.set([] as [&str; 0]).is_err());
    }
}
