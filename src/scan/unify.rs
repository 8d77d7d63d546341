//! The columns of a table of several stores: arrays of the same name become one column. Types are widened if no value changes, lists of
//! calls have the largest number of values of any store, and an array that a store lacks is NULL in its rows.

use std::sync::Arc;

use super::dataset::Dataset;
use super::schema::{ColumnKind, ColumnSpec, column, element_type, in_table_order};
use super::stores::StoreColumn;
use super::value_error::ValueError;
use crate::error::{Result, VczError};
use crate::store::{ArrayMeta, ElementType};

/// The columns of a table, and for each store its columns for these.
pub struct Unified {
    /// The columns in table order.
    pub columns: Vec<ColumnSpec>,
    /// For each store, its column for each of the table's.
    pub places: Vec<Vec<Option<StoreColumn>>>,
}

/// The columns of `stores`, of which there is at least one, in table order.
///
/// # Errors
/// If arrays of the same name cannot be one column, or only some stores have genotypes; it names the array and both stores.
pub fn unify(stores: &[Arc<Dataset>]) -> Result<Unified> {
    // Each column with the index of the store in which it was first found.
    let mut found: Vec<(ColumnSpec, usize)> = Vec::new();
    for (at, store) in stores.iter().enumerate() {
        for spec in store.columns() {
            let known = found
                .iter_mut()
                .find(|(known, _)| known.array.name == spec.array.name);
            match known {
                Some((known, first)) => {
                    *known = both(known, spec).map_err(|reason| {
                        let other = stores[*first].store().location();
                        store.array_error(
                            &spec.array,
                            format!("{}, as it is in store '{other}'", &*reason),
                        )
                    })?;
                }
                None => found.push((spec.clone(), at)),
            }
        }
    }
    check_genotypes(stores, &found)?;
    let mut columns: Vec<ColumnSpec> = found.into_iter().map(|(spec, _)| spec).collect();
    in_table_order(&mut columns);
    let place = |store: &Dataset, spec: &ColumnSpec| {
        let column = store.column_index(&spec.array.name)?;
        Some(StoreColumn {
            column,
            differs: store.columns()[column].data_type != spec.data_type,
        })
    };
    let places = stores
        .iter()
        .map(|store| columns.iter().map(|spec| place(store, spec)).collect())
        .collect();
    Ok(Unified { columns, places })
}

/// Genotypes are never NULL, so either all stores have them or none.
fn check_genotypes(stores: &[Arc<Dataset>], found: &[(ColumnSpec, usize)]) -> Result<()> {
    let genotypes = found
        .iter()
        .find(|(spec, _)| spec.kind == ColumnKind::Genotype);
    let Some((spec, first)) = genotypes else {
        return Ok(());
    };
    let name = &spec.array.name;
    match stores
        .iter()
        .find(|store| store.column_index(name).is_none())
    {
        Some(store) => Err(VczError::Metadata {
            store: store.store().location().to_string(),
            what: format!("array '{name}'"),
            reason: format!(
                "the store has none, but store '{}' has; stores of one table have genotypes all or none",
                stores[*first].store().location()
            ),
        }),
        None => Ok(()),
    }
}

/// A column that can hold the values of both.
///
/// # Errors
/// The reason why there is none.
fn both(known: &ColumnSpec, other: &ColumnSpec) -> Result<ColumnSpec, ValueError> {
    if known.kind == other.kind && known.data_type == other.data_type {
        // The shapes may still differ, in K or in the lengths of lists.
        return with_shape(known, other, known.array.element);
    }
    let (a, b) = (known.array.element, other.array.element);
    let Some(element) = wider(a, b) else {
        return Err(format!("its values are {b}, and cannot be one column with {a}").into());
    };
    with_shape(known, other, element)
}

