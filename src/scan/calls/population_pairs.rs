//! The results of `population_pair_counts` as Arrow arrays: the counts of both populations of each pair. Every population is counted
//! once; its counts are copied to each of its pairs here.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, ListArray, StringArray, StructArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::{Result, exec_err, plan_err};

use super::context::GenotypeContext;
use super::copies::COPIES_BESIDE_KEY;
use super::results::{allele_counts_array, allele_counts_type};
use crate::counts::Populations;

/// The maximum number of populations for listing all pairs.
const MAX_POPULATIONS: usize = 1000;

/// Returns an error if there are too many populations to list all pairs.
pub fn check_pairs(populations: &Populations) -> Result<()> {
    if populations.len() > MAX_POPULATIONS {
        return plan_err!(
            "population_pair_counts: the populations file names {} populations, and pairs are listed of {MAX_POPULATIONS} at \
             most; name the pairs instead: divergence(call_genotype, 'first', 'second')",
            populations.len()
        );
    }
    Ok(())
}

/// Number of pairs of `populations` different populations.
pub fn pairs_of(populations: usize) -> usize {
    populations * populations.saturating_sub(1) / 2
}

fn pair_fields(n_alleles: usize) -> Result<Fields> {
    let counts = allele_counts_type(n_alleles)?;
    let field = |name, data_type| Field::new(name, data_type, false);
    let beside = |copies: &str| [(COPIES_BESIDE_KEY.to_string(), copies.to_string())].into();
    Ok(Fields::from(vec![
        field("population1", DataType::Utf8),
        field("population2", DataType::Utf8),
        field("copies1", DataType::Int64),
        field("copies2", DataType::Int64),
        field("ac1", counts.clone()).with_metadata(beside("copies1")),
        field("ac2", counts).with_metadata(beside("copies2")),
    ]))
}

fn item(n_alleles: usize) -> Result<FieldRef> {
    let pair = DataType::Struct(pair_fields(n_alleles)?);
    Ok(Arc::new(Field::new_list_field(pair, false)))
}

/// `List(Struct(population1, population2, copies1, copies2, ac1, ac2))`.
pub fn population_pair_counts_type(n_alleles: usize) -> Result<DataType> {
    Ok(DataType::List(item(n_alleles)?))
}

/// Counts of every named population (each row-major `[rows × K]`) as a list of structs per row, one for each pair i < j.
pub fn population_pair_counts_array(
    counts: &[&[i32]],
    rows: usize,
    populations: &Populations,
    context: &GenotypeContext,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let n_alleles = context.n_alleles()?;
    let pairs: Vec<[usize; 2]> = (0..counts.len())
        .flat_map(|i| (i + 1..counts.len()).map(move |j| [i, j]))
        .collect();
    let total = pairs.len().saturating_mul(rows);
    let names: Vec<&str> = populations.names().collect();
    let longest = names.iter().map(|name| name.len()).max().unwrap_or(0);
    if i32::try_from(total.saturating_mul(longest.max(1))).is_err() {
        return exec_err!(
            "population_pair_counts: {rows} rows × {} pairs of populations overflow one batch; lower \
             datafusion.execution.batch_size",
            pairs.len()
        );
    }
    let copies: Vec<i64> = populations
        .iter()
        .map(|(_, samples)| context.copies(samples) as i64)
        .collect();
    let names_of = |side: usize| -> ArrayRef {
        let one_row: Vec<&str> = pairs.iter().map(|pair| names[pair[side]]).collect();
        Arc::new(StringArray::from(one_row.repeat(rows)))
    };
    let copies_of = |side: usize| -> ArrayRef {
        let one_row: Vec<i64> = pairs.iter().map(|pair| copies[pair[side]]).collect();
        Arc::new(Int64Array::from(one_row.repeat(rows)))
    };
    let counts_of = |side: usize| -> Result<ArrayRef> {
        let mut all: Vec<i32> = Vec::with_capacity(total.saturating_mul(n_alleles));
        for row in 0..rows {
            for pair in &pairs {
                let of_row = row * n_alleles..(row + 1) * n_alleles;
                all.extend_from_slice(&counts[pair[side]][of_row]);
            }
        }
        allele_counts_array(all, n_alleles, None)
    };
    let columns = vec![
        names_of(0),
        names_of(1),
        copies_of(0),
        copies_of(1),
        counts_of(0)?,
        counts_of(1)?,
    ];
    let structs = StructArray::try_new_with_length(pair_fields(n_alleles)?, columns, None, total)?;
    let offsets = OffsetBuffer::from_repeated_length(pairs.len(), rows);
    Ok(Arc::new(ListArray::try_new(
        item(n_alleles)?,
        offsets,
        Arc::new(structs),
        nulls,
    )?))
}

#[cfg(test)]
mod tests {
    use arrow::array::Array;

    use super::*;

    fn populations(count: usize) -> Populations {
        let lines: Vec<String> = (0..count).map(|at| format!("s\tp{at}")).collect();
        {
            let text = lines.join("\n");
            let file = crate::counts::PopulationsFile {
                name: "p.tsv",
                text: text.as_bytes(),
                columns: None,
                unknown_samples: Default::default(),
            };
            Populations::parse(file, &["s".to_string()]).unwrap()
        }
    }

    #[test]
    fn every_pair_once_in_the_order_of_the_file() {
        let context = GenotypeContext::new(
            "x.vcz".into(),
            vec!["s".to_string()],
            1,
            populations(3),
            Some(2),
            2,
        );
        let counts: [&[i32]; 3] = [&[1, 1, 2, 0], &[0, 2, 0, 1], &[2, 0, 0, 0]];
        let array =
            population_pair_counts_array(&counts, 2, &populations(3), &context, None).unwrap();
        assert_eq!(*array.data_type(), population_pair_counts_type(2).unwrap());
        let options = arrow::util::display::FormatOptions::default();
        let shown = arrow::util::display::ArrayFormatter::try_new(&array, &options).unwrap();
        let pair = |one, two, ac1, ac2| {
            format!(
                "{{population1: p{one}, population2: p{two}, copies1: 2, copies2: 2, ac1: {ac1}, ac2: {ac2}}}"
            )
        };
        let expected = [
            pair(0, 1, "[2, 0]", "[0, 1]"),
            pair(0, 2, "[2, 0]", "[0, 0]"),
            pair(1, 2, "[0, 1]", "[0, 0]"),
        ];
        assert_eq!(
            shown.value(1).to_string(),
            format!("[{}]", expected.join(", "))
        );
        // One population makes no pair.
        let one = population_pair_counts_array(&counts[..1], 2, &populations(1), &context, None);
        assert_eq!((one.unwrap().len(), pairs_of(1), pairs_of(0)), (2, 0, 0));
        let error =
            population_pair_counts_array(&counts, usize::MAX, &populations(3), &context, None);
        assert!(error.unwrap_err().to_string().contains("batch_size"));
    }

    #[test]
    fn there_is_a_limit() {
        assert!(check_pairs(&populations(MAX_POPULATIONS)).is_ok());
        let error = check_pairs(&populations(MAX_POPULATIONS + 1)).unwrap_err();
        assert!(error.to_string().contains("1001 populations"), "{error}");
    }
}
