"""Every data type of zarr-python as a column, and as an array of a copy."""

import json

import numpy as np
import pytest
import zarr

from written import arrays, copy, create, fails, says, sql

N = 7
TIMES = np.array(["2020-01-01", "1969-12-31", "NaT", "1970-01-01", "2262-04-11", "1900-02-28", "2000-02-29"], dtype="M8[D]")
SPANS = np.array([0, -1, 5, "NaT", 86_400, -2, 1 << 40], dtype="m8[s]")
VALUES = {
    "days": TIMES,
    "seconds": TIMES.astype("M8[s]"),
    "nanoseconds": np.where(TIMES > np.datetime64("2262-01-01"), np.datetime64("NaT"), TIMES).astype("M8[ns]"),
    "spans": SPANS,
    "milliseconds": SPANS[:].astype("m8[25s]").astype("m8[ms]"),
    "many": np.stack([TIMES.astype("M8[us]"), np.roll(TIMES, 1).astype("M8[us]")], axis=1),
    "complex": (np.arange(N) - 1j * np.arange(N) / 3).astype("c8"),
    "wide": (np.arange(N) / 7 + 2.5j).astype("c16"),
    "raw": np.array([bytes([at, 0, 255]) for at in range(N)], dtype="V3"),
}
FIELDS = np.array([(at, at / 2) for at in range(N)], dtype=[("a", "<i4"), ("b", "<f4")])


def put(root, name, values, dimensions, **options):
    array = root.create_array(name, shape=values.shape, chunks=tuple(min(3, n) for n in values.shape), dtype=values.dtype, **options)
    array[...] = values
    array.attrs["_ARRAY_DIMENSIONS"] = dimensions


@pytest.fixture(params=[2, 3])
def store(request, tmp_path):
    root = zarr.open_group(tmp_path / "types.vcz", mode="w", zarr_format=request.param)
    root.attrs["vcf_zarr_version"] = "0.4"
    put(root, "variant_contig", np.zeros(N, "i1"), ["variants"])
    put(root, "variant_position", np.arange(1, N + 1, dtype="i4"), ["variants"])
    put(root, "contig_id", np.array(["c"], dtype="U1"), ["contigs"])
    for name, values in (VALUES | {"fields": FIELDS}).items():
        put(root, f"variant_{name}", values, ["variants", "two"][: values.ndim])
    if request.param == 2:
        for name, values in VALUES.items():
            if values.ndim == 1:
                put(root, f"variant_{name}_big", values.astype(values.dtype.newbyteorder(">")), ["variants"])
        put(root, "variant_turned", np.stack([VALUES["complex"]] * 4, axis=1), ["variants", "four"], order="F")
    else:
        put(root, "variant_sharded", VALUES["wide"], ["variants"], shards=(6,))
    return tmp_path / "types.vcz", request.param


def expected(values):
    """Values as the JSON of the program has them."""
    if values.dtype.kind in "Mm":
        return [None if np.isnat(value) else int(value.astype("i8")) for value in values.ravel()]
    if values.dtype.kind == "c":
        return [[float(str(value.real)), float(str(value.imag))] for value in values.ravel()]
    return [list(value.tobytes()) for value in values]


def column(table, name, values):
    """A column as numbers."""
    shown = name
    if values.dtype.kind in "Mm":
        unit = {"D": "s", "s": "s", "ms": "ms", "us": "us", "ns": "ns"}[np.datetime_data(values.dtype)[0]]
        values = values.astype(f"{values.dtype.kind}8[{unit}]")
        shown = f"arrow_cast({name}, 'Int64')"
    rows = sql(table, f"SELECT {shown} AS v FROM t ORDER BY variant_position")[0]
    return [row.get("v") for row in rows], expected(values)


