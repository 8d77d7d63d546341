"""What clients ask before they query: catalogs, schemas, tables, columns, types, facts about the server, keys."""

import pyarrow as pa
import pyarrow.flight as flight

from protocol import command, query, read
from server import rows


def get(client, name, *fields):
    """The answer to a metadata command, whose schema must be the one announced."""
    descriptor = flight.FlightDescriptor.for_command(command(name, *fields))
    info = client.get_flight_info(descriptor)
    table = client.do_get(info.endpoints[0].ticket).read_all()
    assert table.schema.equals(info.schema)
    return table


def test_objects_through_adbc(server):
    connection = server.adbc()
    catalogs = connection.adbc_get_objects(depth="all").read_all().to_pylist()
    (catalog,) = [c for c in catalogs if c["catalog_name"] == "datafusion"]
    (schema,) = [s for s in catalog["catalog_db_schemas"] if s["db_schema_name"] == "public"]
    tables = {t["table_name"]: t for t in schema["db_schema_tables"]}
    assert set(tables) == {"sim", "accessible", "short"}
    assert tables["short"]["table_type"] == "VIEW"
    columns = [c["column_name"] for c in tables["sim"]["table_columns"]]
    assert {"variant_contig", "variant_position", "variant_allele", "call_genotype"} <= set(columns)
    one = connection.adbc_get_objects(depth="tables", table_name_filter="s_m").read_all().to_pylist()
    names = [t["table_name"] for c in one for s in c["catalog_db_schemas"] or [] for t in s["db_schema_tables"] or []]
    assert names == ["sim"]
    assert set(connection.adbc_get_table_types()) >= {"BASE TABLE", "VIEW"}


def test_table_schema_is_that_of_the_data(server):
    connection = server.adbc()
    schema = connection.adbc_get_table_schema("sim")
    data, _ = read(server.flight(), "SELECT * FROM sim LIMIT 1")
    assert schema.names == data.schema.names
    assert [field.type for field in schema] == [field.type for field in data.schema]


def test_info(server):
    info = server.adbc().adbc_get_info()
    assert info["vendor_name"] == "datafusion-vcz"
    client = server.flight()
    # In Go and Java: GetSqlInfo without numbers is everything.
    facts = {row["info_name"]: row["value"] for row in get(client, "CommandGetSqlInfo").to_pylist()}
    assert facts[3] is True, "read-only"
    assert facts[5] is False, "no Substrait"


def test_the_rest_is_well_formed(server):
    client = server.flight()
    assert get(client, "CommandGetCatalogs").column("catalog_name").to_pylist() == ["datafusion"]
    assert "public" in get(client, "CommandGetDbSchemas").column("db_schema_name").to_pylist()
    assert "VIEW" in get(client, "CommandGetTableTypes").column("table_type").to_pylist()
    types = get(client, "CommandGetXdbcTypeInfo")
    assert types.num_rows == 10 and "BIGINT" in types.column("type_name").to_pylist()
    assert get(client, "CommandGetPrimaryKeys", b"", b"", "sim").num_rows == 0
    for name in ["CommandGetExportedKeys", "CommandGetImportedKeys", "CommandGetCrossReference"]:
        table = get(client, name)
        assert table.num_rows == 0 and table.num_columns == 13


def test_schema_without_running(server):
    with server.adbc().cursor() as cursor:
        schema = cursor.adbc_execute_schema("SELECT variant_position, sfs(call_genotype) AS s FROM sim GROUP BY 1")
    assert schema.names == ["variant_position", "s"] and schema.field(0).type == pa.int32()
    client = server.flight()
    found = client.get_schema(query("SELECT 1 AS a")).schema
    assert found.names == ["a"]


def test_describe_and_show(server):
    connection = server.adbc()
    described = {row["column_name"]: row["data_type"] for row in rows(connection, "DESCRIBE sim")}
    assert described["variant_position"] == "Int32"
    assert "sim" in [row["table_name"] for row in rows(connection, "SHOW TABLES")]
    functions = rows(connection, "SELECT DISTINCT routine_name FROM information_schema.routines")
    assert {"sfs", "joint_sfs"} <= {row["routine_name"] for row in functions}
    samples = rows(connection, "SELECT * FROM vcz_samples('sim')")
    assert len(samples) == 30
    for plan in ["EXPLAIN SELECT sfs(call_genotype) FROM sim", "EXPLAIN ANALYZE SELECT sfs(call_genotype) FROM sim"]:
        assert "VczSource" in str(rows(connection, plan))
