//! Tables by location: `SELECT count(*) FROM 'gambX.vcz'`. Locations that are not VCZ stores go to DataFusion's own factory.

use std::path::PathBuf;
use std::sync::Arc;

use datafusion::catalog::{DynamicFileCatalog, TableProvider, UrlTableFactory};
use datafusion::common::{Result, plan_datafusion_err};
use datafusion::datasource::dynamic_file::DynamicListTableFactory;
use datafusion::execution::context::{SessionContext, SessionState};
use futures::future::BoxFuture;

use super::annotations;
use crate::functions::annotations::AnnotationFormat;
use crate::scan::{TableOptions, blocking, open_table};

/// Opens VCZ stores by location.
#[derive(Debug)]
struct VczUrlTableFactory {
    inner: Arc<DynamicListTableFactory>,
}

/// Whether a table name looks like the location of a VCZ store.
async fn is_store(location: &str) -> Result<bool> {
    let trimmed = location.trim_end_matches('/');
    let endings = [".vcz", ".vcz.zip", ".zarr", ".zarr.zip"];
    if endings.iter().any(|ending| trimmed.ends_with(ending)) {
        return Ok(true);
    }
    if location.contains("://") {
        return Ok(false);
    }
    let path = PathBuf::from(trimmed);
    let has_metadata = move || {
        let documents = [".zgroup", ".zmetadata", "zarr.json"];
        path.is_dir() && documents.iter().any(|name| path.join(name).is_file())
    };
    blocking(has_metadata).await
}

impl VczUrlTableFactory {
    /// The table at a location, if there is one.
    fn opened<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<Option<Arc<dyn TableProvider>>>> {
        Box::pin(async move {
            let annotated = AnnotationFormat::of_file(url);
            if annotated.is_none() && !is_store(url).await? {
                return self.inner.try_new(url).await;
            }
            let session = self.inner.session_store().get_session().upgrade();
            let state = session.and_then(|session| {
                session
                    .read()
                    .as_any()
                    .downcast_ref::<SessionState>()
                    .cloned()
            });
            let state = state.ok_or_else(|| plan_datafusion_err!("the session was dropped"))?;
            // A table may have the name of a file that is not there.
            let path = PathBuf::from(url);
            let is_missing = move || !path.exists();
            if annotated.is_some() && !url.contains("://") && blocking(is_missing).await? {
                return Ok(None);
            }
            if let Some(format) = annotated {
                return annotations::open(&state, url, format).await.map(Some);
            }
            Ok(Some(Arc::new(
                open_table(&state, url, &TableOptions::default()).await?,
            )))
        })
    }
}

impl UrlTableFactory for VczUrlTableFactory {
    boxed_methods! {
        fn try_new<'a, 'u>(&'a self, url: &'u str) -> Result<Option<Arc<dyn TableProvider>>> = Self::opened;
    }
}

/// Enables tables by location in `ctx`.
pub fn enable(ctx: &SessionContext) {
    let factory = Arc::new(DynamicListTableFactory::default());
    factory.session_store().with_state(ctx.state_weak_ref());
    let catalogs = Arc::clone(ctx.state_ref().read().catalog_list());
    let factory = Arc::new(VczUrlTableFactory { inner: factory });
    ctx.register_catalog_list(Arc::new(DynamicFileCatalog::new(catalogs, factory)));
}
