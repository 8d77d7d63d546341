//! [`GpuError`]: why a device, a library or a chunk cannot be used.

use crate::codec::CodecError;
use crate::counts::CountError;
use crate::error::reason_error;
use crate::store::StoreError;

reason_error! {
    /// Why a device or a library cannot be used, or a device cannot decode a chunk: what was found and what was expected. The scan
    /// shows it as the reason for the host, or as the error where the session demands a GPU.
    GpuError
}

/// Why the host decodes a chunk of which too few rows can stay on a device.
pub(super) const FEW_ROWS_STAY: &str = "too few of its rows can stay on the device";

impl GpuError {
    /// Whether too few rows of a chunk can stay on a device.
    pub fn is_few_rows_stay(&self) -> bool {
        **self == *FEW_ROWS_STAY
    }
}

impl From<CodecError> for GpuError {
    fn from(error: CodecError) -> Self {
        String::from(error).into()
    }
}

impl From<CountError> for GpuError {
    fn from(error: CountError) -> Self {
        String::from(error).into()
    }
}

impl From<StoreError> for GpuError {
    fn from(error: StoreError) -> Self {
        String::from(error).into()
    }
}
