//! Errors about unknown columns, with what may be meant: a population in double quotes, genotypes of a store that has none, an array that is
//! no column, and why, or an array of a store that could not be listed.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::{Column, DataFusionError, SchemaError, plan_datafusion_err};
use datafusion::execution::context::SessionState;

use crate::functions::table::resolve::vcz_table;
use crate::scan::{ColumnKind, VczTable};

/// Adds to an error about an unknown column what may be meant, a line for each. Other errors are returned unchanged.
pub async fn explain_unknown_column(
    state: &SessionState,
    error: DataFusionError,
) -> DataFusionError {
    let DataFusionError::SchemaError(unknown, _) = error.find_root() else {
        return error;
    };
    let SchemaError::FieldNotFound {
        field,
        valid_fields,
    } = &**unknown
    else {
        return error;
    };
    let relations = valid_fields
        .iter()
        .filter_map(|field| field.relation.as_ref());
    let read: BTreeSet<String> = relations.map(|table| table.table().to_string()).collect();
    let of_statement = tables(state, &read).await;
    // The column may be qualified by an alias, so look at all tables.
    let others = tables(state, &registered(state)).await;
    let all: Vec<&Arc<VczTable>> = of_statement.iter().chain(&others).collect();
    let meant = match of_statement.is_empty() {
        true => all.clone(),
        false => of_statement.iter().collect(),
    };
    let mut notes = BTreeSet::new();
    notes.extend(meant.iter().filter_map(|table| population(field, table)));
    notes.extend(meant.iter().filter_map(|table| genotypes(field, table)));
    notes.extend(meant.iter().flat_map(|table| no_column(field, table)));
    if !meant.is_empty() {
        notes.extend(of_vcf(field));
    }
    for table in all {
        for member in table.stores().members() {
            let store = member.dataset.store();
            let missing = store.missing_arrays();
            let note = |missing| format!("store '{}': {missing}", store.location());
            notes.extend(missing.map(note));
        }
    }
    if notes.is_empty() {
        return error;
    }
    let notes: Vec<String> = notes.into_iter().collect();
    plan_datafusion_err!("{}\n{}", error.strip_backtrace(), notes.join("\n"))
}

/// That the column is the name of a population of `table`.
fn population(field: &Column, table: &VczTable) -> Option<String> {
    let name = &field.name;
    let is_population = table.context().populations().get(name).is_some();
    (field.relation.is_none() && is_population).then(|| {
        format!(
            "'{name}' is a population: write it in single quotes, '{name}'; double quotes are for columns and tables"
        )
    })
}

/// The column that holds a field of VCF, if this is the field's name.
fn of_vcf(field: &Column) -> Option<String> {
    let name = field.name.as_str();
    let column = match name.to_ascii_uppercase().as_str() {
        "CHROM" | "CHR" | "CONTIG" => "variant_contig",
        "POS" | "POSITION" => "variant_position",
        "ID" => "variant_id",
        "REF" => "variant_allele[1]",
        "ALT" => "variant_allele[2] (and [3], …)",
        "QUAL" => "variant_quality",
        "FILTER" => "variant_filter, a list; sites that passed are is_pass(variant_filter)",
        "GT" | "GENOTYPE" | "GENOTYPES" => "call_genotype",
        "INFO" => "a column variant_NAME for each field",
        "FORMAT" => "a column call_NAME for each field",
        _ => return None,
    };
    Some(format!("VCF's {name} is {column}"))
}

/// That `table` has no genotypes, if the column is of genotypes.
fn genotypes(field: &Column, table: &VczTable) -> Option<String> {
    let stores = table.stores();
    let mut columns = stores.columns().iter();
    let has_genotypes = columns.any(|column| column.kind == ColumnKind::Genotype);
    (field.name == "call_genotype" && !has_genotypes).then(|| {
        format!(
            "store '{}' has no genotypes (array 'call_genotype'): its columns of sites and its samples can be queried, but nothing can be \
             counted. Statistics take any list of allele counts: [variant_AN - variant_AC[1], variant_AC[1]] of biallelic sites, if the store \
             has these INFO fields",
            stores.location()
        )
    })
}

/// Why an array of this name is no column: it cannot be read, or it has no value for each variant.
fn no_column(field: &Column, table: &VczTable) -> Vec<String> {
    let name = field.name.as_str();
    let members = table.stores().members().iter();
    let stores = members.map(|member| member.dataset.store());
    let notes = stores.filter_map(|store| {
        let reason = match (store.unreadable().get(name), store.array(name)) {
            (Some(reason), _) => format!("it cannot be read: {reason}"),
            (None, Some(array)) => format!(
                "its dimensions are {:?}, and columns have one value for each of the variants",
                array.dimensions
            ),
            (None, None) => return None,
        };
        Some(format!(
            "store '{}' has an array '{name}', which is no column of the table, as {reason}",
            store.location()
        ))
    });
    notes.collect()
}

/// Those of these tables that are VCZ tables.
async fn tables(state: &SessionState, names: &BTreeSet<String>) -> Vec<Arc<VczTable>> {
    let mut found = vec![];
    for name in names {
        found.extend(vcz_table(state, name).await.ok());
    }
    found
}

/// The tables of the default schema.
fn registered(state: &SessionState) -> BTreeSet<String> {
    let defaults = &state.config_options().catalog;
    let schema = state
        .catalog_list()
        .catalog(&defaults.default_catalog)
        .and_then(|catalog| catalog.schema(&defaults.default_schema));
    schema.map_or_else(BTreeSet::new, |schema| {
        schema.table_names().into_iter().collect()
    })
}
