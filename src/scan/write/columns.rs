//! [`ColumnPlan`]: the array that a column of the query becomes.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use datafusion::common::{Result, plan_err};

use super::plan_tables::PlanTables;
use crate::error::VczError;
use crate::store::write::{Compression, NewArray};
use crate::store::{ElementType, TickUnit, TimeType, ZarrFormat};

/// Variants in a chunk, as bio2zarr has it.
pub const VARIANTS_CHUNK: u64 = 1000;
/// Samples in a chunk, as bio2zarr has it.
pub const SAMPLES_CHUNK: u64 = 10_000;

/// How the values of a column become elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Names of contigs become indices into `contig_id`.
    Contig,
    /// Positions, never NULL.
    Position,
    /// Lists of names of filters become rows of booleans over `filter_id`.
    Filter,
    /// VCZ's own codes of genotypes, never NULL.
    Genotype,
    /// One value a row, where NULL is missing.
    Scalar,
    /// Values in lists of one length, where NULL is missing or fill.
    Nested,
    /// Values in lists of different lengths, which are padded with fill.
    List,
}

/// A column and its array. The array of lists gets its width when all rows are known.
#[derive(Debug, Clone)]
pub struct ColumnPlan {
    /// The column's place in the query.
    pub at: usize,
    /// How its values become elements.
    pub role: Role,
    /// The array.
    pub array: NewArray,
}

/// What the arrays have in common.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// The Zarr format.
    pub format: ZarrFormat,
    /// Variants in a chunk.
    pub variants_chunk: u64,
    /// Samples in a chunk.
    pub samples_chunk: u64,
    /// The codec.
    pub compression: Compression,
    /// Number of contigs of the new store.
    pub n_contigs: usize,
    /// Number of filters of the new store.
    pub n_filters: usize,
}

impl Layout {
    /// The most elements of a chunk along a dimension other than variants.
    pub fn chunk_of(&self, dimension: &str) -> u64 {
        match dimension {
            "samples" => self.samples_chunk,
            _ => SAMPLES_CHUNK,
        }
    }
}

/// The arrays of the columns in `schema`, in the query's order.
///
/// # Errors
/// If a column's type has no place in a VCZ store, or two columns would be the same array.
pub fn plan_columns(
    schema: &Schema,
    layout: Layout,
    tables: &PlanTables,
) -> Result<Vec<ColumnPlan>> {
    let mut plans: Vec<ColumnPlan> = Vec::with_capacity(schema.fields().len());
    for (at, field) in schema.fields().iter().enumerate() {
        let plan = plan_column(at, field, layout, tables)?;
        let name = &plan.array.name;
        if plans.iter().any(|other| other.array.name == *name) {
            return plan_err!(
                "two columns of the query would be the array '{name}'; give one of them another name with AS"
            );
        }
        plans.push(plan);
    }
    Ok(plans)
}

/// The name of the array of a column: its own if it is one of VCZ's, else `variant_…`.
pub fn array_name(column: &str) -> String {
    match column.starts_with("variant_") || column.starts_with("call_") {
        true => column.to_string(),
        false => format!("variant_{column}"),
    }
}

