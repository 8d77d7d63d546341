//! Prints tables. On a terminal, lists are broken into lines that fit its width: a spectrum is wrapped, a joint spectrum is a matrix, and
//! very long lists are cut, with a note on how to print all elements. Elsewhere a table has every value on one line.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringBuilder};
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use arrow::util::pretty::pretty_format_batches_with_options;
use console::Term;
use datafusion::common::Result;
use datafusion::config::FormatOptions as Settings;

/// The maximum number of elements of a list that are shown, and of lines of a matrix.
const MOST_ELEMENTS: usize = 1000;
const MOST_LINES: usize = 64;
/// The least width of a list that is wrapped, in columns of the terminal.
const LEAST_WIDTH: usize = 24;

/// The width of the terminal; `None` if standard output is not a terminal.
pub fn terminal_width() -> Option<usize> {
    let terminal = Term::stdout();
    let (_, width) = terminal
        .features()
        .is_attended()
        .then(|| terminal.size_checked())??;
    Some(usize::from(width))
}

/// `batches`, all of one schema, as a table, for a terminal of `width` columns if there is one.
///
/// # Errors
/// If a setting of formats is not valid, or a value cannot be shown.
pub fn table(batches: &[RecordBatch], settings: &Settings, width: Option<usize>) -> Result<String> {
    let options: FormatOptions = settings.try_into()?;
    let wrapped;
    let batches = match width {
        None => batches,
        Some(width) => {
            wrapped = wrapped_lists(batches, &options, width)?;
            &wrapped
        }
    };
    Ok(pretty_format_batches_with_options(batches, &options)?.to_string())
}

fn is_list(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..)
    )
}

/// `batches` with lists as text of several lines.
fn wrapped_lists(
    batches: &[RecordBatch],
    options: &FormatOptions,
    width: usize,
) -> Result<Vec<RecordBatch>> {
    let Some(schema) = batches.first().map(RecordBatch::schema) else {
        return Ok(vec![]);
    };
    let lists = schema
        .fields()
        .iter()
        .filter(|field| is_list(field.data_type()));
    let lists = lists.count();
    if lists == 0 {
        return Ok(batches.to_vec());
    }
    // The width of the other columns, with "| " before each and " " after.
    let mut taken = 1;
    for (at, field) in schema.fields().iter().enumerate() {
        taken += 3;
        if !is_list(field.data_type()) {
            let mut widest = console::measure_text_width(field.name());
            for batch in batches {
                let formatter = ArrayFormatter::try_new(batch.column(at), options)?;
                for row in 0..batch.num_rows() {
                    let text = formatter.value(row).to_string();
                    widest = widest.max(console::measure_text_width(&text));
                }
            }
            taken += widest;
        }
    }
    let each = (width.saturating_sub(taken) / lists).max(LEAST_WIDTH);
    let fields = schema.fields().iter().map(|field| -> FieldRef {
        match is_list(field.data_type()) {
            true => Arc::new(Field::new(field.name(), DataType::Utf8, true)),
            false => Arc::clone(field),
        }
    });
    let wrapped_schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let wrap_batch = |batch: &RecordBatch| {
        let columns = batch
            .columns()
            .iter()
            .map(|column| match is_list(column.data_type()) {
                true => wrapped(column, options, each),
                false => Ok(Arc::clone(column)),
            });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        Ok(RecordBatch::try_new(Arc::clone(&wrapped_schema), columns)?)
    };
    batches.iter().map(wrap_batch).collect()
}

/// The lists of a column as text, in lines of at most `width` columns where their elements allow it.
fn wrapped(column: &ArrayRef, options: &FormatOptions, width: usize) -> Result<ArrayRef> {
    let mut texts = StringBuilder::new();
    for row in 0..column.len() {
        if column.is_null(row) {
            texts.append_null();
            continue;
        }
        let list = match column.data_type() {
            DataType::List(_) => column.as_list::<i32>().value(row),
            DataType::LargeList(_) => column.as_list::<i64>().value(row),
            _ => column.as_fixed_size_list().value(row),
        };
        texts.append_value(match list.data_type() {
            DataType::List(_) | DataType::LargeList(_) => matrix(&list, options, width)?,
            _ => lines(&list, options, width)?,
        });
    }
    Ok(Arc::new(texts.finish()))
}

