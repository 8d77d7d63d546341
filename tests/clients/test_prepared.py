"""Prepared statements with parameters, and settings that persist."""

import pyarrow as pa
import pytest

from server import rows, value


def test_parameters(server):
    connection = server.adbc()
    wanted = value(connection, "SELECT count(*) FROM sim WHERE variant_position BETWEEN 1000 AND 50000 AND variant_contig = 'chr1'")
    sql = "SELECT count(*) FROM sim WHERE variant_position BETWEEN ? AND ? AND variant_contig = ?"
    assert 0 < wanted == value(connection, sql, (1000, 50000, "chr1"))
    assert value(connection, sql.replace("?", "${}").format(2, 3, 1), ("chr1", 1000, 50000)) == wanted
    assert value(connection, sql, (1000, 50000, "nowhere")) == 0
    hostile = "chr1' OR '1' = '1"
    assert value(connection, sql, (1000, 50000, hostile)) == 0


def test_numbers_with_fractions(server):
    """They are not cut to the integers that they are compared with."""
    connection = server.adbc()
    position = value(connection, "SELECT min(variant_position) FROM sim")
    for condition, number in [("variant_position <= {}", position - 0.5), ("variant_position = {}", position + 0.5), ("variant_position < 100000 * {}", 0.5)]:
        sql = f"SELECT count(*) FROM sim WHERE {condition}"
        assert value(connection, sql.format("?"), (number,)) == value(connection, sql.format(number)), condition
    assert value(connection, "SELECT count(*) FROM sim WHERE variant_position < 100000 * ?", (0.5,)) > 0


def test_the_functions_of_the_planner_cannot_be_called(server):
    for call in ["_array_agg_filtered(TRUE)", "_array_agg_filtered(1, 2)", "_string_agg_filtered(1, TRUE)"]:
        with pytest.raises(Exception, match="(?i)function"):
            value(server.adbc(), f"SELECT {call} FROM sim")


def test_populations_and_table_functions_as_parameters(server):
    connection = server.adbc()
    wanted = value(connection, "SELECT sfs(call_genotype, 'second') FROM sim")
    assert value(connection, "SELECT sfs(call_genotype, ?) FROM sim", ("second",)) == wanted
    windows = value(connection, "SELECT count(*) FROM genome_windows('sim', 1000)")
    assert value(connection, "SELECT count(*) FROM genome_windows(?, ?)", ("sim", 1000)) == windows
    with pytest.raises(Exception, match="INVALID_ARGUMENT|InvalidArgument|no population"):
        value(connection, "SELECT sfs(call_genotype, ?) FROM sim", ("nobody",))


def test_one_statement_many_times(server):
    connection = server.adbc()
    wanted = {row["c"]: row["n"] for row in rows(connection, "SELECT variant_contig AS c, count(*) AS n FROM sim GROUP BY 1")}
    with connection.cursor() as cursor:
        cursor.adbc_prepare("SELECT count(*) AS n FROM sim WHERE variant_contig = ?")
        for contig in list(wanted) * 5:
            cursor.execute("SELECT count(*) AS n FROM sim WHERE variant_contig = ?", (contig,))
            assert cursor.fetchall() == [(wanted[contig],)]
    with connection.cursor() as cursor:
        schema = cursor.adbc_prepare("SELECT variant_position FROM sim WHERE variant_position < $1 AND variant_contig = $2")
        assert [field.type for field in schema] == [pa.int32(), pa.string()]


def test_wrong_parameters(server):
    connection = server.adbc()
    sql = "SELECT count(*) FROM sim WHERE variant_position < ?"
    for parameters in [("a",), (1, 2)]:
        with pytest.raises(Exception):
            value(connection, sql, parameters)
    with pytest.raises(Exception, match="no value|has 1 parameters"):
        value(connection, sql)
    assert value(connection, sql, (0,)) == 0


def test_several_rows_of_parameters(server):
    connection = server.adbc()
    contigs = ["chr1", "chr2", "nowhere"]
    sql = "SELECT count(*) AS n FROM sim WHERE variant_contig = ? AND variant_position > ?"
    wanted = [value(connection, sql, (contig, 1000)) for contig in contigs]
    assert sum(wanted) > 0
    batch = pa.record_batch({"contig": contigs, "position": pa.array([1000] * 3, pa.int64())})
    assert [row["n"] for row in rows(connection, sql, batch)] == wanted
    # Where planning needs the values.
    many = pa.record_batch({"n": pa.array([3, 5], pa.int64())})
    assert [row["n"] for row in rows(connection, "SELECT count(*) AS n FROM generate_series(1, ?)", many)] == [3, 5]
    with pytest.raises(Exception, match="1 to 1000 rows of parameters, found 1001"):
        rows(connection, sql, pa.record_batch({"contig": ["chr1"] * 1001, "position": pa.array([1] * 1001, pa.int64())}))
    with connection.cursor() as cursor, pytest.raises(Exception, match="execute it as a query"):
        cursor.executemany("SELECT 1 + ?", [(1,), (2,)])


def test_statements_are_closed(server):
    before = server.metric("vcz_prepared_statements")
    connection = server.adbc()
    for number in range(300):
        assert value(connection, "SELECT 1 + ?", (number,)) == number + 1
    connection.close()
    assert server.metric("vcz_prepared_statements") == before
    server.idle()


def test_settings_persist_for_their_client_only(server):
    one, two = server.adbc(), server.adbc()
    rows(one, "SET datafusion.execution.batch_size = 7")
    rows(one, "SET vcz.backend = 'host'")
    assert rows(one, "SHOW datafusion.execution.batch_size")[0]["value"] == "7"
    assert rows(one, "SHOW vcz.backend")[0]["value"] == "host"
    assert rows(two, "SHOW datafusion.execution.batch_size")[0]["value"] == "8192"
    assert rows(two, "SHOW vcz.backend")[0]["value"] == "auto"
    with one.cursor() as cursor:
        cursor.execute("SELECT variant_position FROM sim")
        assert max(batch.num_rows for batch in cursor.fetch_record_batch()) == 7
    rows(one, "RESET datafusion.execution.batch_size")
    assert rows(one, "SHOW datafusion.execution.batch_size")[0]["value"] == "8192"
    # As an update too, as JDBC does it.
    with two.cursor() as cursor:
        cursor.adbc_statement.set_sql_query("SET flight.compression = 'lz4'")
        cursor.adbc_statement.execute_update()
    assert rows(two, "SHOW flight.compression")[0]["value"] == "lz4"
