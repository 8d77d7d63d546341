//! The documentation of SQL functions, as `information_schema.routines` shows it: all share one section and one form of example.

use datafusion::logical_expr::{DocSection, Documentation, DocumentationBuilder};

/// The section that all functions of this crate are in.
const SECTION: DocSection = DocSection {
    include: true,
    label: "Population Genetics Functions",
    description: None,
};

/// Starts the documentation of a function: what it computes, its syntax, and a SQL statement as an example.
pub(crate) fn document(description: &str, syntax: &str, example: &str) -> DocumentationBuilder {
    Documentation::builder(SECTION, description, syntax)
        .with_sql_example(format!("```sql\n{example}\n```"))
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::Documentation;

    use crate::functions::{aggregate_functions, scalar_functions};

    #[test]
    fn every_function_is_documented_in_the_same_form() {
        let check = |name: &str, documentation: Option<&Documentation>| {
            let documentation = documentation.unwrap_or_else(|| panic!("{name}"));
            assert_eq!(documentation.doc_section, super::SECTION, "{name}");
            let example = documentation.sql_example.as_deref().unwrap_or_default();
            assert!(
                example.starts_with("```sql\nSELECT ") && example.ends_with("\n```"),
                "{name}: {example}"
            );
            assert!(documentation.arguments.is_some(), "{name}");
            assert!(
                documentation.syntax_example.starts_with(name),
                "{name}: {}",
                documentation.syntax_example
            );
        };
        for udf in scalar_functions() {
            check(udf.name(), udf.documentation());
        }
        for udaf in aggregate_functions() {
            check(udaf.name(), udaf.documentation());
        }
    }
}