def test_columns(store):
    path, format_ = store
    table = create("t", path)
    types = {row["column_name"]: row["data_type"] for row in sql(table, "DESCRIBE t")[0]}
    assert types["variant_days"] == types["variant_seconds"] == "Timestamp(s)" and types["variant_nanoseconds"] == "Timestamp(ns)"
    assert types["variant_spans"] == "Duration(s)" and types["variant_milliseconds"] == "Duration(ms)"
    for name, values in VALUES.items():
        if values.ndim == 1:
            for suffix in ["", "_big"] if format_ == 2 else [""]:
                found, wanted = column(table, f"variant_{name}{suffix}", values)
                assert found == wanted, name + suffix
    (rows,) = sql(table, "SELECT variant_fields AS f, array_to_string(arrow_cast(variant_many, 'FixedSizeList(2, Int64)'), ',', 'none') AS m FROM t ORDER BY variant_position")
    assert [row["f"] for row in rows] == [list(value.tobytes()) for value in FIELDS]
    assert [row["m"].split(",") for row in rows] == [["none" if np.isnat(v) else str(v.astype("i8")) for v in pair] for pair in VALUES["many"]]
    if format_ == 2:
        (rows,) = sql(table, "SELECT variant_turned AS v FROM t ORDER BY variant_position")
        assert [row["v"] for row in rows] == [[pair] * 4 for pair in expected(VALUES["complex"])]
    else:
        assert column(table, "variant_sharded", VALUES["wide"])[0] == expected(VALUES["wide"])
    # They take part in queries.
    (rows,) = sql(table, "SELECT count(*) AS n FROM t WHERE variant_days > '1999-12-31' AND variant_spans IS NOT NULL")
    assert rows == [{"n": 3}]


@pytest.mark.parametrize("written", [2, 3])
def test_copies(store, written, tmp_path):
    """Times keep their types; parts of others are numbers in a dimension of their own."""
    path, _ = store
    target = tmp_path / "copy.vcz"
    sql(create("t", path), copy("SELECT * FROM t", target, format=written))
    found = arrays(target)
    for name in ["seconds", "nanoseconds", "spans", "milliseconds", "many"]:
        assert found[f"variant_{name}"].dtype.str.lstrip("<>") == VALUES[name].dtype.str.lstrip("<>"), name
        np.testing.assert_array_equal(found[f"variant_{name}"], VALUES[name])
    np.testing.assert_array_equal(found["variant_days"], TIMES.astype("M8[s]"))
    assert found["variant_complex"].dtype == "f4"
    assert (found["variant_complex"] == VALUES["complex"].view("f4").reshape(N, 2)).all()
    assert found["variant_raw"].tolist() == expected(VALUES["raw"])
    again = tmp_path / "again.vcz"
    sql(create("t", target), copy("SELECT * FROM t", again, format=written))
    np.testing.assert_array_equal(arrays(again)["variant_many"], VALUES["many"])


def test_what_is_left_out(tmp_path):
    """The reason is in a table, and the error of a query."""
    root = zarr.open_group(tmp_path / "t.vcz", mode="w", zarr_format=2)
    root.attrs["vcf_zarr_version"] = "0.4"
    put(root, "variant_contig", np.zeros(N, "i1"), ["variants"])
    put(root, "variant_position", np.arange(1, N + 1, dtype="i4"), ["variants"])
    put(root, "contig_id", np.array(["c"], dtype="U1"), ["contigs"])
    put(root, "variant_years", TIMES.astype("M8[Y]"), ["variants"])
    put(root, "variant_late", np.array([1 << 62] * N, dtype="M8[D]"), ["variants"])
    table = create("t", tmp_path / "t.vcz")
    ((row,),) = sql(table, "SELECT reason FROM vcz_arrays('t') WHERE name = 'variant_years'")
    says(row["reason"], "M8.Y.", "not supported")
    says(fails(table, "SELECT variant_late FROM t"), "variant_late", "does not fit")
    assert json.loads((tmp_path / "t.vcz" / "variant_years" / ".zarray").read_text())["dtype"] == "<M8[Y]"
