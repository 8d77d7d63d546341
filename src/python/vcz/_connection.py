"""Connections: a session with its stores and tables."""

from __future__ import annotations

import glob
import os
import warnings
import weakref
from typing import TYPE_CHECKING, Any, Iterable, Mapping, Sequence, Union

from . import _vcz
from ._progress import Progress, bar
from ._result import Result
from ._sql import literal, quoted

if TYPE_CHECKING:
    from ._spectrum import Spectrum

Populations = Union[str, "os.PathLike[str]", Mapping[str, Sequence[str]], Any]

_latest: weakref.ref[Connection] | None = None
#: The connection of a notebook that has made none.
_kept: Connection | None = None


class Notice(UserWarning):
    """What a statement tells beside its rows, such as how many sites a statistic left out."""


def connect(
    *stores: str | os.PathLike[str],
    populations: Populations | None = None,
    memory_limit: str | None = None,
    memory_pool: str | None = None,
    disk_limit: str | None = None,
    batch_size: int | None = None,
    settings: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    progress: Progress = None,
) -> Connection:
    """A new session, with a table for each of ``stores``.

    A store is a path or a URL, and its table is named after it: ``"data/1kg.chr1.vcz.zip"`` is the table ``1kg.chr1``. In a path, ``*``, ``?``
    and ``[…]`` stand for several stores. ``"genome=data/1kg.chr*.vcz.zip"`` makes one table of them, called ``genome``.

    :param populations: the populations of the samples of these stores: see :meth:`Connection.open`.
    :param memory_limit: memory that queries may use, such as ``"8GB"``; without, no limit.
    :param memory_pool: how it is shared, ``"greedy"`` (the default) or ``"fair"``.
    :param disk_limit: disk space for queries that spill, such as ``"100GB"``.
    :param batch_size: rows of a batch.
    :param settings: what ``SET`` sets, such as ``{"vcz.backend": "host", "datafusion.execution.target_partitions": 4}``.
    :param options: options of the stores, as in ``CREATE EXTERNAL TABLE … OPTIONS``, such as ``{"aws.region": "eu-west-1"}``.
    :param progress: ``None`` shows a bar after a second, on a terminal or in a notebook; ``False`` none; a function is called about ten times a
        second with the variants that were read, and all.
    """
    values = {key: _setting(value) for key, value in (settings or {}).items()}
    session = _vcz.Session(memory_limit, memory_pool, disk_limit, batch_size, list(values.items()))
    connection = Connection(session, progress)
    if stores:
        connection.open(*stores, populations=populations, options=options)
    elif populations is not None or options:
        raise ValueError("populations and options are for stores, and none were given")
    global _latest
    _latest = weakref.ref(connection)
    return connection


def latest() -> Connection:
    """The connection that was made last, or a new one."""
    connection = _latest() if _latest else None
    if connection is None or connection._session.closed:
        global _kept
        _kept = connection = connect()
    return connection


