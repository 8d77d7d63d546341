//! The one conversion from errors below the DataFusion boundary to DataFusion's own, so that users see the whole
//! chain and tests can downcast to [`VczError`].

use datafusion::common::DataFusionError;

use crate::error::VczError;

impl From<VczError> for DataFusionError {
    fn from(error: VczError) -> Self {
        DataFusionError::External(Box::new(error))
    }
}
