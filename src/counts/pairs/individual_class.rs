//! [`Class`]: how a row is counted for pairs of individuals. [`SortedRows`]: rows by their classes.

use std::collections::BTreeMap;

use crate::counts::gathered::PlanesRow;

use super::rare::Rare;

/// The classes of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    /// Every copy has the reference.
    Reference,
    /// Few copies have one of two alleles, and no call is missing.
    Rare,
    Complete,
    Incomplete,
    /// Any calls, with this many planes of codes.
    Any(usize),
}

/// Rows, sorted by their classes.
#[derive(Default)]
pub(super) struct SortedRows<'a> {
    /// Rows with complete biallelic diploid calls.
    pub(super) complete: u64,
    pub(super) rare: Rare,
    /// The others, but for those of references alone.
    pub(super) classes: BTreeMap<Class, Vec<PlanesRow<'a>>>,
}
