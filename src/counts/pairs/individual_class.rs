//! [`Class`]: how a row is counted for pairs of individuals.

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
