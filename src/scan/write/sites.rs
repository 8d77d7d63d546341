//! [`Sites`]: the columns that say where variants are, and the region index of what they say.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::buffer::Buffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, SchemaRef};
use datafusion::common::Result;

use super::columns::{Layout, plain_array, site_columns};
use super::names::WrittenNames;
use super::other_arrays::WholeArray;
use super::regions::{FIELDS, Regions};
use super::values::contig_codes;
use crate::codec::ChunkData;
use crate::store::ElementType;

/// The columns that say where variants are.
pub struct Sites {
    contig: usize,
    position: usize,
    length: Option<usize>,
    allele: Option<usize>,
}

impl Sites {
    /// Those of a query.
    ///
    /// # Errors
    /// If the contig or the position is absent.
    pub fn of(schema: &SchemaRef) -> Result<Self> {
        let (contig, position) = site_columns(schema)?;
        let place = |name: &str, fits: fn(&DataType) -> bool| {
            let at = schema.index_of(name).ok()?;
            fits(schema.field(at).data_type()).then_some(at)
        };
        Ok(Self {
            contig,
            position,
            length: place("variant_length", DataType::is_integer),
            allele: place("variant_allele", |data_type| {
                matches!(data_type, DataType::List(_))
            }),
        })
    }

    /// Whether it is known where variants end, which a region index says.
    pub fn has_ends(&self) -> bool {
        self.length.is_some() || self.allele.is_some()
    }

    /// Adds the variants of a batch to `regions`.
    ///
    /// # Errors
    /// If a contig is unknown, or a variant is out of order where that is an error.
    pub fn follow(
        &self,
        batch: &RecordBatch,
        names: &WrittenNames,
        regions: &mut Regions,
    ) -> Result<()> {
        let contigs = contig_codes("variant_contig", batch.column(self.contig), names)?;
        let positions = cast(batch.column(self.position), &DataType::Int64)?;
        let positions = positions.as_primitive::<Int64Type>().values();
        let mut lengths = vec![1; batch.num_rows()];
        if let Some(at) = self.allele {
            reference_lengths(batch.column(at), &mut lengths)?;
        }
        if let Some(at) = self.length {
            let known = cast(batch.column(at), &DataType::Int64)?;
            let known = known.as_primitive::<Int64Type>();
            for (length, known) in lengths.iter_mut().zip(known) {
                *length = known.unwrap_or(*length);
            }
        }
        let ends = positions
            .iter()
            .zip(&lengths)
            .map(|(position, length)| position.saturating_add(length - 1));
        regions.push(&contigs, positions, ends)
    }
}

/// Sets the length of each variant to that of its reference allele.
fn reference_lengths(alleles: &ArrayRef, lengths: &mut [i64]) -> Result<()> {
    let alleles = alleles.as_list::<i32>();
    let items = cast(alleles.values(), &DataType::Utf8View)?;
    let items = items.as_string_view();
    for (row, length) in lengths.iter_mut().enumerate() {
        let first = alleles.value_offsets()[row] as usize;
        let is_there = alleles.is_valid(row) && alleles.value_length(row) > 0;
        if is_there && items.is_valid(first) {
            *length = items.value(first).len() as i64;
        }
    }
    Ok(())
}

/// The array `region_index` with these rows.
pub fn region_index(rows: &[[i64; FIELDS]], layout: Layout) -> WholeArray {
    let is_narrow = rows
        .iter()
        .flatten()
        .all(|&value| i32::try_from(value).is_ok());
    let values = rows.iter().flatten();
    let (element, elements) = match is_narrow {
        true => (
            ElementType::Int32,
            Buffer::from_vec(values.map(|&value| value as i32).collect::<Vec<_>>()),
        ),
        false => (
            ElementType::Int64,
            Buffer::from_vec(values.copied().collect::<Vec<_>>()),
        ),
    };
    let n = rows.len() as u64;
    let mut array = plain_array("region_index", "region_index_values", element, n, layout);
    array.row_shape = vec![FIELDS as u64];
    array.chunks = vec![n.max(1), FIELDS as u64];
    array.dimensions.push("region_index_fields".to_string());
    WholeArray {
        array,
        elements: ChunkData::Fixed(elements),
        rows: rows.len(),
    }
}
