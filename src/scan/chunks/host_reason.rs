//! [`HostReason`]: why the host decodes.

use crate::error::{VczError, reason_error};

reason_error! {
    /// Why the host, not a GPU, decodes an array or filters its calls. EXPLAIN shows it.
    HostReason
}

impl From<VczError> for HostReason {
    fn from(error: VczError) -> Self {
        error.to_string().into()
    }
}

#[cfg(feature = "gpu")]
impl From<crate::gpu::GpuError> for HostReason {
    fn from(error: crate::gpu::GpuError) -> Self {
        String::from(error).into()
    }
}
