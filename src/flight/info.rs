//! The server's description of itself and of its types: SqlInfo and XdbcTypeInfo.

use std::sync::LazyLock;

use arrow_flight::error::Result;
use arrow_flight::sql::metadata::{
    SqlInfoData, SqlInfoDataBuilder, XdbcTypeInfo, XdbcTypeInfoData, XdbcTypeInfoDataBuilder,
};
use arrow_flight::sql::{
    Nullable, Searchable, SqlInfo, SqlNullOrdering, SqlSupportedCaseSensitivity,
    SqlSupportedTransaction, XdbcDataType,
};

use super::config::MAX_SQL_BYTES;

/// The SqlInfo of a server; `allow_ddl` says whether clients may create tables.
pub fn sql_info(allow_ddl: bool) -> Result<SqlInfoData> {
    let mut info = SqlInfoDataBuilder::new();
    info.append(SqlInfo::FlightSqlServerName, "datafusion-vcz");
    info.append(SqlInfo::FlightSqlServerVersion, env!("CARGO_PKG_VERSION"));
    info.append(SqlInfo::FlightSqlServerArrowVersion, "1.3");
    info.append(SqlInfo::FlightSqlServerReadOnly, !allow_ddl);
    info.append(SqlInfo::FlightSqlServerSql, true);
    info.append(SqlInfo::FlightSqlServerSubstrait, false);
    info.append(
        SqlInfo::FlightSqlServerTransaction,
        SqlSupportedTransaction::None as i32,
    );
    info.append(SqlInfo::FlightSqlServerCancel, true);
    info.append(SqlInfo::FlightSqlServerBulkIngestion, false);
    info.append(SqlInfo::FlightSqlServerIngestTransactionsSupported, false);
    info.append(SqlInfo::SqlDdlCatalog, false);
    info.append(SqlInfo::SqlDdlSchema, false);
    info.append(SqlInfo::SqlDdlTable, allow_ddl);
    let sensitive = SqlSupportedCaseSensitivity::SqlCaseSensitivityCaseInsensitive as i32;
    // Identifiers are case-sensitive, quoted or not.
    info.append(SqlInfo::SqlIdentifierCase, sensitive);
    info.append(SqlInfo::SqlQuotedIdentifierCase, sensitive);
    info.append(SqlInfo::SqlIdentifierQuoteChar, "\"");
    info.append(SqlInfo::SqlAllTablesAreSelectable, true);
    info.append(
        SqlInfo::SqlNullOrdering,
        SqlNullOrdering::SqlNullsSortedHigh as i32,
    );
    info.append(SqlInfo::SqlSearchStringEscape, "\\");
    info.append(SqlInfo::SqlSupportsColumnAliasing, true);
    info.append(SqlInfo::SqlNullPlusNullIsNull, true);
    info.append(SqlInfo::SqlSupportsTableCorrelationNames, true);
    info.append(SqlInfo::SqlSupportsExpressionsInOrderBy, true);
    info.append(SqlInfo::SqlSupportsOrderByUnrelated, true);
    info.append(SqlInfo::SqlSupportsLikeEscapeClause, true);
    info.append(SqlInfo::SqlSupportsNonNullableColumns, true);
    info.append(SqlInfo::SqlCorrelatedSubqueriesSupported, true);
    info.append(SqlInfo::SqlSchemaTerm, "schema");
    info.append(SqlInfo::SqlCatalogTerm, "catalog");
    info.append(SqlInfo::SqlCatalogAtStart, true);
    info.append(SqlInfo::SqlTransactionsSupported, false);
    info.append(SqlInfo::SqlSavepointsSupported, false);
    info.append(SqlInfo::SqlNamedParametersSupported, false);
    info.append(SqlInfo::SqlBatchUpdatesSupported, false);
    info.append(SqlInfo::SqlSelectForUpdateSupported, false);
    info.append(SqlInfo::SqlStoredProceduresSupported, false);
    info.append(
        SqlInfo::SqlMaxStatementLength,
        i64::try_from(MAX_SQL_BYTES).unwrap_or(i64::MAX),
    );
    info.build()
}

/// The types of columns, by the names that SQL has for them.
pub fn type_info() -> Result<&'static XdbcTypeInfoData> {
    static TYPES: LazyLock<Result<XdbcTypeInfoData>> = LazyLock::new(build_types);
    TYPES
        .as_ref()
        .map_err(|error| arrow_flight::error::FlightError::ProtocolError(error.to_string()))
}

fn build_types() -> Result<XdbcTypeInfoData> {
    // Name, type, size in bits or characters, whether it is a number.
    let types = [
        ("BOOLEAN", XdbcDataType::XdbcBit, 1, false),
        ("TINYINT", XdbcDataType::XdbcTinyint, 8, true),
        ("SMALLINT", XdbcDataType::XdbcSmallint, 16, true),
        ("INT", XdbcDataType::XdbcInteger, 32, true),
        ("BIGINT", XdbcDataType::XdbcBigint, 64, true),
        ("FLOAT", XdbcDataType::XdbcFloat, 32, true),
        ("DOUBLE", XdbcDataType::XdbcDouble, 64, true),
        ("VARCHAR", XdbcDataType::XdbcVarchar, i32::MAX, false),
        ("DATE", XdbcDataType::XdbcDate, 10, false),
        ("TIMESTAMP", XdbcDataType::XdbcTimestamp, 29, false),
    ];
    let mut builder = XdbcTypeInfoDataBuilder::new();
    for (name, data_type, size, is_number) in types {
        let is_text = name == "VARCHAR";
        builder.append(XdbcTypeInfo {
            type_name: name.to_string(),
            data_type,
            column_size: Some(size),
            literal_prefix: is_text.then(|| "'".to_string()),
            literal_suffix: is_text.then(|| "'".to_string()),
            nullable: Nullable::NullabilityNullable,
            case_sensitive: is_text,
            searchable: Searchable::Full,
            unsigned_attribute: is_number.then_some(false),
            sql_data_type: data_type,
            num_prec_radix: is_number.then_some(2),
            ..XdbcTypeInfo::default()
        });
    }
    builder.build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_can_be_built() {
        let info = sql_info(false).unwrap();
        let asked = [SqlInfo::FlightSqlServerReadOnly as u32];
        assert_eq!(info.record_batch(asked).unwrap().num_rows(), 1);
        assert!(info.record_batch([]).unwrap().num_rows() > 30);
        let types = type_info().unwrap();
        assert_eq!(types.record_batch(None).unwrap().num_rows(), 10);
        let integers = Some(XdbcDataType::XdbcInteger as i32);
        assert_eq!(types.record_batch(integers).unwrap().num_rows(), 1);
    }
}
