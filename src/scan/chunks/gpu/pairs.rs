//! The GPUs of a query that count pairs for aggregates.

use std::sync::Arc;

use datafusion::common::Result;

use super::device::Gpus;
use crate::counts::pairs::PairDevice;
use crate::counts::sites::SiteDevice;
use crate::gpu::{self, EngineStatus};
use crate::scan::options::{Backend, VczSettings};

/// Whether GPUs would count pairs now.
pub fn count_pairs(backend: Backend) -> bool {
    match backend {
        Backend::Host => false,
        Backend::Gpu => true,
        Backend::Auto => matches!(gpu::status(), EngineStatus::Ready(_)),
    }
}

/// The GPUs that count pairs; `None` for the host. With `vcz.backend = 'gpu'`, waits until they are ready.
///
/// # Errors
/// The reason why there is no GPU, if one was required.
pub async fn pair_device(settings: &VczSettings) -> Result<Option<Arc<dyn PairDevice>>> {
    let gpus = gpus(settings).await?;
    Ok(gpus.and_then(|gpus| gpus.engine.pairs(gpus.is_required)))
}

/// The same, to sum over pairs of sites.
///
/// # Errors
/// As [`pair_device`].
pub async fn site_device(settings: &VczSettings) -> Result<Option<Arc<dyn SiteDevice>>> {
    let gpus = gpus(settings).await?;
    Ok(gpus.and_then(|gpus| gpus.engine.sites(gpus.is_required)))
}

async fn gpus(settings: &VczSettings) -> Result<Option<Gpus>> {
    if !count_pairs(settings.backend) {
        return Ok(None);
    }
    match Gpus::open(settings).await {
        Ok(gpus) => Ok(Some(gpus)),
        Err(error) if settings.backend == Backend::Gpu => Err(error),
        // The GPU was usable a moment ago, but no longer is.
        Err(error) => {
            log::warn!("the host counts pairs instead of the GPU: {error}");
            Ok(None)
        }
    }
}
