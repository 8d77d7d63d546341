//! Hides the locations of the server's tables in errors, plans and definitions: clients see the tables' names instead.

use std::cmp::Reverse;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, StringArray, StringViewArray};
use arrow::datatypes::DataType;
use datafusion::catalog::{CatalogProviderList, TableProvider};
use datafusion::common::Result;
use datafusion::common::cast::{as_string_array, as_string_view_array};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::listing::ListingTable;
use datafusion::datasource::{ViewTable, source_as_provider};
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use tonic::Status;

use super::error::CUT;
use super::tables;
use crate::scan::VczTable;
use crate::session::AnnotationTable;

/// Locations, longest first, and the name of a table that is stored there.
#[derive(Debug, Default)]
pub struct Locations(Vec<(String, String)>);

/// A location, and one of the tables and views that read it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    location: String,
    /// A view has the locations of its tables, whose own names say more: tables come first.
    is_view: bool,
    name: String,
}

impl Locations {
    /// The locations of the tables in `catalogs`.
    pub async fn of(catalogs: &dyn CatalogProviderList) -> Self {
        let mut found = Vec::new();
        for (_, catalog) in tables::each_catalog(catalogs) {
            for schema in catalog.schema_names() {
                let Some(schema) = catalog.schema(&schema) else {
                    continue;
                };
                for name in schema.table_names() {
                    // A table that cannot be read has no location to hide.
                    if let Ok(Some(table)) = schema.table(&name).await {
                        let is_view = table.is::<ViewTable>();
                        let places = locations_of(table.as_ref()).into_iter();
                        found.extend(places.map(|location| Place {
                            location,
                            is_view,
                            name: name.clone(),
                        }));
                    }
                }
            }
        }
        Self::new(found)
    }

    fn new(mut found: Vec<Place>) -> Self {
        found.sort();
        found.dedup_by(|next, kept| next.location == kept.location);
        // A location may be part of another.
        found.sort_by_key(|place| Reverse(place.location.len()));
        Self(
            found
                .into_iter()
                .map(|place| (place.location, place.name))
                .collect(),
        )
    }

    /// `text` with names of tables in place of their locations.
    pub fn hide(&self, text: &str) -> String {
        let mut text = text.to_string();
        for (location, name) in &self.0 {
            if text.contains(location) {
                text = text.replace(location, name);
            }
        }
        // A long text is cut, and may end with a part of a location.
        if let Some(kept) = text.strip_suffix(CUT) {
            let begun = self.0.iter().filter_map(|(location, _)| {
                let ends = location.char_indices().map(|(at, _)| at);
                ends.rev()
                    .find(|&at| at > 1 && kept.ends_with(&location[..at]))
            });
            if let Some(begun) = begun.max() {
                text = format!("{}{CUT}", &kept[..kept.len() - begun]);
            }
        }
        text
    }

    /// `status` with names of tables in place of their locations.
    pub fn hide_in_status(&self, status: Status) -> Status {
        let hidden = self.hide(status.message());
        if hidden == status.message() {
            return status;
        }
        Status::new(status.code(), hidden)
    }

    /// `rows` with names of tables in place of their locations in every string.
    ///
    /// # Errors
    /// If the rows cannot be built.
    pub fn hide_in_rows(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        let columns = rows.columns().iter().map(|column| self.hide_in(column));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        Ok(RecordBatch::try_new(rows.schema(), columns)?)
    }