fn plan_column(
    at: usize,
    field: &Field,
    layout: Layout,
    tables: &PlanTables,
) -> Result<ColumnPlan> {
    let name = array_name(field.name());
    let column = field.name();
    let (mut sizes, leaf, is_list) = layers(column, field.data_type())?;
    let of_calls = name.starts_with("call_");
    let refuse = |expected: &str| {
        plan_err!(
            "column '{column}' must be {expected}, found {}",
            field.data_type()
        )
    };
    let (role, element) = match name.as_str() {
        "variant_contig" if leaf.is_string() && sizes.is_empty() && !is_list => {
            (Role::Contig, smallest_index(layout.n_contigs))
        }
        "variant_contig" => return refuse("the names of contigs"),
        "variant_position" if leaf.is_integer() && sizes.is_empty() && !is_list => {
            (Role::Position, element_of(column, &leaf)?)
        }
        "variant_position" => return refuse("whole numbers"),
        "variant_filter" if leaf.is_string() && is_list => {
            sizes = vec![layout.n_filters as u64];
            (Role::Filter, ElementType::Bool)
        }
        "variant_filter" => return refuse("a list of the names of filters"),
        "variant_allele" if !leaf.is_string() || !is_list => return refuse("a list of alleles"),
        "variant_length" if !leaf.is_integer() || !sizes.is_empty() || is_list => {
            return refuse("whole numbers");
        }
        "call_genotype" if leaf.is_signed_integer() && sizes.len() == 2 => {
            (Role::Genotype, element_of(column, &leaf)?)
        }
        "call_genotype" => return refuse("genotypes: lists of samples of lists of whole numbers"),
        _ if of_calls && (is_list || sizes.is_empty() || sizes.len() > 2) => {
            return refuse("a list with one value, or one list of a fixed size, for each sample");
        }
        _ if is_list => (Role::List, element_of(column, &leaf)?),
        _ if sizes.is_empty() => (Role::Scalar, element_of(column, &leaf)?),
        _ => (Role::Nested, element_of(column, &leaf)?),
    };
    let known = tables.array(&name);
    if role == Role::List {
        let width = known.and_then(|array| array.shape.get(1).copied());
        sizes = vec![width.unwrap_or(0)];
    }
    let mut chunks = vec![layout.variants_chunk];
    chunks.extend(sizes.iter().enumerate().map(|(axis, &size)| {
        let most = match of_calls && axis == 0 {
            true => layout.samples_chunk,
            false => size,
        };
        size.min(most).max(1)
    }));
    let same_shape = known.filter(|array| {
        let rest = array.shape.get(1..).unwrap_or_default();
        array.dimensions.len() == sizes.len() + 1
            && rest.len() == sizes.len()
            && rest
                .iter()
                .zip(&sizes)
                .enumerate()
                .all(|(axis, (one, other))| one == other || (of_calls && axis == 0))
    });
    let dimensions = match same_shape {
        Some(array) => array.dimensions.clone(),
        None => dimensions(&name, sizes.len()),
    };
    let mut attributes = known.map_or_else(Default::default, |array| array.attributes.clone());
    attributes.remove("_ARRAY_DIMENSIONS");
    let array = NewArray {
        name,
        format: layout.format,
        element,
        row_shape: sizes,
        chunks,
        dimensions,
        attributes,
        compression: layout.compression,
    };
    let array = array
        .checked()
        .map_err(|reason| VczError::Invalid(format!("column '{column}': {reason}")))?;
    Ok(ColumnPlan { at, role, array })
}

impl ColumnPlan {
    /// The plan of a column of lists, of which the longest has `longest` values.
    ///
    /// # Errors
    /// If chunks of such lists are too large.
    pub fn with_width(&self, longest: usize) -> Result<Self> {
        let mut plan = self.clone();
        let width = plan
            .array
            .row_shape
            .first()
            .map_or(0, |&width| width)
            .max(longest as u64);
        if plan.array.row_shape != [width] {
            // Another length than the dimension of this name has elsewhere.
            plan.array.dimensions =
                vec!["variants".to_string(), format!("{}_dim", plan.array.name)];
        }
        plan.array.row_shape = vec![width];
        plan.array.chunks = vec![plan.array.chunks[0], width.max(1)];
        let name = plan.array.name.clone();
        plan.array = plan
            .array
            .checked()
            .map_err(|reason| VczError::Invalid(format!("array '{name}': {reason}")))?;
        Ok(plan)
    }
}

/// The sizes of the lists around a value, outermost first, the value's type, and whether it is in a list of any length.
fn layers(column: &str, data_type: &DataType) -> Result<(Vec<u64>, DataType, bool)> {
    let mut sizes = vec![];
    let mut at = data_type;
    while let DataType::FixedSizeList(item, size) = at {
        sizes.push(u64::try_from(*size).unwrap_or(0));
        at = item.data_type();
    }
    match at {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
            if sizes.is_empty() && !item.data_type().is_nested() =>
        {
            Ok((vec![], item.data_type().clone(), true))
        }
        DataType::Dictionary(_, leaf) if !leaf.is_nested() => {
            Ok((sizes, leaf.as_ref().clone(), false))
        }
        leaf if !leaf.is_nested() => Ok((sizes, leaf.clone(), false)),
        _ => plan_err!(
            "column '{column}' of type {data_type} cannot be written as an array; select the parts of a struct as columns of their own \
             (column['name'] AS variant_name), and elements of lists of lists; lists of lists of one length can be written as fixed-size lists, \
             such as genotypes of 2 samples: arrow_cast(column, 'FixedSizeList(2 x FixedSizeList(2 x Int8))')"
        ),
    }
}

