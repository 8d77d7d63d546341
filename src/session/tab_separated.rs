//! Files of tab-separated values: `COPY … TO 'x.tsv'`, `FROM 'x.tsv'` and `CREATE EXTERNAL TABLE … STORED AS TSV`. DataFusion reads and writes
//! them as CSV with another delimiter, but does not know their ending.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::common::config::ConfigFileType;
use datafusion::common::{GetExt, Result};
use datafusion::datasource::file_format::csv::CsvFormat;
use datafusion::datasource::file_format::{FileFormat, FileFormatFactory};

/// The format's name in `STORED AS`.
pub const FILE_TYPE: &str = "TSV";
/// The ending of its files.
pub const EXTENSION: &str = "tsv";

/// Creates CSV formats whose delimiter is a tab unless the options name another.
#[derive(Debug)]
pub struct TsvFormatFactory;

impl GetExt for TsvFormatFactory {
    fn get_ext(&self) -> String {
        EXTENSION.to_string()
    }
}

impl FileFormatFactory for TsvFormatFactory {
    fn create(
        &self,
        state: &dyn Session,
        format_options: &HashMap<String, String>,
    ) -> Result<Arc<dyn FileFormat>> {
        let mut options = state.default_table_options();
        options.set_config_format(ConfigFileType::CSV);
        options.csv.delimiter = b'\t';
        options.alter_with_string_hash_map(format_options)?;
        Ok(Arc::new(CsvFormat::default().with_options(options.csv)))
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        Arc::new(CsvFormat::default().with_delimiter(b'\t'))
    }
}