    /// Replaces locations in the definitions of tables, which `information_schema.views` shows.
    ///
    /// # Errors
    /// If a table cannot be read or replaced.
    pub async fn hide_in_definitions(&self, catalogs: &dyn CatalogProviderList) -> Result<()> {
        for (_, catalog) in tables::each_catalog(catalogs) {
            for schema in catalog.schema_names() {
                let Some(schema) = catalog.schema(&schema) else {
                    continue;
                };
                for name in schema.table_names() {
                    let table = schema.table(&name).await?;
                    if let Some(hidden) = table.and_then(|table| self.redefined(table.as_ref())) {
                        schema.deregister_table(&name)?;
                        schema.register_table(name, hidden)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// `table` without locations in its definition; `None` if it has none there.
    fn redefined(&self, table: &dyn TableProvider) -> Option<Arc<dyn TableProvider>> {
        let definition = table.get_table_definition()?;
        let hidden = self.hide(definition);
        if hidden == definition {
            return None;
        }
        if let Some(view) = table.downcast_ref::<ViewTable>() {
            let plan = view.logical_plan().clone();
            return Some(Arc::new(ViewTable::new(plan, Some(hidden))));
        }
        let table = table.downcast_ref::<ListingTable>()?.clone();
        Some(Arc::new(table.with_definition(Some(hidden))))
    }

    fn hide_in(&self, column: &ArrayRef) -> Result<ArrayRef> {
        let hidden = |text: Option<&str>| text.map(|text| self.hide(text));
        Ok(match column.data_type() {
            DataType::Utf8 => {
                let texts = as_string_array(column)?.iter().map(hidden);
                Arc::new(texts.collect::<StringArray>())
            }
            DataType::Utf8View => {
                let texts = as_string_view_array(column)?.iter().map(hidden);
                Arc::new(texts.collect::<StringViewArray>())
            }
            _ => Arc::clone(column),
        })
    }
}

/// The ways in which messages may name the location of a table.
fn locations_of(table: &dyn TableProvider) -> Vec<String> {
    if let Some(table) = table.downcast_ref::<VczTable>() {
        let stores = table.stores();
        let members = stores.members().iter();
        let members = members.flat_map(|member| spellings(member.dataset.store().location()));
        let all = members.chain(spellings(stores.location()));
        // Workers name the absolute paths.
        let origin = table.origin().into_iter();
        let absolute = origin.flat_map(|origin| origin.locations.iter());
        return all
            .chain(absolute.flat_map(|place| spellings(place)))
            .collect();
    }
    if let Some(table) = table.downcast_ref::<AnnotationTable>() {
        return spellings(table.location());
    }
    if let Some(view) = table.downcast_ref::<ViewTable>() {
        return locations_in(view);
    }
    let Some(table) = table.downcast_ref::<ListingTable>() else {
        return vec![];
    };
    let spelled = |path: &datafusion::datasource::listing::ListingTableUrl| {
        let url = path.as_str().to_string();
        let mut all = spellings(url.strip_prefix("file://").unwrap_or(&url));
        all.extend([url, path.prefix().to_string()]);
        all
    };
    let all = table.table_paths().iter().flat_map(spelled);
    all.filter(|location| location.contains('/')).collect()
}

/// The locations of an operator's view: those of files that it reads as tables, and those that its text has as strings, such as masks.
fn locations_in(view: &ViewTable) -> Vec<String> {
    let mut found = Vec::new();
    // The closure does not fail.
    let _ = view.logical_plan().apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Ok(table) = source_as_provider(&scan.source)
        {
            found.extend(locations_of(table.as_ref()));
        }
        Ok(TreeNodeRecursion::Continue)
    });
    let text = view.definition().map_or("", String::as_str);
    let tokens = Tokenizer::new(&GenericDialect {}, text).tokenize();
    for token in tokens.into_iter().flatten() {
        let text = match token {
            Token::SingleQuotedString(text) | Token::DoubleQuotedString(text) => text,
            Token::Word(word) if word.quote_style.is_some() => word.value,
            _ => continue,
        };
        // Other strings may have slashes, too.
        if text.contains('/') && (text.contains("://") || Path::new(&text).exists()) {
            found.extend(spellings(&text));
        }
    }
    found
}

/// A path as it was given, absolute, and as object stores write it; a URL as it is.
fn spellings(location: &str) -> Vec<String> {
    if location.contains("://") {
        return vec![location.to_string()];
    }
    let mut all = Vec::new();
    // A name without a folder reveals nothing about the server, and may be a word of other messages.
    if location.contains('/') {
        all.push(location.to_string());
    }
    let absolute = [
        std::path::absolute(location).ok(),
        Path::new(location).canonicalize().ok(),
    ];
    for path in absolute.into_iter().flatten() {
        let path = path.display().to_string();
        all.extend([format!("file://{path}"), path.clone()]);
        if let Some(path) = path.strip_prefix('/').filter(|path| path.contains('/')) {
            all.push(path.to_string());
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn locations() -> Locations {
        let of = |location: &str, is_view: bool, name: &str| Place {
            location: location.to_string(),
            is_view,
            name: name.to_string(),
        };
        Locations::new(vec![
            of("/data/secret", false, "short"),
            of("/data/secret/sim.vcz.zip", true, "a_view"),
            of("/data/secret/sim.vcz.zip", false, "sim"),
        ])
    }

    #[test]
    fn names_stand_for_locations() {
        let locations = locations();
        assert_eq!(
            locations.hide("store '/data/secret/sim.vcz.zip': array 'a'"),
            "store 'sim': array 'a'"
        );
        assert_eq!(locations.hide("'/data/secret/x'"), "'short/x'");
        assert_eq!(locations.hide("nothing"), "nothing");
        let cut = format!("cannot read /data/secr{CUT}");
        assert_eq!(locations.hide(&cut), format!("cannot read {CUT}"));
        let status = locations.hide_in_status(Status::data_loss("/data/secret/sim.vcz.zip"));
        assert_eq!(
            (status.code(), status.message()),
            (tonic::Code::DataLoss, "sim")
        );
    }

    #[test]
    fn in_rows() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("at /data/secret"), None]));
        let views: ArrayRef = Arc::new(StringViewArray::from(vec![Some("/data/secret"), None]));
        let rows = RecordBatch::try_from_iter([("a", texts), ("b", views)]).unwrap();
        let hidden = locations().hide_in_rows(&rows).unwrap();
        let shown = arrow::util::pretty::pretty_format_batches(&[hidden])
            .unwrap()
            .to_string();
        assert!(
            shown.contains("at short") && !shown.contains("secret"),
            "{shown}"
        );
    }

    #[test]
    fn how_paths_are_written() {
        let all = spellings("tests/fixtures/sim.vcz.zip");
        assert!(all.iter().any(|path| path.starts_with("file:///")));
        assert!(all.iter().any(|path| path.starts_with('/')));
        assert!(all.contains(&"tests/fixtures/sim.vcz.zip".to_string()));
        assert!(!spellings("sim").contains(&"sim".to_string()));
        assert_eq!(spellings("s3://bucket/x"), ["s3://bucket/x"]);
    }
}
