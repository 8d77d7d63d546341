//! Where pairs are counted: on the host, or on the GPUs of the session.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_plan::udaf::AggregateFunctionExpr;

use super::{keeps_matrix, pairs_size};
use crate::counts::pairs::PairDevice;
use crate::counts::sites::SiteDevice;
use crate::scan::{Backend, VczSettings, count_pairs, pair_device, site_device};

/// Bytes of counts over pairs from which on a GPU counts them: those of some 500 copies, or 350 individuals. The host counts those of fewer
/// in the time in which their rows are copied.
const FEWEST_BYTES: usize = 512 << 10;

/// Whether GPUs of a session with this backend count pairs whose counts have so many bytes.
fn is_for_device(backend: Backend, bytes: usize) -> bool {
    backend == Backend::Gpu || bytes >= FEWEST_BYTES
}

/// Bytes of the counts over pairs of a call. Of other calls `usize::MAX`: where they are counted does not depend on the number of samples.
pub(crate) fn device_bytes(call: &AggregateFunctionExpr) -> usize {
    match keeps_matrix(call.fun()) {
        true => pairs_size(call),
        false => usize::MAX,
    }
}

/// Whether a session with this backend has GPUs now that count pairs whose counts have so many bytes.
pub(crate) fn would_be_on_device(backend: Backend, bytes: usize) -> bool {
    is_for_device(backend, bytes) && count_pairs(backend)
}

/// The GPUs that count pairs whose counts have so many bytes; `None` for the host.
///
/// # Errors
/// The reason why there is no GPU, if the session demands one.
pub(crate) async fn device_for(
    settings: &VczSettings,
    bytes: usize,
) -> Result<Option<Arc<dyn PairDevice>>> {
    match is_for_device(settings.backend, bytes) {
        true => pair_device(settings).await,
        false => Ok(None),
    }
}

/// The GPUs that sum over pairs of sites, which decide by the number of pairs; `None` for the host.
///
/// # Errors
/// As [`device_for`].
pub(crate) async fn device_for_sites(
    settings: &VczSettings,
) -> Result<Option<Arc<dyn SiteDevice>>> {
    site_device(settings).await
}
