//! Table functions over the variants of a VCZ table along its contigs, each of which depends on others.
//!
//! They read the table by a scan of their own, which `scan` plans: contig, position and the bit-planes of the population, for ranges of rows
//! that the function chooses. A query over the table would not do: a filter, or the optimizer's own partitions, would lose the numbers
//! of rows, and a pair of variants on both sides of a border between partitions would be seen by neither. So each partition has rows of
//! its own, and may read further rows after them, whose pairs with each other belong to the next partition.
//!
//! * `arguments`: table, population and numbers. `partitions`: the rows of each partition.
//! * `provider`: the function's table; `exec`: the plan that runs a [`SiteScan`] over the rows of each partition.
//! * `ld`, `ld_prune`: linkage disequilibrium. `nsl`, `ihs`, `xpnsl`, `xpehh`: scans for extended haplotypes, by `haplotype_scan`.

mod arguments;
mod exec;
mod haplotype_scan;
mod ihs;
mod ld;
mod ld_pairs;
mod ld_prune;
mod nsl;
mod partitions;
mod provider;
mod site_scan;
mod xpehh;
mod xpnsl;

pub(super) use arguments::Arguments;
pub use ihs::Ihs;
pub use ld::Ld;
pub use ld_prune::LdPrune;
pub use nsl::Nsl;
pub(super) use provider::SiteTable;
pub use xpehh::XpEhh;
pub use xpnsl::XpNsl;
