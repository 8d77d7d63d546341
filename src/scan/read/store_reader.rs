//! [`StoreReader`]: reads one store for a scan partition, as the table's columns: values are cast to the table's types, and arrays that
//! the store lacks are NULL.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;

use arrow::array::{ArrayRef, new_null_array};
use arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err};

use super::columns::ColumnReader;
use super::device_filtered::DeviceFilteredReader;
use super::filtered::FilteredReader;
use super::fit::{fit, in_order};
use super::genotypes::GenotypeReader;
use crate::scan::chunks::open::ReadContext;
use crate::scan::plan::source::{ScanInput, VczSource};
use crate::scan::schema::ColumnKind;

/// Computes the calls on genotypes.
enum CallReader {
    /// Counts genotypes while decoding.
    Counted(Box<GenotypeReader>),
    /// The same, with GPUs that filter some calls by FORMAT fields.
    OnDevice(DeviceFilteredReader),
    /// Counts decoded genotypes, some of them filtered by FORMAT fields.
    Filtered(Box<FilteredReader>),
}

/// A column of the table.
enum TableColumn {
    /// With the store's type.
    Stored(Box<ColumnReader>),
    /// Cast to this type.
    Fitted(Box<ColumnReader>, DataType),
    /// Lists of filters, sorted by this order of the filters of all stores.
    Filters(Box<ColumnReader>, Vec<String>),
    /// NULLs of this type: the store has no such array.
    Absent(DataType),
}

/// Reads rows of one store.
pub struct StoreReader {
    columns: HashMap<usize, TableColumn>,
    calls: Option<CallReader>,
    /// For each call its type, if the type on the store's own genotypes may differ.
    call_types: Option<Vec<DataType>>,
}

impl StoreReader {
    /// A reader of the inputs of `source`, and of the table's columns `filtered`, for the row ranges `ranges` of its store `store`.
    ///
    /// # Errors
    /// With `vcz.backend = 'gpu'`, an array over samples that no GPU decodes; a call's filter by a field that the store lacks.
    pub fn try_new(
        source: &VczSource,
        store: usize,
        filtered: impl Iterator<Item = usize>,
        ranges: &[Range<u64>],
        context: ReadContext<'_>,
    ) -> Result<Self> {
        let stores = &source.table.stores;
        let Some(member) = stores.members().get(store) else {
            return exec_err!("the table has no store number {store}");
        };
        let dataset = &member.dataset;
        let mut columns = HashMap::new();
        let mut calls = Vec::new();
        let mut call_types = Vec::new();
        let mut read = filtered.collect::<Vec<_>>();
        for (input, field) in source.inputs.iter().zip(source.input_schema.fields()) {
            match input {
                ScanInput::Array(column) => read.push(*column),
                ScanInput::Call(call) => {
                    calls.push(call.clone());
                    call_types.push(field.data_type().clone());
                }
            }
        }
        for column in read {
            if let Entry::Vacant(entry) = columns.entry(column) {
                let data_type = &stores.columns()[column].data_type;
                entry.insert(match &member.columns[column] {
                    Some(place) => {
                        let reader = ColumnReader::try_new(dataset, place.column, ranges, context)?;
                        let is_filters = stores.columns()[column].kind == ColumnKind::Filter;
                        match place.differs {
                            true => TableColumn::Fitted(Box::new(reader), data_type.clone()),
                            false if is_filters && member.reorders_filters => {
                                TableColumn::Filters(Box::new(reader), stores.filters().to_vec())
                            }
                            false => TableColumn::Stored(Box::new(reader)),
                        }
                    }
                    None => TableColumn::Absent(data_type.clone()),
                });
            }
        }
        let genotypes = stores
            .column_index("call_genotype")
            .and_then(|column| member.columns[column].as_ref());
        let (calls, differ) = match (calls.is_empty(), genotypes) {
            (true, _) => (None, false),
            (false, None) => return exec_err!("the store has no call_genotype"),
            (false, Some(place)) => {
                let (column, samples) = (place.column, &source.table.context);
                let reader = if calls.iter().all(|call| call.filters.is_empty()) {
                    let calls = calls.into_iter().map(|call| call.call).collect();
                    let reader =
                        GenotypeReader::try_new(dataset, samples, column, calls, ranges, context)?;
                    CallReader::Counted(Box::new(reader))
                } else {
                    let reader = DeviceFilteredReader::try_new(
                        dataset, samples, column, &calls, ranges, context,
                    )?;
                    match reader {
                        Some(reader) => CallReader::OnDevice(reader),
                        None => {
                            let reader = FilteredReader::try_new(
                                dataset, samples, column, calls, ranges, context,
                            )?;
                            CallReader::Filtered(Box::new(reader))
                        }
                    }
                };
                (Some(reader), place.differs)
            }
        };
        Ok(Self {
            columns,
            calls,
            call_types: differ.then_some(call_types),
        })
    }

    /// Starts to read before any row is requested.
    pub fn start(&mut self) {
        // Genotypes first, because they take longest.
        match &mut self.calls {
            Some(CallReader::Counted(reader)) => reader.start(),
            Some(CallReader::OnDevice(reader)) => reader.start(),
            Some(CallReader::Filtered(reader)) => reader.start(),
            None => {}
        }
        for column in self.columns.values_mut() {
            match column {
                TableColumn::Stored(reader)
                | TableColumn::Fitted(reader, _)
                | TableColumn::Filters(reader, _) => reader.start(),
                TableColumn::Absent(_) => {}
            }
        }
    }

    /// The values of the table's column `column` in the store's rows `rows`, in pieces.
    ///
    /// # Errors
    /// If it cannot be read or decoded.
    pub async fn column(&mut self, column: usize, rows: Range<u64>) -> Result<Vec<ArrayRef>> {
        match self.columns.get_mut(&column) {
            Some(TableColumn::Stored(reader)) => reader.rows(rows).await,
            Some(TableColumn::Fitted(reader, data_type)) => {
                let pieces = reader.rows(rows).await?;
                pieces.iter().map(|piece| fit(piece, data_type)).collect()
            }
            Some(TableColumn::Filters(reader, order)) => {
                let pieces = reader.rows(rows).await?;
                Ok(pieces.iter().map(|piece| in_order(piece, order)).collect())
            }
            Some(TableColumn::Absent(data_type)) => Ok(vec![new_null_array(
                data_type,
                (rows.end - rows.start) as usize,
            )]),
            None => exec_err!("no reader of column {column}"),
        }
    }

    /// For each call on genotypes, its values in the store's rows `rows`, in pieces.
    ///
    /// # Errors
    /// If they cannot be read or counted.
    pub async fn calls(&mut self, rows: Range<u64>) -> Result<Vec<Vec<ArrayRef>>> {
        let calls = match &mut self.calls {
            Some(CallReader::Counted(reader)) => reader.rows(rows).await?,
            Some(CallReader::OnDevice(reader)) => reader.rows(rows).await?,
            Some(CallReader::Filtered(reader)) => reader.rows(rows).await?,
            None => return Ok(vec![]),
        };
        let Some(types) = &self.call_types else {
            return Ok(calls);
        };
        let calls = calls.iter().zip(types);
        calls
            .map(|(pieces, data_type)| pieces.iter().map(|piece| fit(piece, data_type)).collect())
            .collect()
    }
}
