"""Results of statements."""

from __future__ import annotations

import html
import os
import shutil
import sys
from typing import TYPE_CHECKING, Any, overload

from . import _vcz
from ._progress import Bar, bar, is_kernel, is_wanted
from ._sql import literal, quoted

if TYPE_CHECKING:
    import numpy
    import pandas
    import polars
    import pyarrow

    from ._connection import Connection

#: Rows that are shown of a result, and characters of a cell in a notebook.
SHOWN_ROWS = 10
SHOWN_CELL = 100
#: Values of nested columns, as to_pandas makes Python objects of them.
MOST_OBJECTS = 10_000_000


class Result:
    """The result of a statement. A query runs when its rows are read, and again each time they are read.

    It has ``__arrow_c_stream__``, so that ``polars.DataFrame(result)``, ``pyarrow.table(result)``, ``duckdb.sql("FROM result")`` and
    ``connection.register("t", result)`` read it, batch by batch. Rows are in no order but that of ``ORDER BY``.
    """

    def __init__(self, connection: Connection, query: _vcz.Query, sql: str):
        self._connection = connection
        self._query = query
        #: The statement.
        self.sql = sql
        # The HTML of the run whose text a notebook has just got; empty if it failed.
        self._html: str | None = None

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return [name for name, _ in self._query.columns()]

    @property
    def types(self) -> dict[str, str]:
        """The type of each column."""
        return dict(self._query.columns())

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        wish = self._connection._progress
        callback = wish if callable(wish) else None
        if callback is None and wish is not False and is_wanted():
            callback = Bar()

        def ended(notices: list[str]) -> None:
            if isinstance(callback, Bar):
                callback.clear()
            self._connection._notify(notices)

        return self._query.stream(callback, ended)

    def _collect(self) -> _vcz.Batches:
        with bar(self._connection._progress) as progress:
            batches = self._query.collect(progress)
        self._connection._notify()
        return batches

    def _head(self, rows: int) -> _vcz.Batches:
        with bar(self._connection._progress) as progress:
            batches = self._query.head(rows, progress)
        self._connection._notify()
        return batches

    def to_arrow(self) -> pyarrow.Table:
        """All rows as a table of pyarrow."""
        pyarrow = _needed("pyarrow", "to_arrow")
        return pyarrow.table(self._collect())

    def to_pandas(self, **options: Any) -> pandas.DataFrame:
        """All rows as a data frame of pandas; options are those of ``pyarrow.Table.to_pandas``."""
        pyarrow = _needed("pyarrow", "to_pandas")
        _needed("pandas", "to_pandas")
        table = pyarrow.table(self._collect())
        for name, column in zip(table.column_names, table.columns):
            elements = _elements(column)
            if elements > MOST_OBJECTS:
                raise _vcz.Error(
                    f"the column '{name}' has {elements:,} values in lists, and pandas would make an object of each list; "
                    f"use to_numpy('{name}'), to_polars() or to_arrow(), or select fewer rows"
                )
        return table.to_pandas(**options)

    def to_polars(self) -> polars.DataFrame:
        """All rows as a data frame of polars."""
        polars = _needed("polars", "to_polars")
        return polars.DataFrame(self._collect())

    @overload
    def to_numpy(self, column: str) -> numpy.ndarray: ...

    @overload
    def to_numpy(self, column: None = None) -> numpy.ndarray | dict[str, numpy.ndarray]: ...

    def to_numpy(self, column: str | None = None) -> numpy.ndarray | dict[str, numpy.ndarray]:
        """A column as an array of numpy, or all columns as a dict of arrays if there are several.

        Numbers are not copied if the result is one batch. Lists of equal lengths are further dimensions: ``call_genotype`` is variants ×
        samples × ploidy. NULL is NaN; of strings, structs and lists that differ in length an array of objects is made, with None for NULL.
        """
        numpy = _needed("numpy", "to_numpy")
        batches = self._collect()
        names = batches.names()
        if column is not None:
            return _array(numpy, batches, column)
        if len(names) == 1:
            return _array(numpy, batches, names[0])
        return {name: _array(numpy, batches, name) for name in names}

    def to_pylist(self) -> list[dict[str, Any]]:
        """All rows as dicts of Python's own objects."""
        return self._collect().rows()

    def show(self, rows: int = 40) -> None:
        """Prints the first rows."""
        print(self._table(rows, _width()))

    def _table(self, rows: int, width: int | None) -> str:
        with bar(self._connection._progress) as progress:
            table, more = self._query.table(rows, width, progress)
        self._connection._notify()
        return table + (f"\n(the first {rows} rows)" if more else "")

    def explain(self, analyze: bool = False) -> None:
        """Prints the query's plan; with ``analyze`` the query is run, and the plan has what was measured."""
        with bar(self._connection._progress) as progress:
            text = self._query.explain(analyze, progress)
        self._connection._session.notices()
        print(text)

    def write(self, path: str | os.PathLike[str], format: str | None = None, **options: Any) -> int:
        """Writes all rows to a file, in the format of its ending or in ``format``, and returns the number of rows.

        Formats are parquet, csv, tsv, json and arrow, of which a path without an ending becomes a folder, as in COPY; and of one spectrum fs
        (dadi, moments), obs (fastsimcoal2), sfs (ANGSD) and npy.
        ``options`` are those of COPY, where ``_`` stands for ``.``: ``write("joint.fs", spectrum_populations="a,b")``.
        """
        view = f"result {id(self):x}"
        session = self._connection._session
        path = os.fspath(path)
        stored = f" STORED AS {format.upper()}" if format else ""
        given = ", ".join(f"{literal(key.replace('_', '.', 1))} {literal(str(value))}" for key, value in options.items())
        session.register_query(view, self._query)
        try:
            copy = f"COPY (SELECT * FROM {quoted(view)}) TO {literal(path)}{stored}"
            copied = self._connection.sql(copy + (f" OPTIONS ({given})" if given else ""))
            counts = copied._query.collect(None).rows()
        finally:
            session.deregister(view)
        return next(iter(counts[0].values())) if counts else 0

    def __repr__(self) -> str:
        if not self.columns:
            return "<vcz.Result without columns>"
        return self._table(SHOWN_ROWS, _width())

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """The text for IPython. A notebook asks for HTML next: both are of one run, and an error is shown once."""
        if not is_kernel():
            printer.text(repr(self))
            return
        try:
            batches = self._head(SHOWN_ROWS + 1) if self.columns else None
            self._html = self._html_of(batches)
            printer.text(repr(self) if batches is None else self._text_of(batches))
        except Exception:
            self._html = ""
            raise

    def _text_of(self, batches: _vcz.Batches) -> str:
        shown, session = f"rows {id(batches):x}", self._connection._session
        session.register_stream(shown, batches.stream(), None)
        try:
            table, more = session.sql(f"SELECT * FROM {quoted(shown)}", None, None).table(SHOWN_ROWS, _width(), None)
        finally:
            session.deregister(shown)
        return table + (f"\n(the first {SHOWN_ROWS} rows)" if more else "")

    def _repr_html_(self) -> str | None:
        made, self._html = self._html, None
        if made is None:
            made = self._html_of(self._head(SHOWN_ROWS + 1) if self.columns else None)
        return made or None

    def _html_of(self, batches: _vcz.Batches | None) -> str:
        if batches is None:
            return ""
        types = self.types
        rows = batches.rows()
        head = "".join(
            f"<th>{html.escape(name)}<br><small>{html.escape(_cut(types.get(name, ''), 30))}</small></th>" for name in batches.names()
        )
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(_cut(_shown(cell)))}</td>" for cell in row.values()) + "</tr>"
            for row in rows[:SHOWN_ROWS]
        )
        more = f"<p>The first {SHOWN_ROWS} rows.</p>" if len(rows) > SHOWN_ROWS else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _needed(module: str, method: str) -> Any:
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"{method} needs {module}, which is not installed: pip install {module}") from error


