//! Table functions: metadata of stores as tables, the grid of windows, and `sites`, which compare variants. One file per function;
//! `resolve` finds the table of the first argument, `metadata` is shared by the functions of metadata. A new function needs a new file and a line in [`all`].

mod arrays;
mod contigs;
mod genome_windows;
pub(super) mod metadata;
mod populations;
pub mod resolve;
mod samples;
mod sites;

use std::sync::Arc;

use datafusion::catalog::{TableFunctionImpl, TableProvider};

pub use arrays::Arrays;
pub use contigs::Contigs;
pub use genome_windows::GenomeWindows;
pub use metadata::{Metadata, MetadataFunction};
pub use populations::Populations;
pub use samples::Samples;
pub use sites::{Ld, LdPrune};

/// The call of a function of this folder that `table` is, such as `vcz_samples('ag')`; `None` for another table.
pub fn call_of(table: &dyn TableProvider) -> Option<&str> {
    fn of<M: Metadata>(table: &dyn TableProvider) -> Option<&str> {
        let table = table.downcast_ref::<metadata::MetadataTable<M>>();
        table.map(|table| table.call.as_str())
    }
    let windows = || table.downcast_ref::<genome_windows::Windows>();
    let sites = || table.downcast_ref::<sites::SiteTable>();
    of::<Samples>(table)
        .or_else(|| of::<Contigs>(table))
        .or_else(|| of::<Populations>(table))
        .or_else(|| of::<Arrays>(table))
        .or_else(|| windows().map(|windows| windows.call.as_str()))
        .or_else(|| sites().map(|sites| sites.call.as_str()))
}

/// Every function of this folder by its name in SQL.
pub fn all() -> Vec<(&'static str, Arc<dyn TableFunctionImpl>)> {
    vec![
        MetadataFunction::<Samples>::entry(),
        MetadataFunction::<Contigs>::entry(),
        MetadataFunction::<Populations>::entry(),
        MetadataFunction::<Arrays>::entry(),
        ("genome_windows", Arc::new(GenomeWindows::default())),
        (Ld::NAME, Arc::new(Ld)),
        (LdPrune::NAME, Arc::new(LdPrune)),
    ]
}
