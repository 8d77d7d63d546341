//! The results of calls on genotypes as Arrow arrays, and their types; those of `population_pair_counts` are in
//! [`population_pairs`](super::population_pairs).

use std::sync::Arc;

use arrow::array::{
    ArrayRef, FixedSizeListArray, Int32Array, Int64Array, ListArray, StringArray, StructArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::{Result, exec_err};

use super::context::GenotypeContext;
use super::copies::COPIES_BESIDE_KEY;
use crate::counts::Populations;

/// The genotype classes of `genotype_counts`, in the order of its struct.
pub const GENOTYPE_CLASSES: [&str; 5] = ["hom_ref", "het", "hom_alt", "haploid", "missing"];

/// A list size as Arrow's i32.
pub fn list_size(len: usize) -> Result<i32> {
    i32::try_from(len)
        .or_else(|_| exec_err!("a fixed-size list of {len} elements is more than Arrow can hold"))
}

fn count_item() -> FieldRef {
    Arc::new(Field::new_list_field(DataType::Int32, true))
}

/// `FixedSizeList(Int32, K)`.
pub fn allele_counts_type(n_alleles: usize) -> Result<DataType> {
    Ok(DataType::FixedSizeList(count_item(), list_size(n_alleles)?))
}

/// The type of `genotypes` with `samples` samples instead.
pub fn selected_type(genotypes: &DataType, samples: usize) -> Result<DataType> {
    let DataType::FixedSizeList(copies, _) = genotypes else {
        return exec_err!("select_samples: expected genotypes, found {genotypes}");
    };
    Ok(DataType::FixedSizeList(
        Arc::clone(copies),
        list_size(samples)?,
    ))
}

/// The fields of `genotype_counts`' struct.
pub fn genotype_counts_fields() -> Fields {
    GENOTYPE_CLASSES
        .iter()
        .map(|name| Field::new(*name, DataType::Int32, false))
        .collect()
}

/// The fields of `zygosity_counts`' struct.
pub fn zygosity_counts_fields(n_alleles: usize) -> Result<Fields> {
    let alleles = allele_counts_type(n_alleles)?;
    Ok(Fields::from(vec![
        Field::new("individuals", DataType::Int32, false),
        Field::new("ac", alleles.clone(), false),
        Field::new("het", alleles, false),
    ]))
}

/// The field of a population's N in the structs of `population_counts`.
const COPIES: &str = "copies";

fn population_fields(n_alleles: usize) -> Result<Fields> {
    let beside = [(COPIES_BESIDE_KEY.to_string(), COPIES.to_string())];
    let counts = Field::new("ac", allele_counts_type(n_alleles)?, false);
    Ok(Fields::from(vec![
        Field::new("population", DataType::Utf8, false),
        Field::new(COPIES, DataType::Int64, false),
        counts.with_metadata(beside.into()),
    ]))
}

/// `List(Struct(population, copies, ac))`.
pub fn population_counts_type(n_alleles: usize) -> Result<DataType> {
    let item = Field::new_list_field(DataType::Struct(population_fields(n_alleles)?), false);
    Ok(DataType::List(Arc::new(item)))
}

/// Row-major `[rows × K]` counts as an Arrow array.
pub fn allele_counts_array(
    counts: impl Into<ScalarBuffer<i32>>,
    n_alleles: usize,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let values = Arc::new(Int32Array::new(counts.into(), None));
    Ok(Arc::new(FixedSizeListArray::try_new(
        count_item(),
        list_size(n_alleles)?,
        values,
        nulls,
    )?))
}

/// Row-major `[rows × 5]` genotype counts as an Arrow struct array.
pub fn genotype_counts_array(counts: &[i32], nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    let width = GENOTYPE_CLASSES.len();
    // The fields of a NULL struct are NULL, too, because access to a field ignores the struct's validity.
    let columns = (0..width)
        .map(|class| {
            let values: Vec<i32> = counts.iter().skip(class).step_by(width).copied().collect();
            Arc::new(Int32Array::new(ScalarBuffer::from(values), nulls.clone())) as ArrayRef
        })
        .collect();
    let rows = counts.len() / width;
    Ok(Arc::new(StructArray::try_new_with_length(
        genotype_counts_fields(),
        columns,
        nulls,
        rows,
    )?))
}

/// Zygosity (`ChunkCounts::zygosity`, row-major `[rows × 2 K]`) as an Arrow struct array.
pub fn zygosity_counts_array(
    counts: &[i32],
    n_alleles: usize,
    rows: usize,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let mut individuals = Vec::with_capacity(rows);
    let mut ac = Vec::with_capacity(rows * n_alleles);
    let mut het = Vec::with_capacity(rows * n_alleles);
    if n_alleles == 2 {
        // The usual case, in a loop of known length. A heterozygous individual carries both alleles.
        for &[hom0, hom1, het0, het1] in counts.as_chunks::<4>().0 {
            individuals.push(hom0 + hom1 + het0);
            ac.extend([2 * hom0 + het0, 2 * hom1 + het1]);
            het.extend([het0, het1]);
        }
    } else {
        for row in counts.chunks_exact((2 * n_alleles).max(1)) {
            let (homozygous, heterozygous) = row.split_at(n_alleles);
            let carriers: i32 = heterozygous.iter().sum();
            // Every heterozygous individual carries two alleles.
            individuals.push(homozygous.iter().sum::<i32>() + carriers / 2);
            let copies = homozygous.iter().zip(heterozygous);
            ac.extend(copies.map(|(hom, het)| 2 * hom + het));
            het.extend_from_slice(heterozygous);
        }
    }
    // As above.
    let individuals = Int32Array::new(ScalarBuffer::from(individuals), nulls.clone());
    Ok(Arc::new(StructArray::try_new_with_length(
        zygosity_counts_fields(n_alleles)?,
        vec![
            Arc::new(individuals),
            allele_counts_array(ac, n_alleles, nulls.clone())?,
            allele_counts_array(het, n_alleles, nulls.clone())?,
        ],
        nulls,
        rows,
    )?))
}

/// Counts of every named population (each row-major `[rows × K]`) as a list of structs per row.
pub fn population_counts_array(
    counts: &[&[i32]],
    rows: usize,
    populations: &Populations,
    context: &GenotypeContext,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let n_alleles = context.n_alleles()?;
    let total = rows.saturating_mul(counts.len());
    let mut ac: Vec<i32> = Vec::with_capacity(total.saturating_mul(n_alleles));
    for row in 0..rows {
        for population in counts {
            ac.extend_from_slice(&population[row * n_alleles..(row + 1) * n_alleles]);
        }
    }
    let (mut names, mut copies) = (
        Vec::with_capacity(counts.len()),
        Vec::with_capacity(counts.len()),
    );
    for (name, samples) in populations.iter() {
        names.push(name);
        copies.push(context.copies(samples) as i64);
    }
    let names = StringArray::from(names.repeat(rows));
    let copies = Int64Array::from(copies.repeat(rows));
    let ac = allele_counts_array(ac, n_alleles, None)?;
    let fields = population_fields(n_alleles)?;
    let structs = StructArray::try_new_with_length(
        fields,
        vec![Arc::new(names), Arc::new(copies), ac],
        None,
        total,
    )?;
    let DataType::List(item) = population_counts_type(n_alleles)? else {
        return exec_err!("population_counts must give a list");
    };
    if i32::try_from(total).is_err() {
        return exec_err!(
            "population_counts: {rows} rows × {} populations overflow one batch; lower datafusion.execution.batch_size",
            counts.len()
        );
    }
    let offsets = OffsetBuffer::from_repeated_length(counts.len(), rows);
    Ok(Arc::new(ListArray::try_new(
        item,
        offsets,
        Arc::new(structs),
        nulls,
    )?))
}
