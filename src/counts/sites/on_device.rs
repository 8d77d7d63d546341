//! Sums over pairs of sites that devices compute: [`SiteDevice`], which `gpu` implements, what it is given, and what it returns.
//!
//! The host computes the same sums in `functions`. Invariant: all of them are integers, so the bits do not depend on who adds what.

use std::fmt::Debug;
use std::ops::Range;

use super::records::SiteRecord;
use crate::counts::{CountError, Workers};

/// Which terms of pairs are added up, as `kernels/sites.cu` has kernels for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SiteTerms {
    /// r².
    R2 = 0,
    /// r², D', DD and π₂.
    Decay = 1,
    /// DD, Dz and π₂.
    Moments = 2,
}

/// Sites of groups, and the pairs within each group whose distance is in a bin.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    not(any(test, feature = "gpu")),
    expect(dead_code, reason = "only devices read all of it")
)]
pub(crate) struct SitePairs<'a> {
    /// Copies of a site.
    pub(crate) copies: usize,
    /// What is added up.
    pub(crate) terms: SiteTerms,
    /// The sites of one population, group after group, by position in each. Every site varies.
    pub(crate) sites: &'a [SiteRecord<'a>],
    /// Where each group ends.
    pub(crate) ends: &'a [usize],
    /// Bin b is [edges[b], edges[b + 1]).
    pub(crate) edges: &'a [f64],
}

impl SitePairs<'_> {
    /// Bins of a group.
    #[cfg(any(test, feature = "gpu"))]
    pub(crate) fn bins(&self) -> usize {
        self.edges.len().saturating_sub(1)
    }

    /// The sites of each group.
    pub(crate) fn groups(&self) -> impl Iterator<Item = Range<usize>> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts
            .zip(self.ends)
            .map(|(start, end)| start..(*end).max(start))
    }

    /// The group of a site.
    #[cfg(any(test, feature = "gpu"))]
    pub(crate) fn group_of(&self, site: usize) -> usize {
        self.ends.partition_point(|end| *end <= site)
    }

    /// The sites that are in a pair with a site before them: those at distances from the first edge up to the last. Neither end of
    /// the range is before that of an earlier site.
    #[cfg(any(test, feature = "gpu"))]
    pub(crate) fn seconds_of(&self, site: usize) -> Range<usize> {
        let end = self.ends.get(self.group_of(site)).copied().unwrap_or(0);
        let others = self.sites.get(site + 1..end).unwrap_or_default();
        let position = self.sites.get(site).map_or(0.0, |site| site.position);
        let bound = |edge: Option<&f64>| {
            let is_before =
                |other: &SiteRecord<'_>| edge.is_some_and(|edge| other.position - position < *edge);
            site + 1 + others.partition_point(is_before)
        };
        bound(self.edges.first())..bound(self.edges.last())
    }
}

/// The sums of a bin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PairTotals {
    /// Pairs with an r².
    pub(crate) defined: u64,
    /// The sum of r², in multiples of 2⁻⁹⁰.
    pub(crate) r2: i128,
    /// That of D'.
    pub(crate) d_prime: i128,
    /// For DD, Dz and π₂ the sum of the whole numbers of pairs where every copy is called, and that of the quotients of others in
    /// multiples of 2⁻⁹⁰.
    pub(crate) moments: [[i128; 2]; 3],
}

/// Devices that sum over pairs of sites.
pub(crate) trait SiteDevice: Debug + Send + Sync {
    /// The sums of each bin, those of one group after the other; `None` if the host should compute them.
    ///
    /// # Errors
    /// [`CountError::Stopped`], and [`CountError::Device`] if a device is required and failed.
    fn pair_sums(
        &self,
        pairs: &SitePairs<'_>,
        workers: &Workers<'_>,
    ) -> Result<Option<Vec<PairTotals>>, CountError>;
}
