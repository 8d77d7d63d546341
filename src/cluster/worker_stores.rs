//! [`WorkerStores`]: the tables that a worker has opened, by the locations and options of their stores.
//!
//! Invariant: a table is used only if its stores contain what the coordinator's do.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use datafusion::common::{Result, exec_err};
use futures::future::join_all;
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use crate::scan::{TableOrigin, VczTable, shown_location};

/// Opens a table.
pub type OpenTableFn = dyn Fn(TableOrigin) -> Pin<Box<dyn Future<Output = Result<Arc<VczTable>>> + Send>>
    + Send
    + Sync;

/// How a worker opens tables.
#[derive(Clone)]
pub struct OpenTable(pub Arc<OpenTableFn>);

/// The most tables that are kept open.
const MOST_TABLES: usize = 64;

/// A table of a distributed plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredTable {
    /// How its stores are opened.
    pub origin: TableOrigin,
    /// What its stores must contain.
    pub content_key: String,
}

type Opened = Arc<OnceCell<Arc<VczTable>>>;

/// The tables that a worker has opened.
pub struct WorkerStores {
    open: OpenTable,
    /// The latest last.
    tables: Mutex<VecDeque<(StoredTable, Opened)>>,
}

impl std::fmt::Debug for WorkerStores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerStores").finish_non_exhaustive()
    }
}

impl WorkerStores {
    /// No tables yet; `open` opens them.
    pub fn new(open: OpenTable) -> Self {
        Self {
            open,
            tables: Mutex::default(),
        }
    }

    /// The table, opened now if it was not before.
    ///
    /// # Errors
    /// If its stores cannot be opened here, or contain something else than the coordinator's.
    pub async fn get(&self, table: &StoredTable) -> Result<Arc<VczTable>> {
        let opened = self.entry(table);
        if let Some(known) = opened.get()
            && !is_current(known).await
        {
            self.forget(&opened);
            return Box::pin(self.get(table)).await;
        }
        let open = || async {
            let found = (self.open.0)(table.origin.clone()).await?;
            let key = found.stores().content_key();
            if key != table.content_key {
                return exec_err!(
                    "the stores at {} are not those that the coordinator has opened: both must have the same data at the same locations, and \
                     tables of stores that were written again must be created again",
                    shown(&table.origin)
                );
            }
            Ok(found)
        };
        let found = opened.get_or_try_init(open).await;
        if found.is_err() {
            // The next query tries again.
            self.forget(&opened);
        }
        found.cloned()
    }

    fn forget(&self, opened: &Opened) {
        let mut tables = self.tables.lock();
        tables.retain(|(_, known)| !Arc::ptr_eq(known, opened));
    }

    fn entry(&self, table: &StoredTable) -> Opened {
        let mut tables = self.tables.lock();
        let at = tables.iter().position(|(known, _)| known == table);
        let entry = match at.and_then(|at| tables.remove(at)) {
            Some(entry) => entry,
            None => (table.clone(), Opened::default()),
        };
        let opened = Arc::clone(&entry.1);
        tables.push_back(entry);
        if tables.len() > MOST_TABLES {
            tables.pop_front();
        }
        opened
    }
}

/// Whether the stores of a table are still those that were opened, as far as their metadata documents, or the files of archives, tell.
async fn is_current(table: &VczTable) -> bool {
    let members = table.stores().members().iter();
    let checks = members.map(|member| member.dataset.store().is_current());
    join_all(checks)
        .await
        .into_iter()
        .all(|is_current| is_current)
}

/// The locations for messages.
fn shown(origin: &TableOrigin) -> String {
    let shown = origin.locations.iter().take(3);
    let shown: Vec<String> = shown
        .map(|place| format!("'{}'", shown_location(place)))
        .collect();
    let more = match origin.locations.len().saturating_sub(3) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{}{more}", shown.join(", "))
}
