//! [`Call`]: one call of the function.

use std::sync::Arc;

use crate::counts::pairs::Shape;

/// The function's name.
pub(super) const NAME: &str = "vcz_sample_pairs";

/// What is computed.
#[derive(Clone, Debug)]
pub(super) struct Call {
    /// The call as text.
    pub(super) text: String,
    pub(super) shape: Shape,
    /// The samples' ids.
    pub(super) ids: Arc<[String]>,
    /// The least kinship.
    pub(super) least: Option<f64>,
    /// Those columns of the result that are wanted.
    pub(super) columns: Arc<[usize]>,
}
