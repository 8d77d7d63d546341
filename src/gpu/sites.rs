//! [`GpuPairs`] sums over pairs of sites: several streams of each device take parts of the pairs, and their sums are added.

use std::fmt::Display;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::cuda::{SiteLayout, SiteSums};
use super::pairs::GpuPairs;
use super::site_error::SiteError;
use super::site_jobs::jobs;
use crate::counts::sites::{PairTotals, SiteDevice, SitePairs};
use crate::counts::{CountError, Workers};
use crate::gpu::error::GpuError;

/// Streams of a device: one is filled while another one computes.
const STREAMS: usize = 4;
/// Jobs of a stream at least, if there are enough sites.
const JOBS: usize = 4;
/// About as many pairs has a job at most, if no call is missing: a device that needs a minute for what it was given counts as lost.
const MOST_PAIRS: usize = 1 << 31;
/// First sites of a job at least.
const FEWEST_ROWS: usize = 4 * 1024;
/// Numbers of pairs are estimated from one of so many sites.
const SAMPLED: usize = 64;
/// Copies of pairs from which on a GPU is faster than the host: some ten milliseconds of a thread.
const FEWEST_COPIES: usize = 1 << 33;

impl GpuPairs {
    /// Whether the pairs are so many that a device is faster, from those of some sites.
    fn is_for_sites(&self, pairs: &SitePairs<'_>) -> bool {
        let of_site = |site| pairs.seconds_of(site).len().saturating_mul(pairs.copies);
        let copies = (0..pairs.sites.len()).step_by(SAMPLED).map(of_site);
        self.is_required
            || copies
                .fold(0, usize::saturating_add)
                .saturating_mul(SAMPLED)
                >= FEWEST_COPIES
    }
}

/// The host computes the sums, for a reason that is no error.
fn left_to_host(reason: impl Display) -> Option<Vec<PairTotals>> {
    log::debug!("the host sums over pairs of sites: {reason}");
    None
}

impl SiteDevice for GpuPairs {
    fn pair_sums(
        &self,
        pairs: &SitePairs<'_>,
        workers: &Workers<'_>,
    ) -> Result<Option<Vec<PairTotals>>, CountError> {
        if !self.is_for_sites(pairs) {
            return Ok(None);
        }
        let streams = workers
            .threads()
            .min(STREAMS)
            .saturating_mul(self.devices.len())
            .max(1);
        let rows = pairs.sites.len().div_ceil(streams * JOBS).max(FEWEST_ROWS);
        let layouts = self.devices.iter();
        let layouts = layouts.map(|device| SiteLayout::try_new(pairs, rows, device));
        let Some(layouts) = layouts.collect::<Option<Vec<_>>>() else {
            return Ok(left_to_host("they are beyond what kernels take"));
        };
        let least = |of: fn(&SiteLayout) -> usize| layouts.iter().map(of).min().unwrap_or(0);
        let mut totals = vec![PairTotals::default(); pairs.ends.len() * pairs.bins()];
        let sites = least(SiteLayout::sites);
        let most_pairs = match layouts.iter().any(SiteLayout::has_missing) {
            true => MOST_PAIRS / 4,
            false => MOST_PAIRS,
        };
        // Second sites of a first one in a job at most.
        let sampled = (0..pairs.sites.len()).step_by(SAMPLED);
        let seconds = sampled.map(|site| pairs.seconds_of(site).len()).max();
        let seconds = seconds.unwrap_or(0).clamp(1, sites.max(1));
        let rows = least(SiteLayout::rows).min((most_pairs / seconds).max(1));
        let jobs = jobs(pairs, rows, sites);
        if jobs.is_empty() {
            return Ok(Some(totals));
        }
        let streams = streams.min(jobs.len()).max(1);
        let bytes = layouts
            .iter()
            .map(SiteLayout::device_bytes)
            .max()
            .unwrap_or(0);
        let bytes = bytes.saturating_mul(streams.div_ceil(self.devices.len().max(1)));
        let _reserved = match self.try_reserve(bytes) {
            Ok(reserved) => reserved,
            Err(reason) => {
                let reason = format!("{bytes} bytes of GPU memory are needed: {reason}");
                return Ok(left_to_host(reason));
            }
        };
        let next = AtomicUsize::new(0);
        let sums = Mutex::new(&mut totals);
        let (failed, is_failed) = (Mutex::new(None), AtomicBool::new(false));
        let run = |stream: usize| -> Result<(), SiteError> {
            let at = stream % self.devices.len().max(1);
            let (Some(device), Some(layout)) = (self.devices.get(at), layouts.get(at)) else {
                return Err(GpuError::from("there is no GPU").into());
            };
            let next = || jobs.get(next.fetch_add(1, Ordering::Relaxed));
            let Some(mut job) = next() else {
                return Ok(());
            };
            let mut of_stream = SiteSums::try_new(device, *layout, &self.staging)?;
            loop {
                if is_failed.load(Ordering::Relaxed) {
                    return Ok(());
                }
                workers.check()?;
                of_stream.add(pairs, job, workers)?;
                match next() {
                    Some(other) => job = other,
                    None => break,
                }
            }
            let parts = of_stream.take(workers)?;
            parts.add_to(&mut sums.lock());
            Ok(())
        };
        workers.each(0..streams, |stream| match run(stream) {
            Ok(()) => Ok(()),
            Err(SiteError::Stopped(error)) => Err(error),
            Err(SiteError::Device(error)) => {
                is_failed.store(true, Ordering::Relaxed);
                failed.lock().get_or_insert(error);
                Ok(())
            }
        })?;
        match failed.into_inner() {
            None => Ok(Some(totals)),
            Some(error) if self.is_required => Err(CountError::Device(format!(
                "{error}; use SET vcz.backend = 'host' to compare pairs on the host"
            ))),
            Some(error) => {
                log::warn!("the host sums over pairs of sites instead of the GPU: {error}");
                Ok(None)
            }
        }
    }
}