/// The element type of values of this type. Unsigned numbers get the next wider signed type, as missing is −1.
fn element_of(column: &str, data_type: &DataType) -> Result<ElementType> {
    Ok(match data_type {
        DataType::Boolean => ElementType::Bool,
        DataType::Int8 => ElementType::Int8,
        DataType::Int16 | DataType::UInt8 => ElementType::Int16,
        DataType::Int32 | DataType::UInt16 => ElementType::Int32,
        DataType::Int64 | DataType::UInt32 | DataType::UInt64 => ElementType::Int64,
        DataType::Float16 => ElementType::Float16,
        DataType::Float32 => ElementType::Float32,
        DataType::Float64 => ElementType::Float64,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => ElementType::String,
        DataType::Date32 | DataType::Date64 => ElementType::Time(time_of(TimeUnit::Second, false)),
        DataType::Timestamp(unit, _) => ElementType::Time(time_of(*unit, false)),
        DataType::Duration(unit) => ElementType::Time(time_of(*unit, true)),
        DataType::Dictionary(_, values) => return element_of(column, values),
        _ => {
            return plan_err!(
                "column '{column}' of type {data_type} cannot be written as an array; cast it to a number, a boolean or text, such as \
                 CAST({column} AS DOUBLE)"
            );
        }
    })
}

/// The element type of points in time, or of spans, in a unit of Arrow's.
fn time_of(unit: TimeUnit, is_span: bool) -> TimeType {
    let unit = match unit {
        TimeUnit::Second => TickUnit::Second,
        TimeUnit::Millisecond => TickUnit::Millisecond,
        TimeUnit::Microsecond => TickUnit::Microsecond,
        TimeUnit::Nanosecond => TickUnit::Nanosecond,
    };
    TimeType {
        is_span,
        unit,
        ticks: 1,
    }
}

/// The smallest signed integers that hold the indices of `n` names.
fn smallest_index(n: usize) -> ElementType {
    match n.saturating_sub(1) {
        last if i8::try_from(last).is_ok() => ElementType::Int8,
        last if i16::try_from(last).is_ok() => ElementType::Int16,
        last if i32::try_from(last).is_ok() => ElementType::Int32,
        _ => ElementType::Int64,
    }
}

/// Names of the dimensions of an array that no table has.
fn dimensions(name: &str, inner: usize) -> Vec<String> {
    let own = |axis: usize| match axis {
        0 => format!("{name}_dim"),
        axis => format!("{name}_dim_{axis}"),
    };
    let mut names = vec!["variants".to_string()];
    match (name, inner) {
        ("variant_allele", 1) => names.push("alleles".to_string()),
        ("variant_filter", 1) => names.push("filters".to_string()),
        ("call_genotype" | "call_genotype_mask", 2) => {
            names.extend(["samples".to_string(), "ploidy".to_string()]);
        }
        _ if name.starts_with("call_") => {
            names.push("samples".to_string());
            names.extend((1..inner).map(|axis| own(axis - 1)));
        }
        _ => names.extend((0..inner).map(own)),
    }
    names
}

/// The array `name` over one dimension of the same name, such as `contig_id` over `contigs`.
pub fn plain_array(
    name: &str,
    dimension: &str,
    element: ElementType,
    length: u64,
    layout: Layout,
) -> NewArray {
    NewArray {
        name: name.to_string(),
        format: layout.format,
        element,
        row_shape: vec![],
        chunks: vec![length.clamp(1, layout.chunk_of(dimension))],
        dimensions: vec![dimension.to_string()],
        attributes: Default::default(),
        compression: layout.compression,
    }
}

/// The number of samples of the columns of calls; `None` if there are none.
///
/// # Errors
/// If they have different numbers.
pub fn n_samples(plans: &[ColumnPlan]) -> Result<Option<u64>> {
    let mut found: Option<(&str, u64)> = None;
    for plan in plans {
        let array = &plan.array;
        let (true, Some(&n)) = (array.name.starts_with("call_"), array.row_shape.first()) else {
            continue;
        };
        match found {
            Some((first, other)) if other != n => {
                return plan_err!(
                    "the columns '{first}' and '{}' have {other} and {n} samples; select the same samples of both with select_samples",
                    array.name
                );
            }
            _ => found = Some((&array.name, n)),
        }
    }
    Ok(found.map(|(_, n)| n))
}

/// Columns of `schema` that a statement needs: `variant_contig` and `variant_position`.
///
/// # Errors
/// If one is absent.
pub fn site_columns(schema: &Arc<Schema>) -> Result<(usize, usize)> {
    let place = |name: &str| match schema.index_of(name) {
        Ok(at) => Ok(at),
        Err(_) => plan_err!(
            "a VCZ store has variant_contig and variant_position, and the query lacks '{name}'; select it, too. New arrays of a store that is \
             there are written with the option 'vcz.mode' 'add'"
        ),
    };
    Ok((place("variant_contig")?, place("variant_position")?))
}
