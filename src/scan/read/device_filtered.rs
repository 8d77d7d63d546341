//! [`DeviceFilteredReader`]: computes the calls of a query that filters calls by FORMAT fields where GPUs apply the filters: a
//! [`GenotypeReader`] for all calls with the same filters.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;
use datafusion::common::Result;

use super::genotypes::GenotypeReader;
use crate::scan::calls::call::{FilteredCall, by_filters};
use crate::scan::calls::context::GenotypeContext;
use crate::scan::chunks::field_filters::FieldFilters;
use crate::scan::chunks::open::ReadContext;
use crate::scan::dataset::Dataset;

/// Computes a query's calls on filtered genotypes with GPUs.
pub struct DeviceFilteredReader {
    readers: Vec<GenotypeReader>,
    /// For each call: its reader, and its index there.
    places: Vec<(usize, usize)>,
}

impl DeviceFilteredReader {
    /// A reader of `calls` on the genotypes, column `column`, for the row ranges `ranges`; `None` if there is no GPU that filters them.
    ///
    /// # Errors
    /// If the store lacks a filter's field, or with `vcz.backend = 'gpu'` an array cannot be decoded by a GPU.
    pub fn try_new(
        dataset: &Arc<Dataset>,
        context: &Arc<GenotypeContext>,
        column: usize,
        calls: &[FilteredCall],
        ranges: &[Range<u64>],
        reads: ReadContext<'_>,
    ) -> Result<Option<Self>> {
        if !reads.device.is_some_and(|device| device.filters_calls()) {
            return Ok(None);
        }
        let (groups, places) = by_filters(calls.to_vec());
        let mut readers = Vec::with_capacity(groups.len());
        for (filters, calls) in groups {
            let filters = FieldFilters::try_new(dataset, &filters)?;
            let reader =
                GenotypeReader::on_device(dataset, context, column, calls, filters, ranges, reads)?;
            let Some(reader) = reader else {
                return Ok(None);
            };
            readers.push(reader);
        }
        Ok(Some(Self { readers, places }))
    }

    /// Starts to read before any row is requested.
    pub fn start(&mut self) {
        self.readers.iter_mut().for_each(GenotypeReader::start);
    }

    /// For each call, its values for the rows of `range`, in pieces of one chunk each.
    ///
    /// # Errors
    /// If they cannot be read or counted.
    pub async fn rows(&mut self, range: Range<u64>) -> Result<Vec<Vec<ArrayRef>>> {
        let mut values = Vec::with_capacity(self.readers.len());
        for reader in &mut self.readers {
            values.push(reader.rows(range.clone()).await?);
        }
        let places = self.places.iter();
        // Each place is that of one call.
        Ok(places
            .map(|(reader, call)| std::mem::take(&mut values[*reader][*call]))
            .collect())
    }
}
