//! [`FieldFilters`]: filters of calls, resolved to the fields of a store.

use datafusion::common::{Result, exec_err};

use crate::counts::CallTest;
use crate::scan::calls::filters::CallFilters;
use crate::scan::dataset::Dataset;
use crate::store::ArrayMeta;

/// Filters of calls by fields of a store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldFilters {
    /// The fields as columns of the store, each once.
    pub fields: Vec<usize>,
    /// The filters; a call passes if it passes all.
    pub filters: Vec<FieldFilter>,
}

/// A filter of calls by a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldFilter {
    /// Which of the fields.
    pub field: usize,
    /// The value of each call that is tested, counted from 0. Calls may have fewer: it is then NULL.
    pub at: usize,
    /// The test.
    pub test: CallTest,
}

impl FieldFilters {
    /// These filters for a store.
    ///
    /// # Errors
    /// If the store lacks a field.
    pub fn try_new(dataset: &Dataset, filters: &CallFilters) -> Result<Self> {
        let mut resolved = Self::default();
        for filter in filters.iter() {
            let Some(column) = dataset.column_index(&filter.array) else {
                return exec_err!(
                    "filter_calls: store '{}' has no array '{}'; leave out its rows, or filter by a field that every store has",
                    dataset.store().location(),
                    filter.array
                );
            };
            let known = resolved.fields.iter().position(|known| *known == column);
            let field = known.unwrap_or_else(|| {
                resolved.fields.push(column);
                resolved.fields.len() - 1
            });
            resolved.filters.push(FieldFilter {
                field,
                at: filter.value.unwrap_or(0),
                test: filter.test.clone(),
            });
        }
        Ok(resolved)
    }

    /// Whether every call passes.
    pub fn is_empty(&self) -> bool {
        self.filters.is_empty()
    }
}

/// The index of the chunk of `field` that has the calls of a chunk of genotypes with this index; both have the same chunks of variants
/// and samples.
#[cfg_attr(
    not(feature = "gpu"),
    allow(dead_code, reason = "only a GPU filters by chunks")
)]
pub fn index_of_field(field: &ArrayMeta, genotypes: &[u64]) -> Vec<u64> {
    let mut index: Vec<u64> = genotypes.iter().copied().take(2).collect();
    index.resize(field.rank(), 0);
    index
}
