"""SQL text: identifiers, literals, and the statement of a scan in windows."""

from __future__ import annotations

from typing import Any, Mapping, Sequence


def quoted(identifier: str) -> str:
    """An identifier."""
    return '"' + identifier.replace('"', '""') + '"'


def literal(value: Any) -> str:
    """A string, a number, or a list of them."""
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, bool) or value is None:
        return {None: "NULL", True: "true", False: "false"}[value]
    if isinstance(value, (int, float)):
        return repr(value)
    if hasattr(value, "tolist"):
        return literal(value.tolist())
    try:
        return "[" + ", ".join(literal(item) for item in value) + "]"
    except TypeError:
        raise TypeError(f"expected a string, a number or a list, found {type(value).__name__}") from None


def call(statistic: str | Sequence[Any]) -> str:
    """``("diversity", "first")`` as ``diversity(call_genotype, 'first')``; a string is SQL already."""
    if isinstance(statistic, str):
        return statistic
    function, arguments = statistic[0], statistic[1:]
    return f"{function}(" + ", ".join(["call_genotype", *map(literal, arguments)]) + ")"


def windows(
    table: str, size: int, step: int | None, mask: str | None, where: str | None, statistics: Mapping[str, Any]
) -> str:
    """The statement of :meth:`Connection.windows`."""
    size, step = int(size), int(size if step is None else step)
    taken = {"contig", "window_start", "window_stop", "accessible_bases", "sites"} & statistics.keys()
    if taken:
        raise ValueError(f"'{sorted(taken)[0]}' is the name of another column of the windows; call the statistic otherwise")
    conditions = [f"({where})"] if where else []
    grid = [literal(table), str(size), str(step)]
    accessible = ""
    if mask is not None:
        conditions.insert(0, f"is_accessible(variant_contig, variant_position, {literal(mask)})")
        grid.append(literal(mask))
        accessible = "g.accessible_bases, "
    condition = " WHERE " + " AND ".join(conditions) if conditions else ""
    start = (
        f"genome_bin(variant_position, {size})"
        if step == size
        else f"unnest(genome_bins(variant_position, {size}, {step}))"
    )
    columns = "".join(f",\n         {call(of)} AS {quoted(name)}" for name, of in statistics.items())
    shown = "".join(f", w.{quoted(name)}" for name in statistics)
    return f"""WITH sites AS (
  SELECT *, {start} AS window_start
  FROM {quoted(table)}{condition}
),
windows AS (
  SELECT variant_contig, window_start, count(*) AS sites{columns}
  FROM sites GROUP BY variant_contig, window_start
)
SELECT g.contig, g.window_start, g.window_stop, {accessible}coalesce(w.sites, 0) AS sites{shown}
FROM genome_windows({', '.join(grid)}) g
LEFT JOIN windows w ON w.variant_contig = g.contig AND w.window_start = g.window_start
ORDER BY g.contig, g.window_start"""
