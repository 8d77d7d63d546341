//! [`GpuSites`]: the devices of a query, which sum over pairs of sites. Several streams of each take parts of the pairs; their sums are added.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::cuda::{CudaDevice, SiteLayout, SiteSums, Staging};
use super::memory_budget::MemoryBudget;
use super::site_jobs::jobs;
use crate::counts::sites::{PairTotals, SiteDevice, SitePairs};
use crate::counts::{CountError, Workers};
use crate::gpu::error::GpuError;

/// Streams of a device: one is filled while another one computes.
const STREAMS: usize = 4;
/// Jobs of a stream at least, if there are enough sites.
const JOBS: usize = 4;
/// First sites of a job at least.
const FEWEST_ROWS: usize = 4 * 1024;
/// Copies of pairs from which on a GPU is faster than the host: some ten milliseconds of a thread.
const FEWEST_COPIES: usize = 1 << 33;

/// The devices of a query.
#[derive(Debug)]
pub struct GpuSites {
    budget: Arc<MemoryBudget>,
    devices: Vec<Arc<CudaDevice>>,
    staging: Arc<Staging>,
    is_required: bool,
}

impl GpuSites {
    pub(super) fn new(
        budget: Arc<MemoryBudget>,
        devices: Vec<Arc<CudaDevice>>,
        staging: Arc<Staging>,
        is_required: bool,
    ) -> Self {
        Self {
            budget,
            devices,
            staging,
            is_required,
        }
    }

    /// Whether the pairs are so many that a device is faster.
    fn is_worth_it(&self, pairs: &SitePairs<'_>) -> bool {
        let mut copies = 0usize;
        self.is_required
            || (0..pairs.sites.len()).any(|site| {
                let others = pairs.seconds_of(site).len();
                copies = copies.saturating_add(others.saturating_mul(pairs.copies));
                copies >= FEWEST_COPIES
            })
    }

    /// The host computes the sums, for a reason that is no error.
    fn leave_to_host(&self, reason: impl std::fmt::Display) -> Option<Vec<PairTotals>> {
        log::debug!("the host sums over pairs of sites: {reason}");
        None
    }
}

impl SiteDevice for GpuSites {
    fn pair_sums(
        &self,
        pairs: &SitePairs<'_>,
        workers: &Workers<'_>,
    ) -> Result<Option<Vec<PairTotals>>, CountError> {
        if !self.is_worth_it(pairs) {
            return Ok(None);
        }
        let streams = workers
            .threads()
            .min(STREAMS)
            .saturating_mul(self.devices.len())
            .max(1);
        let rows = pairs.sites.len().div_ceil(streams * JOBS).max(FEWEST_ROWS);
        let layout = self
            .devices
            .first()
            .and_then(|device| SiteLayout::try_new(pairs, rows, device));
        let Some(layout) = layout else {
            return Ok(self.leave_to_host("they are beyond what kernels take"));
        };
        let jobs = jobs(pairs, layout.rows(), layout.sites());
        let streams = streams.min(jobs.len()).max(1);
        let bytes = layout
            .device_bytes()
            .saturating_mul(streams.div_ceil(self.devices.len().max(1)));
        let _reserved = match self.budget.reserve(bytes as u64) {
            Ok(reserved) => reserved,
            Err(reason) => {
                let reason = format!("{bytes} bytes of GPU memory are needed: {reason}");
                return Ok(self.leave_to_host(reason));
            }
        };
        let next = AtomicUsize::new(0);
        let totals = Mutex::new(vec![PairTotals::default(); pairs.ends.len() * pairs.bins()]);
        let (failed, is_failed) = (Mutex::new(None), AtomicBool::new(false));
        let run = |stream: usize| -> Result<(), SiteError> {
            let device = self
                .devices
                .get(stream % self.devices.len().max(1))
                .ok_or_else(|| GpuError::from("there is no GPU"))?;
            let mut sums = SiteSums::try_new(device, layout, &self.staging)?;
            while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                if is_failed.load(Ordering::Relaxed) {
                    return Ok(());
                }
                workers.check()?;
                sums.add(pairs, job, workers)?;
            }
            sums.take(&mut totals.lock())?;
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
            None => Ok(Some(totals.into_inner())),
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

/// Why sums are not computed.
#[derive(Debug)]
pub enum SiteError {
    /// The device failed: the host can compute them.
    Device(GpuError),
    /// The query was stopped.
    Stopped(CountError),
}

impl From<GpuError> for SiteError {
    fn from(error: GpuError) -> Self {
        Self::Device(error)
    }
}

impl From<CountError> for SiteError {
    fn from(error: CountError) -> Self {
        Self::Stopped(error)
    }
}
