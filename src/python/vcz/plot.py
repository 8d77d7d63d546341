"""Plots of spectra and scans with matplotlib: arrays and results in, Axes out.

``pip install 'datafusion-vcz[plot]'`` installs what they need.
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

try:
    import matplotlib.colors
    import matplotlib.pyplot as plt
    import numpy as np
except ImportError as error:
    raise ImportError(f"vcz.plot needs matplotlib and numpy ({error}): pip install 'datafusion-vcz[plot]'") from error

#: Colours of the contigs of a scan, in turn.
COLOURS = ("#31688e", "#8fa9bd")


def sfs(
    counts: Any | Mapping[str, Any],
    ax: Any = None,
    folded: bool | None = None,
    endpoints: bool = False,
    scale: str = "log",
) -> Any:
    """Bars of a spectrum, or of several side by side: ``sfs({"first": a, "second": b})``.

    :param folded: whether the bins are of the minor allele; without, as the spectrum says.
    :param endpoints: whether the bins without variation are shown: 0, and unless it is folded N.
    :param scale: of the number of sites, ``"log"`` or ``"linear"``.
    """
    named = counts if isinstance(counts, Mapping) else {None: counts}
    if not named:
        raise ValueError("there is no spectrum to plot")
    ax = _axes(ax)
    width = 0.8 / len(named)
    is_folded, least = False, np.inf
    for index, (name, spectrum) in enumerate(named.items()):
        bins = np.asarray(spectrum, dtype=float)
        if bins.ndim != 1:
            raise ValueError(f"a spectrum has one dimension, found {bins.ndim}; plot a joint spectrum by joint_sfs")
        is_folded = getattr(spectrum, "folded", False) if folded is None else folded
        copies = np.arange(len(bins))
        if not endpoints:
            last = len(bins) if is_folded else len(bins) - 1
            bins, copies = bins[1:last], copies[1:last]
        least = min(least, bins[bins > 0].min(initial=np.inf))
        left = copies - 0.4 + width * (index + 0.5)
        colour = plt.get_cmap("viridis")((index + 0.5) / len(named))
        ax.bar(left, bins, width=width, color=colour, label=name)
    ax.set_yscale(scale)
    if scale == "log" and np.isfinite(least):
        # The smallest bar is seen, too.
        ax.set_ylim(bottom=least / 2)
    ax.set_xlabel("copies of the minor allele" if is_folded else "derived copies")
    ax.set_ylabel("sites")
    ax.xaxis.get_major_locator().set_params(integer=True)
    if isinstance(counts, Mapping):
        ax.legend(frameon=False)
    return ax


def joint_sfs(grid: Any, ax: Any = None, names: Sequence[str] | None = None) -> Any:
    """A joint spectrum, coloured by the logarithm of the number of sites; cells without sites and both corners are left empty.

    Rows, the first population, go up; columns, the second, go right.

    :param names: the populations; without, as the spectrum says.
    """
    cells = np.asarray(grid, dtype=float)
    if cells.ndim != 2:
        raise ValueError(f"a joint spectrum has two dimensions, found {cells.ndim}")
    names = names or getattr(grid, "populations", ()) or ("population 1", "population 2")
    mask = cells <= 0
    mask[0, 0] = mask[-1, -1] = True
    shown = np.ma.masked_array(cells, mask)
    ax = _axes(ax)
    most = shown.max()
    if most is np.ma.masked:
        raise ValueError("the joint spectrum has no cell with sites but the corners")
    norm = matplotlib.colors.LogNorm(vmin=shown.min(), vmax=max(most, shown.min() * 1.001))
    rows, columns = cells.shape
    mesh = ax.pcolormesh(np.arange(columns + 1) - 0.5, np.arange(rows + 1) - 0.5, shown, norm=norm, cmap="viridis")
    ax.set_aspect("equal")
    ax.figure.colorbar(mesh, ax=ax, label="sites")
    ax.set_ylabel(f"derived copies in {names[0]}")
    ax.set_xlabel(f"derived copies in {names[1]}")
    for axis in (ax.xaxis, ax.yaxis):
        axis.get_major_locator().set_params(integer=True)
    return ax


def scan(
    result: Any,
    y: str | Sequence[str],
    contig: str = "contig",
    x: str = "window_start",
    region: str | tuple[str, int, int] | None = None,
    axes: Any = None,
) -> Any:
    """A scan along the genome: a panel for each statistic in ``y``. Returns the Axes, an array of them if ``y`` is a list.

    Contigs are laid end to end in two colours; of one contig positions are in Mb. Lines have gaps where a value is NULL, and where windows are
    absent. For that, positions are taken as those of windows if all of their distances are multiples of the smallest.

    :param result: a :class:`vcz.Result`, or anything else whose columns ``result[name]`` gives, such as a data frame.
    :param contig: the column of the contig, and ``x`` that of positions, in order within each contig.
    :param region: one contig, or ``(contig, start, stop)``.
    """
    names = [y] if isinstance(y, str) else list(y)
    columns = _columns(result, [contig, x, *names])
    contigs = columns[contig].astype(str)
    positions = columns[x].astype(float)
    keep = np.ones(len(contigs), dtype=bool)
    if region is not None:
        wanted, *limits = (region,) if isinstance(region, str) else region
        keep = contigs == wanted
        if limits:
            keep &= (positions >= limits[0]) & (positions <= limits[1])
        if not keep.any():
            raise ValueError(f"there is no window in {region}")
    contigs, positions = contigs[keep], positions[keep]
    if not len(contigs):
        raise ValueError("there is no window to plot")
    # In the order in which they come.
    _, first = np.unique(contigs, return_index=True)
    order = contigs[np.sort(first)]
    step = _step([positions[contigs == one] for one in order])
    axes = _panels(axes, len(names))
    for ax, name in zip(axes, names):
        values = columns[name][keep].astype(float)
        offset, ticks = 0.0, []
        for index, one in enumerate(order):
            at = contigs == one
            end = positions[at].max()
            place, value = _with_gaps(positions[at], values[at], step)
            if len(order) == 1:
                ax.plot(place / 1e6, value, color=COLOURS[0], linewidth=1)
                ax.set_xlabel(f"{one}, Mb")
                continue
            ax.plot(place + offset, value, color=COLOURS[index % 2], linewidth=1)
            ticks.append(offset + end / 2)
            offset += end
        if len(order) > 1:
            ax.set_xticks(ticks, order, rotation=90 if len(order) > 8 else 0)
            ax.set_xlim(0, offset)
        else:
            ax.margins(x=0)
        ax.set_ylabel(name)
    for ax in axes[:-1]:
        ax.set_xlabel("")
    return axes[0] if isinstance(y, str) else axes


def _step(positions: Sequence[Any]) -> float | None:
    """The distance of windows at these positions of each contig; ``None`` if they are not those of windows."""
    distances = np.concatenate([np.diff(place) for place in positions])
    step = distances.min(initial=np.inf)
    # Some variants are next to each other; windows are not.
    is_grid = np.isfinite(step) and step > 1 and not (distances % step).any()
    return step if is_grid else None


def _with_gaps(place: Any, value: Any, step: float | None) -> tuple[Any, Any]:
    """The line of a contig, broken by a NaN where windows are absent."""
    if step is None:
        return place, value
    after = np.flatnonzero(np.diff(place) > step) + 1
    return np.insert(place, after, place[after - 1] + step), np.insert(value, after, np.nan)


def _axes(ax: Any) -> Any:
    return plt.subplots(layout="constrained")[1] if ax is None else ax


def _panels(axes: Any, panels: int) -> Any:
    if axes is None:
        figure, axes = plt.subplots(panels, 1, sharex=True, squeeze=False, layout="constrained", figsize=(10, 2 + 1.6 * panels))
        return axes[:, 0]
    axes = np.atleast_1d(np.asarray(axes, dtype=object)).ravel()
    if len(axes) != panels:
        raise ValueError(f"{panels} statistics need as many Axes, found {len(axes)}")
    return axes


def _columns(result: Any, names: Sequence[str]) -> dict[str, Any]:
    if hasattr(result, "_collect"):
        from ._result import _array

        batches = result._collect()
        return {name: _array(np, batches, name) for name in names}
    return {name: np.asarray(result[name]) for name in names}
