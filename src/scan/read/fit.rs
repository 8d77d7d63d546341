//! [`fit`]: casts values of one store to the column type of a table of several stores: wider numbers, and longer lists of calls. The
//! values are those that one store of all the data would give, with NULL where it would have VCZ's fill.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeListArray, ListArray, ListBuilder, StringBuilder,
    UInt64Array,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, exec_err};

/// `values` as `target`, the type of the table's column.
///
/// # Errors
/// If the type does not fit, which unifying the columns has excluded.
pub fn fit(values: &ArrayRef, target: &DataType) -> Result<ArrayRef> {
    match (values.data_type(), target) {
        (known, target) if known == target => Ok(Arc::clone(values)),
        (DataType::FixedSizeList(_, from), DataType::FixedSizeList(item, to)) => {
            let lists = values.as_fixed_size_list();
            let longer = longer(lists.values(), lists.len(), *from, *to)?;
            fixed_size_list(item, *to, &longer, lists.len())
        }
        // A single value per call becomes the first of several.
        (_, DataType::FixedSizeList(item, to)) => {
            let longer = longer(values, values.len(), 1, *to)?;
            fixed_size_list(item, *to, &longer, values.len())
        }
        (DataType::List(_), DataType::List(item)) => {
            let lists = values.as_list::<i32>();
            let items = fit(lists.values(), item.data_type())?;
            Ok(Arc::new(ListArray::try_new(
                Arc::clone(item),
                lists.offsets().clone(),
                items,
                lists.nulls().cloned(),
            )?))
        }
        // A single value per site becomes a list of one.
        (_, DataType::List(item)) => {
            let items = fit(values, item.data_type())?;
            let offsets = OffsetBuffer::from_repeated_length(1, values.len());
            Ok(Arc::new(ListArray::try_new(
                Arc::clone(item),
                offsets,
                items,
                None,
            )?))
        }
        _ => Ok(cast(values, target)?),
    }
}

/// Lists of names, each in the order of `order`.
pub fn in_order(lists: &ArrayRef, order: &[String]) -> ArrayRef {
    let lists = lists.as_list::<i32>();
    let mut builder = ListBuilder::new(StringBuilder::new());
    for row in lists.iter() {
        if let Some(names) = &row {
            let names = names.as_string::<i32>();
            let place = |name: &&str| order.iter().position(|known| known == name);
            let mut names: Vec<&str> = names.iter().flatten().collect();
            names.sort_by_key(place);
            names
                .into_iter()
                .for_each(|name| builder.values().append_value(name));
        }
        builder.append(row.is_some());
    }
    Arc::new(builder.finish())
}

fn fixed_size_list(item: &FieldRef, size: i32, items: &ArrayRef, rows: usize) -> Result<ArrayRef> {
    let items = fit(items, item.data_type())?;
    let lists = FixedSizeListArray::try_new_with_length(Arc::clone(item), size, items, None, rows)?;
    Ok(Arc::new(lists))
}

/// The items of `rows` lists of `from` items each, with NULLs after them up to `to`.
fn longer(items: &ArrayRef, rows: usize, from: i32, to: i32) -> Result<ArrayRef> {
    if from == to {
        return Ok(Arc::clone(items));
    }
    let (Ok(from), Ok(to)) = (u64::try_from(from), u64::try_from(to)) else {
        return exec_err!("lists of {from} items cannot become lists of {to}");
    };
    let places = (0..rows as u64)
        .flat_map(|row| (0..to).map(move |at| (at < from).then(|| row * from + at)));
    Ok(take(items, &UInt64Array::from_iter(places), None)?)
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int8Array, Int16Array, StringArray, StringViewArray};
    use arrow::datatypes::{Field, Int16Type};

    use super::*;

    fn calls(item: DataType, sizes: &[i32]) -> DataType {
        sizes.iter().rev().fold(item, |item, size| {
            DataType::FixedSizeList(Arc::new(Field::new_list_field(item, true)), *size)
        })
    }

    fn nested(values: ArrayRef, sizes: &[i32]) -> ArrayRef {
        let data_type = calls(values.data_type().clone(), sizes);
        let DataType::FixedSizeList(item, size) = &data_type else {
            return values;
        };
        let inner = nested(values, &sizes[1..]);
        Arc::new(FixedSizeListArray::try_new(Arc::clone(item), *size, inner, None).unwrap())
    }

    #[test]
    fn calls_get_nulls_behind_their_values_and_wider_numbers() {
        let values: ArrayRef = Arc::new(Int8Array::from(vec![
            Some(1),
            Some(2),
            None,
            Some(4),
            Some(5),
            Some(6),
            Some(7),
            Some(8),
        ]));
        let known = nested(values, &[2, 2]);
        let target = calls(DataType::Int16, &[2, 3]);
        let wide = fit(&known, &target).unwrap();
        assert_eq!(wide.data_type(), &target);
        let flat = wide.as_fixed_size_list().values().as_fixed_size_list();
        let expected = Int16Array::from(vec![
            Some(1),
            Some(2),
            None,
            None,
            Some(4),
            None,
            Some(5),
            Some(6),
            None,
            Some(7),
            Some(8),
            None,
        ]);
        assert_eq!(flat.values().as_primitive::<Int16Type>(), &expected);
        // The second row alone.
        assert_eq!(
            &fit(&known.slice(1, 1), &target).unwrap(),
            &wide.slice(1, 1)
        );
        // A call with one value.
        let one = nested(Arc::new(Int8Array::from(vec![3, 4])), &[2]);
        let two = fit(&one, &calls(DataType::Int8, &[2, 2])).unwrap();
        let flat = two.as_fixed_size_list().values().as_fixed_size_list();
        let expected: ArrayRef = Arc::new(Int8Array::from(vec![Some(3), None, Some(4), None]));
        assert_eq!(flat.values(), &expected);
    }

    #[test]
    fn filters_are_in_the_order_of_the_table() {
        let lists = |rows: &[&[&str]]| -> ArrayRef {
            let mut builder = ListBuilder::new(StringBuilder::new());
            for row in rows {
                row.iter()
                    .for_each(|name| builder.values().append_value(name));
                builder.append(true);
            }
            Arc::new(builder.finish())
        };
        let order = ["a", "b", "c"].map(str::to_string);
        let found = in_order(&lists(&[&["c", "a"], &[], &["b"]]), &order);
        assert_eq!(&found, &lists(&[&["a", "c"], &[], &["b"]]));
    }

    #[test]
    fn values_of_sites_become_lists() {
        let names: ArrayRef = Arc::new(StringViewArray::from(vec![Some("a"), None]));
        let target = DataType::new_list(DataType::Utf8, true);
        let lists = fit(&names, &target).unwrap();
        assert_eq!(lists.data_type(), &target);
        let items: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None]));
        assert_eq!(lists.as_list::<i32>().values(), &items);
        let wide = DataType::new_list(DataType::Int16, true);
        let narrow: ArrayRef = Arc::new(Int8Array::from(vec![Some(-1), None]));
        let lists = fit(&narrow, &DataType::new_list(DataType::Int8, true)).unwrap();
        assert_eq!(&fit(&lists, &wide).unwrap(), &fit(&narrow, &wide).unwrap());
        assert!(Arc::ptr_eq(
            &fit(&narrow, &DataType::Int8).unwrap(),
            &narrow
        ));
    }
}
