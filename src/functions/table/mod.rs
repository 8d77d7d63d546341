//! Table functions: metadata of stores as tables, the grid of windows, `sample_pairs`, which compares samples, and `sites`, which compare
//! variants. One file per function;
//! `resolve` finds the table of the first argument, `metadata` is shared by the functions of metadata. A new function needs a new file and
//! a line in [`all`], which has its documentation, too: DataFusion keeps none of table functions, so `\h` shows this one.

mod arrays;
mod contigs;
mod entry;
mod genome_windows;
pub(super) mod metadata;
mod populations;
pub mod resolve;
mod sample_pairs;
mod samples;
mod sites;

use datafusion::catalog::TableProvider;

pub use arrays::Arrays;
pub use contigs::Contigs;
pub use entry::TableFunction;
pub use genome_windows::GenomeWindows;
pub use metadata::{Metadata, MetadataFunction};
pub use populations::Populations;
pub use sample_pairs::{SamplePairs, SamplePairsExec};
pub use samples::Samples;
pub use sites::{Ihs, Ld, LdPrune, Nsl, XpEhh, XpNsl};

/// The call of a function of this folder that `table` is, such as `vcz_samples('ag')`; `None` for another table.
pub fn call_of(table: &dyn TableProvider) -> Option<&str> {
    fn of<M: Metadata>(table: &dyn TableProvider) -> Option<&str> {
        let table = table.downcast_ref::<metadata::MetadataTable<M>>();
        table.map(|table| table.call.as_str())
    }
    let windows = || table.downcast_ref::<genome_windows::Windows>();
    let sites = || table.downcast_ref::<sites::SiteTable>();
    let pairs = || table.downcast_ref::<sample_pairs::SamplePairsTable>();
    of::<Samples>(table)
        .or_else(|| of::<Contigs>(table))
        .or_else(|| of::<Populations>(table))
        .or_else(|| of::<Arrays>(table))
        .or_else(|| windows().map(|windows| windows.call.as_str()))
        .or_else(|| sites().map(|sites| sites.call.as_str()))
        .or_else(|| pairs().map(|pairs| pairs.call.as_str()))
}

/// Every function of this folder.
pub fn all() -> Vec<TableFunction> {
    vec![
        MetadataFunction::<Samples>::entry(),
        MetadataFunction::<Contigs>::entry(),
        MetadataFunction::<Populations>::entry(),
        MetadataFunction::<Arrays>::entry(),
        GenomeWindows::entry(),
        SamplePairs::entry(),
        Ld::entry(),
        LdPrune::entry(),
        Nsl::entry(),
        Ihs::entry(),
        XpNsl::entry(),
        XpEhh::entry(),
    ]
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::Documentation;

    use super::*;

    #[test]
    fn every_column_is_documented() {
        let check = |documentation: &Documentation, schema: &arrow::datatypes::Schema| {
            let (_, columns) = documentation.description.split_once("Columns: ").unwrap();
            for field in schema.fields() {
                assert!(
                    columns.contains(field.name()),
                    "{}: {columns}",
                    field.name()
                );
            }
        };
        check(&Samples::documentation(), &Samples::schema());
        check(&Contigs::documentation(), &Contigs::schema());
        check(&Populations::documentation(), &Populations::schema());
        check(&Arrays::documentation(), &Arrays::schema());
        check(
            &GenomeWindows::entry().2,
            &GenomeWindows::default().schema(),
        );
    }
}
