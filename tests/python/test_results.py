"""Results in pyarrow, pandas, polars, DuckDB and numpy, of the newest and the oldest supported versions."""

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.json
import pyarrow.parquet
import pytest

import vcz

SCAN = """
SELECT variant_contig AS contig, genome_bin(variant_position, 100000) AS start, count(*) AS sites,
       diversity(call_genotype, 'first') AS pi, sfs(call_genotype, 'first') AS spectrum
FROM sim GROUP BY 1, 2 ORDER BY 1, 2
"""


def test_every_reader_has_the_same_rows(db):
    scan = db.sql(SCAN)
    rows = scan.to_pylist()
    assert len(rows) > 3 and rows[0]["contig"] == "chr1"
    assert scan.to_arrow().to_pylist() == rows
    assert pa.table(scan).to_pylist() == rows
    assert scan.to_polars().to_dicts() == rows
    assert pl.DataFrame(scan).to_dicts() == rows
    frame = scan.to_pandas()
    assert list(frame.columns) == scan.columns
    assert frame["pi"].tolist() == [row["pi"] for row in rows]
    assert [list(cells) for cells in frame["spectrum"]] == [row["spectrum"] for row in rows]
    found = duckdb.sql("SELECT contig, start, sites, pi FROM scan ORDER BY 1, 2").fetchall()
    assert found == [(row["contig"], row["start"], row["sites"], row["pi"]) for row in rows]
    # A stream starts at its first batch, so that it may be asked for more than once.
    capsules = [scan.__arrow_c_stream__() for _ in range(10)]
    assert len(capsules) == 10 and pa.table(scan).num_rows == len(rows)


def test_numpy(db):
    columns = db.sql(SCAN).to_numpy()
    assert columns["pi"].dtype == np.float64 and columns["sites"].dtype == np.int64
    assert columns["spectrum"].shape == (len(columns["pi"]), 33)
    assert columns["contig"].dtype == object and columns["contig"][0] == "chr1"
    genotypes = db.sql("SELECT call_genotype FROM sim LIMIT 1000").to_numpy("call_genotype")
    assert genotypes.dtype == np.int8 and genotypes.ndim == 3 and genotypes.shape[::2] == (1000, 2)
    assert not genotypes.flags.writeable and not genotypes.flags.owndata
    with pytest.raises(ValueError):
        genotypes[0, 0, 0] = 1
    # It outlives what it came from.
    total = genotypes.sum(dtype=int)
    kept = db.sql("SELECT call_genotype FROM sim LIMIT 1000").to_arrow()["call_genotype"].combine_chunks()
    flat = kept.flatten()
    while pa.types.is_fixed_size_list(flat.type):
        flat = flat.flatten()
    assert total == int(np.asarray(flat, dtype=int).sum())
    nulls = db.sql("SELECT * FROM (VALUES (1, 'a', true), (NULL, NULL, false)) AS t(n, s, b)").to_numpy()
    assert np.isnan(nulls["n"][1]) and nulls["s"].tolist() == ["a", None] and nulls["b"].tolist() == [True, False]
    assert db.sql("SELECT [1, 2] AS l UNION ALL SELECT [3]").to_numpy().dtype == object
    with pytest.raises(KeyError, match="no column 'x'; the columns are n"):
        db.sql("SELECT 1 AS n").to_numpy("x")


