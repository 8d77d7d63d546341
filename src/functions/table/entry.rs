//! [`TableFunction`]: what is registered of a table function; and the documentation that all of them share.

use std::sync::Arc;

use datafusion::catalog::TableFunctionImpl;
use datafusion::logical_expr::{Documentation, DocumentationBuilder};

use crate::functions::documentation::document;

/// A table function: its name in SQL, what DataFusion calls, and its documentation.
pub type TableFunction = (&'static str, Arc<dyn TableFunctionImpl>, Documentation);

/// Starts the documentation of a function whose first argument is a VCZ table.
pub(super) fn document_table(
    description: &str,
    syntax: &str,
    example: &str,
) -> DocumentationBuilder {
    document(description, syntax, example).with_argument(
        "table",
        "The name of a VCZ table or of a view, as a string; a view stands for the whole VCZ tables that it reads.",
    )
}
