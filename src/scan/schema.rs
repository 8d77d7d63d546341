//! The columns of a table: which VCZ arrays become columns, with which types and in which order.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, TimeUnit};

use crate::error::{Result, VczError};
use crate::scan::calls::results::list_size;
use crate::scan::value_error::ValueError;
use crate::store::{ArrayMeta, ElementType, Store, TickUnit, TimeType};

/// Field-metadata key of the VCF field of a list of integers, e.g. `INFO/AC`. Statistics reject such a list, because it
/// does not hold the allele counts of a site.
pub const FIELD_KEY: &str = "vcz.field";

/// How an array's elements are represented in an Arrow column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnKind {
    /// `variant_contig`: an index into `contig_id`, returned as the contig's name.
    Contig,
    /// `variant_position`: Int32 (Int64 where the array is wider), never NULL.
    Position,
    /// `variant_filter`: a list of the names of the filters that apply.
    Filter,
    /// A 1-D array: missing is NULL.
    Scalar,
    /// A 2-D `variant_X`: a list per variant, fill trimmed, missing NULL.
    List,
    /// `call_genotype`: the store's own codes, non-null.
    Genotype,
    /// Any other array over variants and more axes: nested fixed-size lists, missing and fill NULL.
    Nested,
}

/// One column of the table: an array and its representation.
#[derive(Debug, Clone)]
pub struct ColumnSpec {
    /// The array behind the column.
    pub array: Arc<ArrayMeta>,
    /// How its elements are represented.
    pub kind: ColumnKind,
    /// The Arrow type.
    pub data_type: DataType,
    /// Whether every NaN is a missing value, as other writers than VCF Zarr's have it.
    pub nan_is_missing: bool,
}

impl ColumnSpec {
    /// Elements of one row: the product of the axes after variants.
    pub fn row_elements(&self) -> usize {
        self.array.shape[1..]
            .iter()
            .fold(1u64, |product, &len| product.saturating_mul(len)) as usize
    }

    /// Bytes of one decoded row; variable-length strings count 16 bytes each.
    pub fn row_bytes(&self) -> usize {
        self.row_elements()
            .saturating_mul(self.array.element.size().unwrap_or(16))
    }

    /// Whether the column has no samples axis, so that reading it for a filter is cheap.
    pub fn is_site_level(&self) -> bool {
        !self.array.name.starts_with("call_") && self.kind != ColumnKind::Nested
    }

    /// Number of samples of a FORMAT field: an array over variants and samples, and perhaps the values of a call.
    pub fn samples(&self) -> Option<usize> {
        let is_format = self.kind == ColumnKind::Nested && self.array.name.starts_with("call_");
        let samples = self.array.shape.get(1).filter(|_| is_format)?;
        usize::try_from(*samples).ok()
    }

    /// Values of a call of a FORMAT field that has several; `None` of others.
    pub fn values_per_call(&self) -> Option<usize> {
        match (self.samples(), &self.array.shape[..]) {
            (Some(_), [_, _, values]) => usize::try_from(*values).ok(),
            _ => None,
        }
    }

    /// The Arrow field. Contig, position and genotypes are never NULL.
    pub fn field(&self) -> Field {
        let nullable = !matches!(
            self.kind,
            ColumnKind::Contig | ColumnKind::Position | ColumnKind::Genotype
        );
        let field = Field::new(&self.array.name, self.data_type.clone(), nullable);
        match self.vcf_field() {
            Some(name) => field.with_metadata([(FIELD_KEY.to_string(), name)].into()),
            None => field,
        }
    }

    /// The VCF field of a list of integers (`INFO/AC`, `FORMAT/AD`), which could be mistaken for allele counts.
    fn vcf_field(&self) -> Option<String> {
        let is_integer_list = matches!(self.kind, ColumnKind::List | ColumnKind::Nested)
            && is_integer(&self.array.element);
        let name = &self.array.name;
        let info = || Some(format!("INFO/{}", name.strip_prefix("variant_")?));
        let format = || Some(format!("FORMAT/{}", name.strip_prefix("call_")?));
        is_integer_list.then(|| info().or_else(format)).flatten()
    }
}