def _array(numpy: Any, batches: _vcz.Batches, column: str) -> Any:
    dense = batches.dense(column)
    if dense is not None:
        kind, shape, buffer = dense
        return numpy.frombuffer(buffer, dtype=kind).reshape(shape)
    objects = batches.objects(column)
    array = numpy.empty(len(objects), dtype=object)
    array[:] = objects if not any(isinstance(value, list) for value in objects) else None
    if array.size and array[0] is None:
        for index, value in enumerate(objects):
            array[index] = value
    return array


def _elements(column: Any) -> int:
    """The values in the lists of a column of pyarrow."""
    import pyarrow.types as types

    elements = 0
    for chunk in column.chunks:
        values, depth = chunk, 0
        while types.is_list(values.type) or types.is_large_list(values.type) or types.is_fixed_size_list(values.type):
            values, depth = values.flatten(), depth + 1
        elements += len(values) if depth > 0 else 0
    return elements


def _width() -> int | None:
    """The width of the terminal that standard output is, if it is one."""
    try:
        return shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    except (AttributeError, ValueError):
        return None


def _shown(cell: Any) -> str:
    return "NULL" if cell is None else f"{cell:.6g}" if isinstance(cell, float) else str(cell)


def _cut(text: str, most: int = SHOWN_CELL) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