def test_registered_rows(db):
    frames = {
        "pandas": pd.DataFrame({"k": ["chr1", "chr2"], "v": [1.5, 2.5]}),
        "polars": pl.DataFrame({"k": ["chr1", "chr2"], "v": [1.5, 2.5]}),
        "arrow": pa.table({"k": ["chr1", "chr2"], "v": [1.5, 2.5]}),
    }
    for name, frame in frames.items():
        db.register(name, frame)
        joined = db.sql(f"SELECT v, count(*) AS n FROM sim JOIN {name} ON k = variant_contig GROUP BY v ORDER BY v")
        assert [row["v"] for row in joined.to_pylist()] == [1.5, 2.5]
    # A generator of batches is Python code that runs while the query waits.
    batches = [pa.record_batch({"i": [index]}) for index in range(3)]
    reader = pa.RecordBatchReader.from_batches(batches[0].schema, iter(batches))
    assert db.register("generated", reader).sql("SELECT sum(i) AS s FROM generated").to_pylist() == [{"s": 3}]
    # A result of this connection is a view; of another it is read.
    view = db.sql("SELECT i FROM generated WHERE i > 0")
    assert db.register("view", view).sql("SELECT count(*) AS n FROM view").to_pylist() == [{"n": 2}]
    with vcz.connect() as other:
        other.register("scan", db.sql(SCAN))
        other.register("again", db.sql("SELECT call_genotype FROM sim LIMIT 7"))
        assert other.sql("SELECT count(*) AS n FROM scan").to_pylist()[0]["n"] == len(db.sql(SCAN).to_pylist())
        assert other.sql("SELECT count(*) AS n FROM again").to_pylist() == [{"n": 7}]
    assert db.tables() == ["arrow", "generated", "pandas", "polars", "sim", "view"]
    assert db.deregister("view") and not db.deregister("view")


def test_lazy_frames_of_polars(db):
    scan = db.sql("SELECT variant_position FROM sim")
    assert pl.DataFrame(scan).height == pl.DataFrame(scan).height > 0


def test_pandas_refuses_objects_of_objects(db):
    result = db.sql("SELECT call_genotype FROM sim CROSS JOIN range(30)")
    with pytest.raises(vcz.Error, match=r"use to_numpy\('call_genotype'\)"):
        result.to_pandas()


READERS = {
    "parquet": pyarrow.parquet.read_table,
    "csv": pyarrow.csv.read_csv,
    "tsv": lambda path: pyarrow.csv.read_csv(path, parse_options=pyarrow.csv.ParseOptions(delimiter="\t")),
    "json": pyarrow.json.read_json,
    "arrow": lambda path: pyarrow.ipc.open_file(path).read_all(),
}


@pytest.mark.parametrize("format", READERS)
def test_files(db, tmp_path, format):
    read = READERS[format]
    # Text has no type for NULL in a number, and no lists in CSV.
    scan = db.sql("SELECT contig, start, sites, pi, nullif(sites, 1523) AS other FROM (" + SCAN + ") ORDER BY 1, 2")
    rows = scan.to_pylist()
    assert rows[0]["other"] is None
    path = tmp_path / f"it's a scan.{format}"
    assert scan.write(path) == len(rows)
    assert read(path).to_pylist() == rows
    # What is there is replaced, and a name with another ending needs the format.
    assert db.sql("SELECT 1 AS one").write(path) == 1 and read(path).to_pylist() == [{"one": 1}]
    other = tmp_path / "scan.txt"
    assert scan.write(other, format=format) == len(rows) and read(other).to_pylist() == rows
    # Without an ending it is a folder, as in COPY.
    folder = tmp_path / "scan"
    assert scan.write(folder, format=format) == len(rows)
    assert sum(read(part).num_rows for part in folder.iterdir()) == len(rows)
    if format in ("parquet", "arrow", "json"):
        nested = db.sql("SELECT call_genotype, variant_allele FROM sim LIMIT 100")
        assert nested.write(path) == 100
        assert read(path).to_pylist() == nested.to_pylist()


def test_options_of_files(db, tmp_path):
    scan = db.sql("SELECT variant_position AS p FROM sim ORDER BY p LIMIT 2")
    scan.write(tmp_path / "x.csv", format_has_header=False)
    assert (tmp_path / "x.csv").read_text().split() == [str(row["p"]) for row in scan.to_pylist()]
    scan.write(tmp_path / "x.parquet", format_compression="snappy")
    assert pyarrow.parquet.ParquetFile(tmp_path / "x.parquet").metadata.row_group(0).column(0).compression == "SNAPPY"
    with pytest.raises(vcz.Error, match="nothing"):
        scan.write(tmp_path / "x.csv", format_nothing=1)
    # A query that fails leaves no file, and no table.
    with pytest.raises(vcz.Error, match="(?i)divide by zero"):
        db.sql("SELECT 1 / (value - value) FROM range(3)").write(tmp_path / "y.parquet")
    assert not (tmp_path / "y.parquet").exists() and db.tables() == ["sim"]