/// The Arrow type of one element where missing is NULL.
pub fn element_type(element: &ElementType) -> DataType {
    match element {
        ElementType::Bool => DataType::Boolean,
        ElementType::Int8 => DataType::Int8,
        ElementType::Int16 => DataType::Int16,
        ElementType::Int32 => DataType::Int32,
        ElementType::Int64 => DataType::Int64,
        ElementType::UInt8 => DataType::UInt8,
        ElementType::UInt16 => DataType::UInt16,
        ElementType::UInt32 => DataType::UInt32,
        ElementType::UInt64 => DataType::UInt64,
        ElementType::Float16 => DataType::Float16,
        ElementType::Float32 => DataType::Float32,
        ElementType::Float64 => DataType::Float64,
        ElementType::Time(time) => time_type(time),
        ElementType::Unicode(_) | ElementType::Bytes(_) | ElementType::String => DataType::Utf8View,
    }
}

/// The Arrow type of points in time and of spans.
pub fn time_type(time: &TimeType) -> DataType {
    let unit = match time.unit {
        TickUnit::Second => TimeUnit::Second,
        TickUnit::Millisecond => TimeUnit::Millisecond,
        TickUnit::Microsecond => TimeUnit::Microsecond,
        TickUnit::Nanosecond => TimeUnit::Nanosecond,
    };
    match time.is_span {
        true => DataType::Duration(unit),
        false => DataType::Timestamp(unit, None),
    }
}

fn is_integer(element: &ElementType) -> bool {
    element_type(element).is_integer()
}

/// The columns of a store in table order: sites first, then the other per-variant arrays, then the calls.
///
/// Arrays whose first axis is not `variants` are not columns. An array whose length disagrees with `variant_position`
/// is an error that names both.
pub fn columns(store: &Store) -> Result<(u64, Vec<ColumnSpec>)> {
    let refuse = |what: &str, reason: String| VczError::Metadata {
        store: store.location().to_string(),
        what: format!("array '{what}'"),
        reason,
    };
    for name in ["variant_contig", "variant_position"] {
        if let Some(reason) = store.unreadable().get(name) {
            return Err(refuse(name, reason.to_string()));
        }
    }
    let Some(position) = store.array("variant_position") else {
        return Err(VczError::NotAStore {
            store: store.location().to_string(),
            reason: "it has no array 'variant_position', which every VCZ store has".to_string(),
        });
    };
    let n_variants = position.shape.first().copied().unwrap_or(0);
    let mut specs = Vec::new();
    for array in store.arrays() {
        let by_name = array.name.starts_with("variant_") || array.name.starts_with("call_");
        let over_variants = match array.dimensions.first() {
            Some(dimension) => dimension == "variants",
            None => by_name,
        };
        if !over_variants {
            continue;
        }
        let length = array.shape.first().copied();
        if length != Some(n_variants) {
            return Err(refuse(
                &array.name,
                format!(
                    "its first axis has {} variants, but variant_position has {n_variants}; the store is damaged",
                    length.map_or("no".to_string(), |n| n.to_string())
                ),
            ));
        }
        let spec = column(array).map_err(|reason| refuse(&array.name, reason.into()))?;
        specs.push(ColumnSpec {
            nan_is_missing: !store.follows_vcf_zarr(),
            ..spec
        });
    }
    check_samples(store, &specs).map_err(|(name, reason)| refuse(&name, reason.into()))?;
    in_table_order(&mut specs);
    Ok((n_variants, specs))
}

/// Sorts columns into table order.
pub fn in_table_order(specs: &mut [ColumnSpec]) {
    specs.sort_by_key(|spec| (table_order(&spec.array.name), spec.array.name.clone()));
}

