//! Errors about unknown columns, with what may be meant: a column of a similar name, a field of VCF or GFF3, a population in double quotes,
//! genotypes of a store that has none, an array that is no column, and why, or an array of a store that could not be listed. Errors about
//! unknown tables, with tables of similar names.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::{Column, DataFusionError, SchemaError, plan_datafusion_err};
use datafusion::execution::context::SessionState;

use super::field_words::hint_on;
use super::message::{OTHER_CASE, missing_table};
use crate::counts::nearest_names;
use crate::functions::table::resolve::vcz_table;
use crate::scan::{ColumnKind, VczTable};

/// Adds to an error about an unknown column or table what may be meant, a line for each. Other errors are returned unchanged.
pub async fn explain_unknown_column(
    state: &SessionState,
    error: DataFusionError,
) -> DataFusionError {
    if let DataFusionError::Plan(text) = error.find_root()
        && let Some(explained) = with_near_tables(state, text)
    {
        return DataFusionError::Plan(explained);
    }
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
    let candidates = candidates(field, valid_fields);
    let of_store = candidates
        .iter()
        .any(|column| column.name.starts_with("variant_"));
    let column = match of_store {
        true => of_vcf(field)
            .or_else(|| near_column(field, &candidates))
            .or_else(|| absent_field(field)),
        false => near_column(field, &candidates).or_else(|| other_column(field, &candidates)),
    };
    let has_column = column.is_some();
    let mut notes = BTreeSet::new();
    notes.extend(column);
    notes.extend(meant.iter().filter_map(|table| population(field, table)));
    notes.extend(meant.iter().filter_map(|table| genotypes(field, table)));
    notes.extend(meant.iter().flat_map(|table| no_column(field, table)));
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
    let text = error.strip_backtrace();
    let text = match has_column {
        true => without_guess(&text),
        false => text,
    };
    plan_datafusion_err!("{text}\n{}", notes.join("\n"))
}

/// `text`, if it says that a table is not found, with the tables of similar names; `None` if there are none.
fn with_near_tables(state: &SessionState, text: &str) -> Option<String> {
    let text = text.split(DataFusionError::BACK_TRACE_SEP).next()?;
    let wanted = missing_table(text)?;
    let tables = registered(state);
    let near = nearest_names(wanted, tables.iter().map(String::as_str));
    let first = near.first()?;
    if first.to_lowercase() == wanted.to_lowercase() {
        return Some(format!("{text}\nDid you mean '{first}'? {OTHER_CASE}"));
    }
    Some(format!("{text}\nDid you mean '{}'?", near.join("' or '")))
}

/// `text` without DataFusion's guess at a column, the nearest by its letters, since there is a better one.
fn without_guess(text: &str) -> String {
    let guess = text.split_once(" Did you mean '");
    let guess = guess.and_then(|(before, rest)| Some((before, rest.split_once("'?")?.1)));
    guess.map_or_else(
        || text.to_string(),
        |(before, after)| format!("{before}{after}"),
    )
}

/// The columns that `field` may mean: those of its table, or all if it names none.
fn candidates<'a>(field: &Column, valid: &'a [Column]) -> Vec<&'a Column> {
    let of_table: Vec<&Column> = match &field.relation {
        Some(_) => valid
            .iter()
            .filter(|column| column.relation == field.relation)
            .collect(),
        None => vec![],
    };
    match of_table.is_empty() {
        true => valid.iter().collect(),
        false => of_table,
    }
}

/// A column whose name begins with that of `field`, or that has the field of VCF of this name; `None` if only the case differs, which
/// DataFusion says itself.
fn near_column(field: &Column, candidates: &[&Column]) -> Option<String> {
    let wanted = field.name.to_lowercase();
    let names = || candidates.iter().map(|column| column.name.as_str());
    if names().any(|name| name.to_lowercase() == wanted) {
        return None;
    }
    let of_field = |prefix: &str| {
        names().find(|name| {
            let rest = name.strip_prefix(prefix);
            rest.is_some_and(|rest| rest.to_lowercase() == wanted)
        })
    };
    match (of_field("call_"), of_field("variant_")) {
        (Some(call), Some(site)) => {
            return Some(format!(
                "Did you mean {call}, which each call has, or {site}, which the variant has?"
            ));
        }
        (Some(only), None) | (None, Some(only)) => return Some(format!("Did you mean {only}?")),
        (None, None) => {}
    }
    // Fewer letters begin too many names.
    if wanted.chars().count() < 3 {
        return None;
    }
    let mut longer: Vec<&str> = names()
        .filter(|name| name.to_lowercase().starts_with(&wanted))
        .collect();
    longer.dedup();
    longer.truncate(3);
    (!longer.is_empty()).then(|| format!("Did you mean {}?", longer.join(" or ")))
}

/// What `field` is in a table that is not of a store: a column of another name, or an attribute of a line or a sample.
fn other_column(field: &Column, candidates: &[&Column]) -> Option<String> {
    const NAMES: [(&str, &[&str]); 5] = [
        (
            "contig",
            &["seqid", "seqname", "chrom", "chr", "chromosome", "#chrom"],
        ),
        ("type", &["feature", "feature_type", "kind"]),
        ("stop", &["end", "chromend", "end_position"]),
        ("end", &["stop", "chromend", "end_position"]),
        ("phase", &["frame"]),
    ];
    let name = field.name.as_str();
    let wanted = name.to_lowercase();
    let has = |name: &str| candidates.iter().any(|column| column.name == name);
    let same = NAMES
        .iter()
        .find(|(ours, others)| has(ours) && others.contains(&wanted.as_str()));
    match same {
        Some((ours, _)) => Some(format!("Here '{name}' is the column {ours}")),
        None => has("attributes")
            .then(|| format!("If '{name}' is an attribute, write attributes['{name}']")),
    }
}

/// That the table of a store lacks a field that many files of VCF have, if `field` is its name.
fn absent_field(field: &Column) -> Option<String> {
    const SITES: [&str; 5] = ["AC", "AN", "AF", "MQ", "QD"];
    const CALLS: [&str; 7] = ["DP", "AD", "GQ", "PL", "GL", "GP", "DS"];
    let name = field.name.as_str();
    let columns = if SITES.contains(&name) {
        format!("the column variant_{name}, which the table does not have")
    } else if CALLS.contains(&name) {
        format!("the column call_{name} or variant_{name}, and the table has neither")
    } else {
        return None;
    };
    let counted = match name {
        "AC" | "AN" | "AF" => hint_on(name),
        _ => None,
    };
    let counted = counted.map_or(String::new(), |hint| format!(". {hint}"));
    Some(format!("VCF's {name} would be {columns}{counted}"))
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
