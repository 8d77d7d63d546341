"""Columns arrive as clients can read them: no views, no dictionaries, and the schema that was announced."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.flight as flight
import pytest

from protocol import query, read
from server import FIXTURES, Server, rows, value
from stores import genotypes, wide_store

pytestmark = pytest.mark.alone

EXPECTED = json.loads((FIXTURES / "expected.json").read_text())


def plain(data_type):
    """Whether old clients know a type and all inside it."""
    if pa.types.is_dictionary(data_type) or "view" in str(data_type):
        return False
    return all(plain(data_type.field(i).type) for i in range(data_type.num_fields))


@pytest.fixture(scope="module")
def formats():
    with Server(FIXTURES / "formats.vcz.zip", FIXTURES / "wide_alleles.vcz.zip") as server:
        yield server


@pytest.mark.parametrize("table", ["formats", "wide_alleles"])
def test_every_column(formats, table):
    found, announced = read(formats.flight(), f"SELECT * FROM {table}")
    assert found.schema.equals(announced, check_metadata=True)
    assert found.num_rows > 0 and all(plain(field.type) for field in found.schema)
    found.validate(full=True)
    by_adbc = formats.adbc().cursor()
    by_adbc.execute(f"SELECT * FROM {table}")
    assert by_adbc.fetch_arrow_table().to_pylist() == found.to_pylist()


def test_strings_lists_and_dictionaries(server):
    sql = """SELECT arrow_cast('x', 'Dictionary(Int32, Utf8)') AS d, arrow_cast('y', 'Utf8View') AS v,
                    [arrow_cast('z', 'Utf8View')] AS l, named_struct('a', arrow_cast('w', 'Utf8View')) AS s, NULL AS n,
                    variant_allele, variant_contig, allele_counts(call_genotype, 'first') AS ac
             FROM sim LIMIT 3"""
    found, announced = read(server.flight(), sql)
    assert found.schema.equals(announced, check_metadata=True)
    assert found.to_pylist()[0].items() >= {"d": "x", "v": "y", "l": ["z"], "s": {"a": "w"}, "n": None}.items()
    copies = EXPECTED["sim.vcz"]["first"]["copies"]
    assert found.schema.field("ac").metadata[b"vcz.copies"] == str(copies).encode()


def test_an_empty_result_has_its_schema(server):
    found, announced = read(server.flight(), "SELECT variant_contig, call_genotype FROM sim WHERE variant_position < 0")
    assert found.num_rows == 0 and found.schema.equals(announced) and found.num_columns == 2


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_compression(server, compression):
    sql = "SELECT variant_position, call_genotype FROM sim"
    plain_rows, _ = read(server.flight(), sql)
    before = server.metric("vcz_sent_bytes_total")
    read(server.flight(), sql)
    uncompressed = server.metric("vcz_sent_bytes_total") - before
    connection = server.adbc()
    assert rows(connection, f"SET flight.compression = '{compression}'") == [{"name": "flight.compression", "value": compression}]
    before = server.metric("vcz_sent_bytes_total")
    with connection.cursor() as cursor:
        cursor.execute(sql)
        assert cursor.fetch_arrow_table().equals(plain_rows)
    assert server.metric("vcz_sent_bytes_total") - before < uncompressed / 2
    # By a header, for a client without SET.
    options = flight.FlightCallOptions(headers=[(b"x-vcz-compression", compression.encode())])
    before = server.metric("vcz_sent_bytes_total")
    assert read(server.flight(), sql, options)[0].equals(plain_rows)
    assert server.metric("vcz_sent_bytes_total") - before < uncompressed / 2


def test_rows_of_hundreds_of_kilobytes(tmp_path):
    samples = 150_000
    store = wide_store(tmp_path / "people.vcz", variants=40, samples=samples, rows=20)
    wanted = genotypes(20, samples)
    with Server(store) as server:
        client = server.flight()
        reader = client.do_get(client.get_flight_info(query("SELECT variant_position, call_genotype FROM people")).endpoints[0].ticket)
        seen = 0
        for chunk in reader:
            batch = chunk.data
            # 300 kB a row: cut to about 2 MiB.
            assert 1 <= batch.num_rows <= 7
            values = batch.column(1).values.values.to_numpy().reshape(batch.num_rows, samples, 2)
            for row, position in zip(values, batch.column(0).to_pylist()):
                assert np.array_equal(row, wanted[(position - 1) % 20])
                seen += 1
        assert seen == 40
        # ADBC takes messages of 16 MB; a row of its own always goes.
        connection = server.adbc()
        rows(connection, "SET flight.message_bytes = '64kB'")
        with connection.cursor() as cursor:
            cursor.execute("SELECT call_genotype FROM people WHERE variant_position <= 3")
            assert [batch.num_rows for batch in cursor.fetch_record_batch()] == [1, 1, 1]
        # What DataFusion gathers is bounded by bytes too: a filter that the scan does not answer, an order, a join.
        for sql in [
            "SELECT call_genotype FROM people WHERE genotype_counts(call_genotype)['het'] > 1",
            "SELECT call_genotype FROM people ORDER BY random() LIMIT 5",
            "SELECT a.call_genotype FROM people a JOIN people b ON a.variant_position = b.variant_position",
        ]:
            with connection.cursor() as cursor:
                cursor.execute(sql)
                assert cursor.fetch_arrow_table().num_rows in (5, 40)
        assert value(connection, "SELECT count(*) FROM people") == 40
        assert server.resident()[1] < 400 << 20
        server.idle()
