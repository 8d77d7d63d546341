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

    use crate::functions::{aggregate_functions, scalar_functions, table};

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
            let arguments = documentation.arguments.as_deref().unwrap_or_default();
            assert!(!arguments.is_empty(), "{name}");
            // What an argument is if it is left out; of populations that is always every sample.
            let optional = documentation.syntax_example.split("[, ").skip(1);
            let optional = optional.filter_map(|rest| rest.split([' ', ']', ',']).next());
            // A quoted one is a choice of values, documented under a name of its own.
            let named = |argument: &&str| {
                !["…", "population"].contains(argument) && !argument.starts_with('\'')
            };
            for argument in optional.filter(named) {
                let mut known = arguments.iter();
                let text = known.find(|(known, _)| known == argument);
                assert!(
                    text.is_some_and(|(_, text)| text.contains("left out")),
                    "{name}: what is {argument} by default?"
                );
            }
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
        for (name, _, documentation) in table::all() {
            check(name, Some(&documentation));
        }
    }
}
