//! Tables by location: `SELECT count(*) FROM 'gambX.vcz'`. Locations that are not VCZ stores go to DataFusion's own factory.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{DynamicFileCatalog, TableProvider, UrlTableFactory};
use datafusion::common::{Result, plan_datafusion_err, plan_err};
use datafusion::datasource::dynamic_file::DynamicListTableFactory;
use datafusion::execution::context::{SessionContext, SessionState};

use super::annotations;
use crate::functions::annotations::AnnotationFormat;
use crate::scan::{TableOptions, open_table};

/// Opens VCZ stores by location.
#[derive(Debug)]
struct VczUrlTableFactory {
    inner: Arc<DynamicListTableFactory>,
}

/// Whether a table name looks like the location of a VCZ store.
fn is_store(location: &str) -> bool {
    let trimmed = location.trim_end_matches('/');
    if trimmed.ends_with(".vcz") || trimmed.ends_with(".vcz.zip") {
        return true;
    }
    let path = Path::new(trimmed);
    !location.contains("://")
        && path.is_dir()
        && [".zgroup", ".zmetadata", "zarr.json"]
            .iter()
            .any(|document| path.join(document).is_file())
}

/// Whether a name that is no table is meant as a local file: it has a folder in it, or the ending of a file.
fn looks_like_a_file(name: &str) -> bool {
    const ENDINGS: [&str; 11] = [
        "parquet", "csv", "tsv", "json", "ndjson", "avro", "arrow", "gz", "zip", "vcf", "bcf",
    ];
    let ending = Path::new(name)
        .extension()
        .and_then(|ending| ending.to_str());
    !name.contains("://")
        && (name.contains('/')
            || ending.is_some_and(|ending| ENDINGS.contains(&ending.to_ascii_lowercase().as_str())))
}

#[async_trait]
impl UrlTableFactory for VczUrlTableFactory {
    async fn try_new(&self, url: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let annotated = AnnotationFormat::of_file(url);
        if annotated.is_none() && !is_store(url) {
            let found = self.inner.try_new(url).await?;
            return match found {
                None if looks_like_a_file(url) && !Path::new(url).exists() => plan_err!(
                    "there is no table and no file '{url}'; files that can be read are VCZ stores (.vcz, .vcz.zip, folders with \
                     Zarr metadata), .gff3, .gtf, .bed, .parquet, .csv, .json, .avro and .arrow"
                ),
                found => Ok(found),
            };
        }
        let session = self.inner.session_store().get_session().upgrade();
        let state = session.and_then(|session| {
            session
                .read()
                .as_any()
                .downcast_ref::<SessionState>()
                .cloned()
        });
        let state = state.ok_or_else(|| plan_datafusion_err!("the session is gone"))?;
        if let Some(format) = annotated {
            return annotations::open(&state, url, format).await.map(Some);
        }
        Ok(Some(Arc::new(
            open_table(&state, url, &TableOptions::default()).await?,
        )))
    }
}

/// Turns on tables by location in `ctx`.
pub fn enable(ctx: &SessionContext) {
    let factory = Arc::new(DynamicListTableFactory::default());
    factory.session_store().with_state(ctx.state_weak_ref());
    let catalogs = Arc::clone(ctx.state_ref().read().catalog_list());
    let factory = Arc::new(VczUrlTableFactory { inner: factory });
    ctx.register_catalog_list(Arc::new(DynamicFileCatalog::new(catalogs, factory)));
}
