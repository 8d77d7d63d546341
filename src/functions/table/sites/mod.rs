//! Table functions that compare the variants of a VCZ table along its contigs.
//!
//! They read the table by a scan of their own, which `scan` plans: contig, position and the bit-planes of the population, for ranges of rows
//! that the function chooses. A query over the table would not do: a filter, or the optimizer's own partitions, would lose the numbers
//! of rows, and a pair of variants on both sides of a border between partitions would be seen by neither. So each partition has rows of
//! its own, and may read further rows after them, whose pairs with each other belong to the next partition.
//!
//! * `arguments`: table, population and numbers. `partitions`: the rows of each partition.
//! * `provider`: the function's table; `exec`: the plan that runs a [`SiteScan`] over the rows of each partition.
//! * `ld`, `ld_prune`: the functions.

mod arguments;
mod exec;
mod ld;
mod ld_pairs;
mod ld_prune;
mod partitions;
mod provider;
mod site_scan;

pub use ld::Ld;
pub use ld_prune::LdPrune;
pub(super) use provider::SiteTable;
