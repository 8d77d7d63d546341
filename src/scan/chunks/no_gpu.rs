//! Replaces `gpu` in builds without the feature `gpu`: there is never a device.

use std::sync::Arc;

use datafusion::common::{Result, exec_err};

use super::host_reason::HostReason;
use super::load::ArrayLoad;
use super::open::{ChunkRequest, ReadContext};
use super::prefetch::Prefetch;
use crate::codec::CodecChain;
use crate::counts::pairs::PairDevice;
use crate::counts::sites::SiteDevice;
use crate::scan::calls::filters::CallFilters;
use crate::scan::dataset::Dataset;
use crate::scan::options::{Backend, VczSettings};
use crate::store::ArrayMeta;

const OFF: &str = "built without the feature gpu";

/// A device, which cannot exist.
#[derive(Debug, Clone)]
pub enum Gpus {}

impl Gpus {
    /// No device.
    ///
    /// # Errors
    /// Always.
    pub async fn open(_settings: &VczSettings) -> Result<Self> {
        exec_err!(
            "vcz.backend = 'gpu': this program was {OFF}; use SET vcz.backend = 'auto' or 'host'"
        )
    }

    /// Not called, as there is no device.
    pub async fn with_storage(self, _settings: &VczSettings) -> Result<Self> {
        match self {}
    }

    /// Not called, as there is no device.
    pub fn filtering_calls(self, _filters_calls: bool) -> Self {
        match self {}
    }

    /// Not called, as there is no device.
    pub fn filters_calls(&self) -> bool {
        match *self {}
    }
}

/// Never, as there is no device.
pub fn count_pairs(_backend: Backend) -> bool {
    false
}

/// None, as there is no device.
///
/// # Errors
/// If one is required.
pub async fn pair_device(settings: &VczSettings) -> Result<Option<Arc<dyn PairDevice>>> {
    if settings.backend == Backend::Gpu {
        Gpus::open(settings).await?;
    }
    Ok(None)
}

/// None, as there is no device.
///
/// # Errors
/// If one is required.
pub async fn site_device(settings: &VczSettings) -> Result<Option<Arc<dyn SiteDevice>>> {
    pair_device(settings).await?;
    Ok(None)
}

/// Opens nothing, as there is no device.
pub fn open(
    device: &Gpus,
    _request: &ChunkRequest<'_>,
    _context: ReadContext<'_>,
) -> Result<Option<Prefetch>> {
    match *device {}
}

/// Never, as there is no device.
///
/// # Errors
/// Always the reason for the host.
pub fn can_filter(
    _dataset: &Dataset,
    _column: usize,
    _filters: &CallFilters,
) -> std::result::Result<(), HostReason> {
    Err(OFF.into())
}

/// Always the host.
///
/// # Errors
/// Always the reason for the host.
pub fn choose(_loads: Vec<ArrayLoad<'_>>) -> std::result::Result<String, HostReason> {
    Err(OFF.into())
}

/// The backend of an array over samples, always the host, and the reason.
pub fn of_array(_array: &ArrayMeta, _chain: &CodecChain) -> (&'static str, String) {
    ("host", OFF.to_string())
}

/// Returns at once, as no device is being started.
pub async fn wait_for_status() {}

/// Does nothing, as there is no device to start.
pub fn warm_up() {}
