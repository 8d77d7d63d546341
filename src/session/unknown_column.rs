//! Errors about unknown columns, where the table's store could not be listed, so that an array may be missing.

use std::collections::BTreeSet;

use datafusion::common::{DataFusionError, SchemaError, plan_datafusion_err};
use datafusion::execution::context::SessionState;

use crate::functions::table::resolve::vcz_table;

/// Adds to an error about an unknown column the tables that may lack arrays, and what to do. Other errors are returned unchanged.
pub async fn name_missing_arrays(state: &SessionState, error: DataFusionError) -> DataFusionError {
    let DataFusionError::SchemaError(unknown, _) = error.find_root() else {
        return error;
    };
    let SchemaError::FieldNotFound { valid_fields, .. } = &**unknown else {
        return error;
    };
    let relations = valid_fields
        .iter()
        .filter_map(|field| field.relation.as_ref());
    let mut names: BTreeSet<String> = relations.map(|table| table.table().to_string()).collect();
    // The column may be qualified by an alias, so look at all tables.
    names.extend(registered(state));
    let mut notes = BTreeSet::new();
    for name in names {
        if let Ok(table) = vcz_table(state, &name).await {
            for member in table.stores().members() {
                let store = member.dataset.store();
                let missing = store.missing_arrays();
                let note = |missing| format!("store '{}': {missing}", store.location());
                notes.extend(missing.map(note));
            }
        }
    }
    if notes.is_empty() {
        return error;
    }
    let notes: Vec<String> = notes.into_iter().collect();
    plan_datafusion_err!("{}\n{}", error.strip_backtrace(), notes.join("\n"))
}

/// The tables of the default schema.
fn registered(state: &SessionState) -> Vec<String> {
    let defaults = &state.config_options().catalog;
    let schema = state
        .catalog_list()
        .catalog(&defaults.default_catalog)
        .and_then(|catalog| catalog.schema(&defaults.default_schema));
    schema.map_or_else(Vec::new, |schema| schema.table_names())
}
