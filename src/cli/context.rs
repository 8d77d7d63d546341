//! [`CliSession`]: the session in which the `datafusion-cli` crate runs statements. That crate creates one object store per bucket, from
//! the options of the last table. A VCZ table has its own object store, with more options than that crate knows.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::config::{ConfigEntry, ConfigExtension, ExtensionOptions};
use datafusion::common::{Result, config_err};
use datafusion::dataframe::DataFrame;
use datafusion::execution::TaskContext;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use datafusion::prelude::SessionContext;
use datafusion_cli::cli_context::CliSessionContext;
use datafusion_cli::object_storage::{AwsOptions, GcpOptions};
use futures::future::BoxFuture;
use object_store::ObjectStore;
use parking_lot::Mutex;
use url::Url;

use crate::scan::RemoteOptions;
use crate::session::FILE_TYPE;

/// A session for the functions of `datafusion-cli`.
pub struct CliSession {
    ctx: SessionContext,
    /// Object stores that were created for a statement that has not run yet. They are not registered if the statement creates its own.
    made: Mutex<Vec<(Url, Arc<dyn ObjectStore>)>>,
}

impl CliSession {
    /// The session for the CLI.
    pub fn new(ctx: &SessionContext) -> Self {
        Self {
            ctx: ctx.clone(),
            made: Mutex::default(),
        }
    }
}

impl CliSession {
    /// Runs a statement.
    fn executed(&self, plan: LogicalPlan) -> BoxFuture<'_, Result<DataFrame>> {
        Box::pin(async move {
            let made = std::mem::take(&mut *self.made.lock());
            let makes_its_own = match &plan {
                LogicalPlan::Ddl(DdlStatement::CreateExternalTable(table)) => {
                    let is_ours = table.file_type.eq_ignore_ascii_case(FILE_TYPE);
                    if !is_ours {
                        check_known(&table.options)?;
                    }
                    is_ours
                        && table
                            .options
                            .keys()
                            .any(|key| RemoteOptions::has_prefix(key))
                }
                LogicalPlan::Copy(copy) => {
                    check_known(&copy.options)?;
                    false
                }
                _ => false,
            };
            if !makes_its_own {
                for (url, store) in made {
                    self.ctx.register_object_store(&url, store);
                }
            }
            self.ctx.execute_logical_plan(plan).await
        })
    }
}

impl CliSessionContext for CliSession {
    /// Called before a statement is planned, never while it is.
    fn task_ctx(&self) -> Arc<TaskContext> {
        // Left by a statement that failed.
        self.made.lock().clear();
        self.ctx.task_ctx()
    }

    fn session_state(&self) -> SessionState {
        self.ctx.state()
    }

    fn register_object_store(
        &self,
        url: &Url,
        object_store: Arc<dyn ObjectStore>,
    ) -> Option<Arc<dyn ObjectStore>> {
        self.made.lock().push((url.clone(), object_store));
        None
    }

    /// Called before the options of a table are checked. Registers extensions that accept every option of object stores.
    fn register_table_options_extension_from_scheme(&self, _scheme: &str) {
        let ctx = &self.ctx;
        ctx.register_table_options_extension(AnyAws::default());
        ctx.register_table_options_extension(AnyGcp::default());
        ctx.register_table_options_extension(Ignored::<'a'>);
        ctx.register_table_options_extension(Ignored::<'h'>);
        ctx.register_table_options_extension(Ignored::<'r'>);
    }

    boxed_methods! {
        fn execute_logical_plan<'a>(&'a self, plan: LogicalPlan) -> Result<DataFrame> = Self::executed;
    }
}

/// Checks that the DataFusion CLI knows these options of a table that is not a VCZ table.
fn check_known(options: &HashMap<String, String>) -> Result<()> {
    for (key, value) in options {
        match key.split_once('.').map_or("", |(prefix, _)| prefix) {
            "aws" => AwsOptions::default().set(key, value)?,
            "gcp" => GcpOptions::default().set(key, value)?,
            "azure" | "http" | "retry" => {
                return config_err!("the option '{key}' is for tables STORED AS {FILE_TYPE} only");
            }
            _ => {}
        }
    }
    Ok(())
}

/// [`AwsOptions`] that ignore unknown options.
#[derive(Debug, Clone, Default)]
struct AnyAws {
    known: AwsOptions,
}

impl ExtensionOptions for AnyAws {
    /// The CLI asks for its own type.
    fn as_any(&self) -> &dyn Any {
        &self.known
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        &mut self.known
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        // Unknown options are checked later, for VCZ tables and for others.
        let _ = self.known.set(key, value);
        if self.known.skip_signature == Some(true) && self.known.access_key_id.is_none() {
            // Without credentials the CLI looks for some, which takes seconds on a machine that has none. These are not sent.
            self.known.access_key_id = Some(String::new());
            self.known.secret_access_key = Some(String::new());
        }
        if self.known.endpoint.is_some() && self.known.region.is_none() {
            // Otherwise the CLI asks Amazon for the region of a bucket that is on another server.
            let region =
                std::env::var("AWS_REGION").or_else(|_| std::env::var("AWS_DEFAULT_REGION"));
            self.known.region = Some(region.unwrap_or_else(|_| "us-east-1".to_string()));
        }
        Ok(())
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        vec![]
    }
}

impl ConfigExtension for AnyAws {
    const PREFIX: &'static str = AwsOptions::PREFIX;
}

/// [`GcpOptions`] that ignore unknown options.
#[derive(Debug, Clone, Default)]
struct AnyGcp {
    known: GcpOptions,
}

impl ExtensionOptions for AnyGcp {
    /// The CLI asks for its own type.
    fn as_any(&self) -> &dyn Any {
        &self.known
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        &mut self.known
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        let _ = self.known.set(key, value);
        Ok(())
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        vec![]
    }
}

impl ConfigExtension for AnyGcp {
    const PREFIX: &'static str = GcpOptions::PREFIX;
}

/// Options that only VCZ tables have: `azure.`, `http.` and `retry.`, by their first letters.
#[derive(Debug, Clone)]
struct Ignored<const PREFIX: char>;

impl<const P: char> ExtensionOptions for Ignored<P> {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, _key: &str, _value: &str) -> Result<()> {
        Ok(())
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        vec![]
    }
}

impl<const P: char> ConfigExtension for Ignored<P> {
    const PREFIX: &'static str = match P {
        'a' => "azure",
        'h' => "http",
        _ => "retry",
    };
}