/// The column of both, of the type `element`.
fn with_shape(
    known: &ColumnSpec,
    other: &ColumnSpec,
    element: ElementType,
) -> Result<ColumnSpec, ValueError> {
    let (a, b) = (&known.array, &other.array);
    let refuse = || {
        ValueError::from(format!(
            "its shape is {:?}, and cannot be one column with {:?}",
            &b.shape, &a.shape
        ))
    };
    let is_call = a.name.starts_with("call_");
    // The number of values of a site, or of a call, may differ, and writers leave that axis out where it is 1 in the whole store.
    let fixed = if is_call { 2 } else { 1 };
    let (long, short) = if a.rank() >= b.rank() { (a, b) } else { (b, a) };
    let is_alike =
        long.rank() == short.rank() || (short.rank() == fixed && long.rank() == fixed + 1);
    if !is_alike || known.kind == ColumnKind::Genotype && a.shape.get(2) != b.shape.get(2) {
        return Err(match known.kind {
            ColumnKind::Genotype => format!(
                "its calls have {} copies, and cannot be one column with calls of {}; stores of one table have the same ploidy: convert one \
                 VCF of all contigs, which pads haploid calls, or make a table of the stores of each ploidy",
                b.shape.get(2).copied().unwrap_or_default(),
                a.shape.get(2).copied().unwrap_or_default()
            )
            .into(),
            _ => refuse(),
        });
    }
    let mut array = ArrayMeta::clone(long);
    array.element = element;
    let last = long.rank().saturating_sub(1);
    for axis in 1..long.rank() {
        let (one, other) = (
            long.shape[axis],
            short.shape.get(axis).copied().unwrap_or(1),
        );
        if one != other && (axis < last || axis < fixed) {
            return Err(refuse());
        }
        array.shape[axis] = one.max(other);
    }
    // Types and kinds are those of a store that has such an array.
    let spec = column(&Arc::new(array))?;
    let is_fixed = |kind| {
        matches!(
            kind,
            ColumnKind::Contig | ColumnKind::Position | ColumnKind::Filter | ColumnKind::Genotype
        )
    };
    if (is_fixed(known.kind) || is_fixed(other.kind)) && known.kind != other.kind {
        return Err(format!(
            "it is {:?}, and cannot be one column with {:?}",
            other.kind, known.kind
        )
        .into());
    }
    Ok(spec)
}

/// The type that holds all values of both; `None` if there is none.
fn wider(a: ElementType, b: ElementType) -> Option<ElementType> {
    use ElementType::{
        Float16, Float32, Float64, Int8, Int16, Int32, Int64, String, UInt8, UInt16, UInt32, UInt64,
    };
    if element_type(&a) == element_type(&b) {
        return Some(if a == b { a } else { String });
    }
    if a.is_float() && b.is_float() {
        let widest = [Float64, Float32, Float16];
        return widest.into_iter().find(|float| *float == a || *float == b);
    }
    if !a.is_integer() || !b.is_integer() {
        return None;
    }
    let is_signed = |element: ElementType| element_type(&element).is_signed_integer();
    let bits = |element: ElementType| element.size().unwrap_or(8) * 8;
    let (bits_a, bits_b) = (bits(a), bits(b));
    let (signed, needed) = match (is_signed(a), is_signed(b)) {
        (true, true) => (true, bits_a.max(bits_b)),
        (false, false) => (false, bits_a.max(bits_b)),
        // An unsigned type needs the next larger signed type.
        (true, false) => (true, bits_a.max(bits_b * 2)),
        (false, true) => (true, bits_b.max(bits_a * 2)),
    };
    match (signed, needed) {
        (true, 8) => Some(Int8),
        (true, 16) => Some(Int16),
        (true, 32) => Some(Int32),
        (true, 64) => Some(Int64),
        (false, 8) => Some(UInt8),
        (false, 16) => Some(UInt16),
        (false, 32) => Some(UInt32),
        (false, 64) => Some(UInt64),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ElementType::{
        Bool, Float32, Float64, Int8, Int16, Int32, Int64, String, UInt8, UInt32, UInt64, Unicode,
    };

    #[test]
    fn numbers_widen_where_no_value_changes() {
        for (a, b, wide) in [
            (Int8, Int8, Some(Int8)),
            (Int8, Int16, Some(Int16)),
            (Int32, Int8, Some(Int32)),
            (UInt8, Int8, Some(Int16)),
            (UInt32, Int32, Some(Int64)),
            (UInt8, UInt32, Some(UInt32)),
            (UInt64, Int8, None),
            (Float32, Float64, Some(Float64)),
            (Int32, Float64, None),
            (Bool, Int8, None),
            (Unicode(3), String, Some(String)),
            (Unicode(3), Unicode(5), Some(String)),
            (String, Int8, None),
        ] {
            assert_eq!(wider(a, b), wide, "{a} {b}");
            assert_eq!(wider(b, a), wide, "{b} {a}");
        }
    }
}