fn table_order(name: &str) -> usize {
    const FIRST: [&str; 6] = [
        "variant_contig",
        "variant_position",
        "variant_id",
        "variant_allele",
        "variant_quality",
        "variant_filter",
    ];
    match FIRST.iter().position(|first| *first == name) {
        Some(at) => at,
        None if name == "call_genotype" => FIRST.len() + 1,
        None if name.starts_with("call_") => FIRST.len() + 2,
        None => FIRST.len(),
    }
}

/// The column of an array over variants.
///
/// # Errors
/// The reason, if an array of this name must have another type or shape.
pub fn column(array: &Arc<ArrayMeta>) -> Result<ColumnSpec, ValueError> {
    let rank = array.shape.len();
    let item = element_type(&array.element);
    let expect = |wanted: bool, what: &str| {
        if wanted {
            Ok(())
        } else {
            Err(ValueError::from(format!(
                "expected {what}, found {} with {rank} axes",
                array.element
            )))
        }
    };
    let (kind, data_type) = match array.name.as_str() {
        "variant_contig" => {
            expect(
                is_integer(&array.element) && rank == 1,
                "integers over variants",
            )?;
            (ColumnKind::Contig, DataType::Utf8View)
        }
        "variant_position" => {
            expect(
                is_integer(&array.element) && rank == 1,
                "integers over variants",
            )?;
            let wide = matches!(item, DataType::Int64 | DataType::UInt32 | DataType::UInt64);
            (
                ColumnKind::Position,
                if wide {
                    DataType::Int64
                } else {
                    DataType::Int32
                },
            )
        }
        "variant_filter" if rank == 2 && item == DataType::Boolean => {
            (ColumnKind::Filter, DataType::new_list(DataType::Utf8, true))
        }
        "call_genotype" => {
            expect(
                item.is_signed_integer() && rank == 3,
                "signed integers over variants, samples and ploidy",
            )?;
            (ColumnKind::Genotype, nested_type(array, item, false)?)
        }
        _ if rank == 1 => (ColumnKind::Scalar, item),
        // Times have no fill value that would end a list.
        name if rank == 2 && !name.starts_with("call_") && !item.is_temporal() => {
            let item = if item == DataType::Utf8View {
                DataType::Utf8
            } else {
                item
            };
            (ColumnKind::List, DataType::new_list(item, true))
        }
        _ => (ColumnKind::Nested, nested_type(array, item, true)?),
    };
    Ok(ColumnSpec {
        array: Arc::clone(array),
        kind,
        data_type,
        nan_is_missing: false,
    })
}

/// Fixed-size lists around the element, one per axis after variants, outermost first.
fn nested_type(array: &ArrayMeta, item: DataType, nullable: bool) -> Result<DataType, ValueError> {
    let mut data_type = item;
    let mut is_item = true;
    for &len in array.shape[1..].iter().rev() {
        let size = usize::try_from(len)
            .ok()
            .and_then(|len| list_size(len).ok())
            .ok_or_else(|| {
                ValueError::from(format!(
                    "an axis of {len} elements is more than a fixed-size list can hold"
                ))
            })?;
        data_type = DataType::FixedSizeList(
            Arc::new(Field::new_list_field(data_type, nullable && is_item)),
            size,
        );
        is_item = false;
    }
    Ok(data_type)
}

/// Every call array has as many samples as `sample_id`.
fn check_samples(store: &Store, specs: &[ColumnSpec]) -> Result<(), (String, ValueError)> {
    let Some(expected) = store
        .array("sample_id")
        .and_then(|array| array.shape.first().copied())
    else {
        return Ok(());
    };
    for spec in specs
        .iter()
        .filter(|spec| spec.array.name.starts_with("call_"))
    {
        if spec.array.shape.get(1) != Some(&expected) && !spec.array.shape.is_empty() {
            let found = spec
                .array
                .shape
                .get(1)
                .map_or("no".to_string(), |n| n.to_string());
            let reason = format!(
                "its second axis has {found} samples, but sample_id has {expected}; the store is damaged"
            );
            return Err((spec.array.name.clone(), reason.into()));
        }
    }
    Ok(())
}
