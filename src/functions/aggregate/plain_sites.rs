//! [`PlainSites`]: a [`SiteDevice`] that compares pairs of sites bit by bit, for tests of what devices are given and of what becomes of their
//! sums.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::counts::sites::{PairTotals, SiteDevice, SitePairs, SiteRecord, SiteTerms};
use crate::counts::{CountError, Workers};
use crate::functions::numeric::FixedSum;
use crate::functions::numeric::two_sites::{TwoSites, d_prime, falling_4, inverse_spread, r2_term};

/// Plain loops in place of a device.
#[derive(Debug, Default)]
pub(super) struct PlainSites {
    /// How many times it was asked for sums.
    pub(super) calls: AtomicUsize,
}

/// Counts of the copies called at both sites.
fn two_sites(one: &SiteRecord<'_>, two: &SiteRecord<'_>, copies: usize) -> TwoSites<i128> {
    let bit = |words: Option<&[u64]>, copy: usize| {
        words.map(|words| words[copy / 64] >> (copy % 64) & 1 == 1)
    };
    let mut sites = TwoSites {
        n: 0,
        a: 0,
        b: 0,
        x: 0,
    };
    for copy in 0..copies {
        let called = |site: &SiteRecord<'_>| bit(site.called[0], copy).unwrap_or(true);
        let alternate = |site: &SiteRecord<'_>| bit(site.alternate[0], copy).unwrap_or(false);
        if called(one) && called(two) {
            sites.n += 1;
            sites.a += i128::from(alternate(one));
            sites.b += i128::from(alternate(two));
            sites.x += i128::from(alternate(one) && alternate(two));
        }
    }
    sites
}

fn add(total: &mut PairTotals, sites: TwoSites<i128>, terms: SiteTerms, copies: usize) {
    let [n, a, b, x] = [sites.n, sites.a, sites.b, sites.x].map(|count| count as f64);
    let floats = TwoSites { n, a, b, x };
    let inverse = inverse_spread(n, a) * inverse_spread(n, b);
    if terms != SiteTerms::Moments && inverse > 0.0 {
        let mut sum = FixedSum(total.r2);
        sum.add(r2_term(floats.delta(), inverse));
        total.r2 = sum.0;
        total.defined += 1;
    }
    if terms == SiteTerms::Decay && inverse > 0.0 {
        let mut sum = FixedSum(total.d_prime);
        sum.add(d_prime(floats));
        total.d_prime = sum.0;
    }
    if terms == SiteTerms::R2 || sites.n < 4 {
        return;
    }
    let numbers = [sites.dd(), sites.dz(), sites.pi2()];
    for (at, (moment, number)) in total.moments.iter_mut().zip(numbers).enumerate() {
        if terms == SiteTerms::Decay && at == 1 {
            continue;
        }
        if sites.n as usize == copies {
            moment[0] += number;
        } else {
            let mut sum = FixedSum(moment[1]);
            sum.add((number as f64 / falling_4(n)).clamp(-1.0, 1.0));
            moment[1] = sum.0;
        }
    }
}

impl SiteDevice for PlainSites {
    fn pair_sums(
        &self,
        pairs: &SitePairs<'_>,
        _workers: &Workers<'_>,
    ) -> Result<Option<Vec<PairTotals>>, CountError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let mut totals = vec![PairTotals::default(); pairs.ends.len() * pairs.bins()];
        for (group, sites) in pairs.groups().enumerate() {
            for one in sites.clone() {
                assert!(pairs.sites[one].varies());
                for other in one + 1..sites.end {
                    let (first, second) = (&pairs.sites[one], &pairs.sites[other]);
                    let distance = second.position - first.position;
                    assert!(distance >= 0.0);
                    let edge = pairs.edges.partition_point(|edge| *edge <= distance);
                    let is_in = edge > 0 && edge < pairs.edges.len();
                    assert!(!is_in || pairs.seconds_of(one).contains(&other));
                    if is_in {
                        let total = &mut totals[group * pairs.bins() + edge - 1];
                        let sites = two_sites(first, second, pairs.copies);
                        add(total, sites, pairs.terms, pairs.copies);
                    }
                }
            }
        }
        Ok(Some(totals))
    }
}
