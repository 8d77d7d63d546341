//! Replaces `build` in programs without the feature `cloud`.

use std::sync::Arc;

use datafusion::common::{Result, plan_err};
use object_store::ObjectStore;
use url::Url;

use super::options::RemoteOptions;

/// The object store of `url`, configured by `options`.
///
/// # Errors
/// Always.
pub async fn build(
    _url: &Url,
    shown: &str,
    _options: &RemoteOptions,
) -> Result<Arc<dyn ObjectStore>> {
    plan_err!(
        "'{shown}' cannot be reached by options: this program was built without the feature 'cloud' of datafusion-vcz. Build it with \
         the feature, or register an object store with RuntimeEnv::register_object_store"
    )
}
