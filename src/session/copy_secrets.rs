//! Credentials in the options and the location of COPY, which DataFusion shows in the statement's plan: they are moved out of the plan before
//! it is shown.
//!
//! ```text
//! CopyTo: format=vcz output_url=s3://… options: (aws.secret_access_key XYZ)
//!   ->  CopyTo: format=vcz output_url=s3://… options: (aws.secret_access_key ***)
//! ```
//!
//! The file type of the new node holds them, and puts them back where the format is created. What DataFusion wrote down of the plan
//! before the analyzer ran, for EXPLAIN VERBOSE, is cleaned by [`without_secrets`] on the way to the physical planner.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::config::ConfigOptions;
use datafusion::common::file_options::file_type::FileType;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{GetExt, Result, Statistics};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::{
    FileFormat, FileFormatFactory, file_type_to_format, format_as_file_type,
};
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::datasource::physical_plan::{FileScanConfig, FileSinkConfig, FileSource};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::logical_expr::dml::CopyTo;
use datafusion::logical_expr::{Explain, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;
use datafusion::physical_expr::LexRequirement;
use datafusion::physical_plan::ExecutionPlan;
use object_store::{ObjectMeta, ObjectStore};

use crate::scan::{RemoteOptions, shown_location};

/// What is shown instead of a credential.
const HIDDEN: &str = "***";

/// The rule.
#[derive(Debug)]
pub struct HideCopySecrets;

impl AnalyzerRule for HideCopySecrets {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_down(|node| match node {
            LogicalPlan::Copy(copy) => match Secrets::of(&copy) {
                Some(secrets) => Ok(Transformed::yes(LogicalPlan::Copy(hide(copy, secrets)?))),
                None => Ok(Transformed::no(LogicalPlan::Copy(copy))),
            },
            other => Ok(Transformed::no(other)),
        })
        .map(|transformed| transformed.data)
    }

    fn name(&self) -> &str {
        "vcz_hide_copy_secrets"
    }
}

/// What a COPY must not show.
#[derive(Clone, Default)]
struct Secrets {
    options: HashMap<String, String>,
    /// The location, if a part of it is a credential.
    url: Option<String>,
}

/// The values are never shown.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.options.keys()).finish()
    }
}

impl Secrets {
    /// Those of a statement whose plan has not been through the rule; `None` if there are none.
    fn of(copy: &CopyTo) -> Option<Self> {
        if hidden(&copy.file_type).is_some() {
            return None;
        }
        let options = copy.options.iter();
        let options: HashMap<String, String> = options
            .filter(|(key, _)| RemoteOptions::may_be_secret(key))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        let is_open = shown_location(&copy.output_url) == copy.output_url;
        let url = (!is_open).then(|| copy.output_url.clone());
        (!options.is_empty() || url.is_some()).then_some(Self { options, url })
    }

    /// A text of a plan without them.
    fn clean(&self, text: &str) -> String {
        let mut text = text.to_string();
        for (key, value) in &self.options {
            // As a plan shows them, and as JSON does.
            for between in [" ", "="] {
                let shown = format!("{key}{between}{value}");
                text = text.replace(&shown, &format!("{key}{between}{HIDDEN}"));
            }
        }
        match &self.url {
            Some(url) => text.replace(url.as_str(), &shown_location(url)),
            None => text,
        }
    }
}

/// The secrets that a file type holds.
fn hidden(file_type: &Arc<dyn FileType>) -> Option<Secrets> {
    let factory = file_type_to_format(file_type).ok()?;
    let hiding = factory.downcast_ref::<HidingFactory>()?;
    Some(hiding.secrets.clone())
}

fn hide(copy: CopyTo, secrets: Secrets) -> Result<CopyTo> {
    let inner = file_type_to_format(&copy.file_type)?;
    let mut options = copy.options;
    for key in secrets.options.keys() {
        options.insert(key.clone(), HIDDEN.to_string());
    }
    let shown = shown_location(&copy.output_url);
    let file_type = format_as_file_type(Arc::new(HidingFactory { inner, secrets }));
    Ok(CopyTo::new(
        copy.input,
        shown,
        copy.partition_by,
        file_type,
        options,
    ))
}

/// `plan` without the secrets of a COPY in what EXPLAIN VERBOSE shows of the time before the analyzer; `None` if there is nothing to hide.
pub fn without_secrets(plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    let LogicalPlan::Explain(explain) = plan else {
        return Ok(None);
    };
    let mut all: Vec<Secrets> = vec![];
    explain.plan.apply(|node| {
        if let LogicalPlan::Copy(copy) = node {
            all.extend(hidden(&copy.file_type).or_else(|| Secrets::of(copy)));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    if all.is_empty() {
        return Ok(None);
    }
    let mut stringified_plans = explain.stringified_plans.clone();
    for shown in &mut stringified_plans {
        let cleaned = all
            .iter()
            .fold(shown.plan.to_string(), |text, secrets| secrets.clean(&text));
        shown.plan = Arc::new(cleaned);
    }
    Ok(Some(LogicalPlan::Explain(Explain {
        stringified_plans,
        ..explain.clone()
    })))
}

/// Creates a format with the secrets that the plan does not show.
#[derive(Debug)]
struct HidingFactory {
    inner: Arc<dyn FileFormatFactory>,
    secrets: Secrets,
}

impl GetExt for HidingFactory {
    fn get_ext(&self) -> String {
        self.inner.get_ext()
    }
}

impl FileFormatFactory for HidingFactory {
    fn create(
        &self,
        state: &dyn Session,
        format_options: &HashMap<String, String>,
    ) -> Result<Arc<dyn FileFormat>> {
        let mut options = format_options.clone();
        options.extend(self.secrets.options.clone());
        let inner = self.inner.create(state, &options)?;
        Ok(match &self.secrets.url {
            None => inner,
            Some(url) => Arc::new(HidingFormat {
                inner,
                url: url.clone(),
            }),
        })
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        self.inner.default()
    }
}

/// A format that writes to a location that the plan does not show.
struct HidingFormat {
    inner: Arc<dyn FileFormat>,
    url: String,
}

impl fmt::Debug for HidingFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[async_trait]
impl FileFormat for HidingFormat {
    fn get_ext(&self) -> String {
        self.inner.get_ext()
    }

    fn get_ext_with_compression(&self, compression: &FileCompressionType) -> Result<String> {
        self.inner.get_ext_with_compression(compression)
    }

    fn compression_type(&self) -> Option<FileCompressionType> {
        self.inner.compression_type()
    }

    async fn infer_schema(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        objects: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        self.inner.infer_schema(state, store, objects).await
    }

    async fn infer_stats(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<Statistics> {
        self.inner
            .infer_stats(state, store, table_schema, object)
            .await
    }

    async fn create_physical_plan(
        &self,
        state: &dyn Session,
        conf: FileScanConfig,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.inner.create_physical_plan(state, conf).await
    }

    async fn create_writer_physical_plan(
        &self,
        input: Arc<dyn ExecutionPlan>,
        state: &dyn Session,
        conf: FileSinkConfig,
        order_requirements: Option<LexRequirement>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let url = ListingTableUrl::parse(&self.url)?;
        let conf = FileSinkConfig {
            original_url: self.url.clone(),
            object_store_url: url.object_store(),
            table_paths: vec![url],
            ..conf
        };
        self.inner
            .create_writer_physical_plan(input, state, conf, order_requirements)
            .await
    }

    fn file_source(&self, table_schema: TableSchema) -> Arc<dyn FileSource> {
        self.inner.file_source(table_schema)
    }
}