class Connection:
    """A session: tables, settings, and the statements that use them. Made by :func:`connect`.

    Threads may use a connection at once. ``with vcz.connect(…) as db:`` closes it at the end.
    """

    def __init__(self, session: _vcz.Session, progress: Progress = None):
        self._session = session
        self._progress = progress

    def open(
        self,
        *stores: str | os.PathLike[str],
        name: str | None = None,
        populations: Populations | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Connection:
        """Opens stores as tables, one for each; with ``name``, all of them as one table. Returns the connection.

        :param populations: the populations of the samples. A path to a TSV or CSV with the columns ``sample_id`` and ``population``
            (``"meta.csv:IID,Pop"`` names other columns); a query that gives these columns; a dict of lists of sample ids; or a data frame,
            whose other columns become attributes of the samples.
        :param options: options of the stores.
        """
        arguments = self._arguments([os.fspath(store) for store in stores], name)
        given = [(key, _setting(value)) for key, value in (options or {}).items()]
        temporary = None
        if populations is None or isinstance(populations, (str, os.PathLike)):
            source = None if populations is None else os.fspath(populations)
        else:
            temporary = "populations of " + (name or "stores")
            self._register_populations(temporary, populations)
            source = f"SELECT * FROM {quoted(temporary)}"
        try:
            with bar(self._progress) as progress:
                self._session.open(arguments, source, given, progress)
        finally:
            if temporary is not None:
                self._session.deregister(temporary)
            self._notify()
        return self

    @staticmethod
    def _arguments(stores: list[str], name: str | None) -> list[str]:
        if not stores:
            raise ValueError("no store was given")
        if name is not None:
            return [f"{name}={store}" for store in stores]
        arguments = []
        for store in stores:
            table, sign, _ = store.partition("=")
            is_named = sign and "/" not in table and not os.path.exists(store)
            if is_named or "://" in store or os.path.exists(store) or not glob.has_magic(store):
                arguments.append(store)
                continue
            found = sorted(glob.glob(store))
            if not found:
                raise FileNotFoundError(f"there is no store '{store}'")
            arguments.extend(found)
        return arguments

    def _register_populations(self, table: str, populations: Any) -> None:
        if isinstance(populations, Mapping):
            samples, names = [], []
            for population, members in populations.items():
                if isinstance(members, str):
                    raise TypeError(f"populations: '{population}' must be a list of sample ids, found the string '{members}'")
                for sample in members:
                    samples.append(str(sample))
                    names.append(str(population))
            self._session.register_strings(table, [("sample_id", samples), ("population", names)])
            return
        self._register(table, populations)

    def register(self, name: str, rows: Any) -> Connection:
        """Makes a table of rows: a frame of pandas or polars, a table of pyarrow, a relation of DuckDB, anything with
        ``__arrow_c_stream__``. A table of that name is replaced. Returns the connection.

        Rows are read at once, and kept in memory without a copy where possible. A result of this connection is not read: it becomes a view,
        which is run when it is queried.
        """
        if isinstance(rows, Result) and self._session.owns(rows._query):
            self._session.register_query(name, rows._query)
        else:
            self._register(name, rows)
        return self

    def _register(self, name: str, rows: Any) -> None:
        stream = getattr(rows, "__arrow_c_stream__", None)
        if stream is None:
            raise TypeError(
                f"the table '{name}' must be a path, a dict, a data frame or anything with __arrow_c_stream__, found {type(rows).__name__}"
            )
        with bar(self._progress) as progress:
            self._session.register_stream(name, stream(), progress)

    def deregister(self, name: str) -> bool:
        """Removes a table; returns whether there was one. Stores and files are left as they are."""
        return self._session.deregister(name)

    def sql(self, statement: str, parameters: Sequence[Any] | Mapping[str, Any] | None = None) -> Result:
        """The result of a statement. A query runs when its result is read, each time; any other statement runs now.

        Of several statements, separated by semicolons, all but the last run now.

        :param parameters: values of ``$1, $2, …`` or ``?`` as a list, of ``$name`` as a dict: ``None``, bools, numbers, strings, and lists of
            them. They stand where literals may, in place of a population too.
        """
        with bar(self._progress) as progress:
            query = self._session.sql(statement, parameters, progress)
        self._notify()
        return Result(self, query, statement)

    def tables(self) -> list[str]:
        """The names of the tables."""
        return self._session.tables()

    def sfs(
        self,
        table: str,
        population: str | Sequence[str] | None = None,
        *,
        folded: bool = False,
        project: int | None = None,
        where: str | None = None,
    ) -> Spectrum | None:
        """The site frequency spectrum of a population, as a numpy array with its SQL in ``.sql``; ``None`` if no site was counted.

        :param population: the name of a population, or a list of sample ids; without, all samples.
        :param folded: counts of the minor allele.
        :param project: the number of copies that the spectrum is projected to, which keeps sites with missing calls.
        :param where: a condition on sites, such as ``"variant_contig = 'chr1' AND is_snp(variant_allele)"``.
        """
        function = ("project_sfs" if project is not None else "sfs") + ("_folded" if folded else "")
        return self._spectrum(function, table, [population], [] if project is None else [project], folded, where)

    def joint_sfs(
        self,
        table: str,
        population1: str | Sequence[str],
        population2: str | Sequence[str],
        *,
        folded: bool = False,
        project: Sequence[int] | None = None,
        where: str | None = None,
    ) -> Spectrum | None:
        """The joint spectrum of two populations, as a numpy array whose rows are the first; otherwise as :meth:`sfs`."""
        function = ("project_joint_sfs" if project is not None else "joint_sfs") + ("_folded" if folded else "")
        numbers = [] if project is None else list(project)
        return self._spectrum(function, table, [population1, population2], numbers, folded, where)

    def _spectrum(
        self,
        function: str,
        table: str,
        populations: Sequence[str | Sequence[str] | None],
        numbers: Sequence[int],
        folded: bool,
        where: str | None,
    ) -> Spectrum | None:
        from ._spectrum import spectrum

        given = [literal(population) for population in populations if population is not None]
        arguments = ["call_genotype", *given, *(str(int(number)) for number in numbers)]
        condition = f" WHERE {where}" if where else ""
        source = f"FROM {quoted(table)}{condition}"
        statement = f"SELECT {function}({', '.join(arguments)}) AS spectrum {source}"
        cells: Any = self.sql(statement).to_numpy("spectrum")
        if cells[0] is None:
            return None
        copies = numbers[0] if numbers else None
        if folded and len(populations) == 1 and copies is None:
            # The bins do not tell it.
            whole = f"SELECT CAST(cardinality(sfs({', '.join(arguments)})) AS BIGINT) - 1 AS n FROM {quoted(table)} WHERE false"
            copies = self.sql(whole)._query.collect(None).only()
        names = [population for population in populations if isinstance(population, str)]
        is_named = len(names) == len(populations)
        return spectrum(cells[0], statement, names if is_named else (), folded, copies)

    def windows(
        self,
        table: str,
        size: int,
        *,
        step: int | None = None,
        mask: str | None = None,
        where: str | None = None,
        **statistics: str | Sequence[Any],
    ) -> Result:
        """Statistics in windows of ``size`` bases every ``step``, as a result with a row for each window, empty ones too.

        Its columns are ``contig``, ``window_start``, ``window_stop``, with a mask ``accessible_bases``, ``sites``, and one for each of
        ``statistics``: the name of an aggregate and its populations, such as ``pi=("diversity", "first")``, or SQL that aggregates.
        Statistics are sums over sites or ratios, as the function says. For values per base divide sums by ``accessible_bases``, or without a mask
        by ``window_stop - window_start + 1``.

        :param mask: a BED file or a registered table of the regions that are accessible; other sites are left out.
        :param where: a condition on sites.
        """
        from ._sql import windows

        statement = windows(table, size, step, mask, where, statistics)
        return self.sql(statement)

    def close(self) -> None:
        """Forgets the tables. Results that were not read yet cannot be read any more."""
        self._session.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._session.closed:
            return "<vcz.Connection, closed>"
        return f"<vcz.Connection with the tables {', '.join(self.tables()) or '(none)'}>"

    def _notify(self, notices: Iterable[str] | None = None) -> None:
        """Warns of what statements have reported."""
        for notice in self._session.notices() if notices is None else notices:
            warnings.warn(notice, Notice, stacklevel=3)


def _setting(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
