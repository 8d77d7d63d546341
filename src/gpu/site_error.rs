//! [`SiteError`]: why a device does not sum over pairs of sites.

use super::error::GpuError;
use crate::counts::CountError;

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