/// `[1, 2, 3]`, wrapped.
fn lines(list: &ArrayRef, options: &FormatOptions, width: usize) -> Result<String> {
    let shown = list.slice(0, list.len().min(MOST_ELEMENTS));
    let formatter = ArrayFormatter::try_new(&shown, options)?;
    let mut text = String::from("[");
    let mut line = 1;
    for at in 0..shown.len() {
        let last = at + 1 == list.len();
        let element = format!("{}{}", formatter.value(at), if last { "]" } else { "," });
        let wide = console::measure_text_width(&element);
        if at > 0 && line + 1 + wide > width {
            text.push_str("\n ");
            line = 1;
        } else if at > 0 {
            text.push(' ');
            line += 1;
        }
        text.push_str(&element);
        line += wide;
    }
    if list.is_empty() {
        text.push(']');
    } else if list.len() > shown.len() {
        text.push_str(&format!(
            "\n … {} elements; --format csv prints all]",
            list.len()
        ));
    }
    Ok(text)
}

/// A list of lists as a matrix: a line for each list, with aligned elements.
fn matrix(rows: &ArrayRef, options: &FormatOptions, width: usize) -> Result<String> {
    let row_of = |at: usize| match rows.data_type() {
        DataType::LargeList(_) => rows.as_list::<i64>().value(at),
        _ => rows.as_list::<i32>().value(at),
    };
    let shown = rows.len().min(MOST_LINES);
    let mut cells: Vec<Vec<String>> = Vec::with_capacity(shown);
    let mut longest = 0;
    for at in (0..shown).filter(|&at| rows.is_valid(at)) {
        let row = row_of(at);
        longest = longest.max(row.len());
        // At most `width` elements can fit.
        let row = row.slice(0, row.len().min(width));
        let formatter = ArrayFormatter::try_new(&row, options)?;
        let texts = (0..row.len()).map(|at| formatter.value(at).to_string());
        cells.push(texts.collect());
    }
    let widest = cells
        .iter()
        .flatten()
        .map(|cell| console::measure_text_width(cell))
        .max();
    let cell_width = widest.unwrap_or(0);
    // "[", the cells with ", " between them, " …]".
    let fit = (width.saturating_sub(4) / (cell_width + 2)).max(1);
    let mut text = String::from("[");
    for (at, row) in cells.iter().enumerate() {
        let start = if at == 0 { "[" } else { "\n [" };
        let numbers: Vec<String> = row
            .iter()
            .take(fit)
            .map(|cell| format!("{cell:>cell_width$}"))
            .collect();
        let cut = if row.len() > fit { ", …" } else { "" };
        text.push_str(&format!("{start}{}{cut}]", numbers.join(", ")));
    }
    if rows.len() > shown || longest > fit {
        text.push_str(&format!(
            "\n … {} by {longest}; --format csv prints all",
            rows.len()
        ));
    }
    text.push(']');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, ListArray};
    use arrow::buffer::OffsetBuffer;
    use arrow::datatypes::Int64Type;

    use super::*;

    fn spectra(of: &[Option<Vec<i64>>]) -> ListArray {
        let rows = of.iter().map(|row| {
            row.as_ref()
                .map(|row| row.iter().copied().map(Some).collect::<Vec<_>>())
        });
        ListArray::from_iter_primitive::<Int64Type, _, _>(rows)
    }

    fn shown(list: ListArray, width: Option<usize>) -> String {
        let batch = RecordBatch::try_from_iter([
            (
                "w",
                Arc::new(Int64Array::from_iter_values(0..list.len() as i64)) as ArrayRef,
            ),
            ("sfs", Arc::new(list) as ArrayRef),
        ]);
        table(&[batch.unwrap()], &Settings::default(), width).unwrap()
    }

    #[test]
    fn spectra_fit_the_terminal() {
        let list = || spectra(&[Some((1000..1100).collect()), None, Some(vec![])]);
        let text = shown(list(), Some(60));
        assert!(text.lines().all(|line| line.len() <= 60), "{text}");
        assert!(
            text.contains("1098, 1099]") && text.contains("[]"),
            "{text}"
        );
        assert_eq!(text.matches(",").count(), 99);
        // Without a terminal, a value is on one line.
        assert_eq!(shown(list(), None).lines().count(), 4 + 3);
    }

    #[test]
    fn long_lists_are_cut() {
        let text = shown(spectra(&[Some(vec![0; 5000])]), Some(80));
        assert!(text.contains("… 5000 elements; --format csv"), "{text}");
    }

    #[test]
    fn joint_spectra_are_matrices() {
        let rows = spectra(&[Some(vec![1, 20, 300]), Some(vec![4, 5, 6])]);
        let field = Arc::new(Field::new_list_field(rows.data_type().clone(), true));
        let offsets = OffsetBuffer::from_lengths([2]);
        let joint = ListArray::new(field, offsets, Arc::new(rows), None);
        let text = shown(joint.clone(), Some(80));
        assert!(
            text.contains("[[  1,  20, 300]") && text.contains(" [  4,   5,   6]]"),
            "{text}"
        );
        let text = shown(joint, Some(30));
        assert!(text.lines().all(|line| line.len() <= 60), "{text}");
    }
}
