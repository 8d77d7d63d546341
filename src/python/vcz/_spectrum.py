"""Spectra as numpy arrays that know what they are of, and as files."""

from __future__ import annotations

import os
from typing import Any, Sequence

import numpy

from . import _vcz


class Spectrum(numpy.ndarray):
    """A spectrum: an array with a cell for each number of derived (folded: minor) copies, an axis for each population.

    ``sql`` is the statement that gave it, ``populations`` are the names, ``folded`` tells whether it is folded, and ``copies`` of how many
    copies a folded spectrum of one population is. What is computed of it keeps these as long as the shape is the same.
    """

    # Masked arrays, which the spectra of dadi and moments are, copy what is in `__dict__`, and have views of this class.
    __slots__ = ("sql", "populations", "folded", "copies")
    _baseclass = numpy.ndarray

    sql: str | None
    populations: tuple[str, ...]
    folded: bool
    copies: int | None

    def __array_finalize__(self, source: Any) -> None:
        same = getattr(source, "shape", None) == self.shape
        self.sql = getattr(source, "sql", None) if same else None
        self.populations = getattr(source, "populations", ()) if same else ()
        self.folded = getattr(source, "folded", False) if same else False
        self.copies = getattr(source, "copies", None) if same else None

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        # A sum is a number.
        return array[()] if array.ndim == 0 else super().__array_wrap__(array, context)

    def transpose(self, *axes: Any) -> Any:
        """The array with other axes, which does not know of what populations it is."""
        return numpy.asarray(self).transpose(*axes)

    @property
    def T(self) -> Any:
        """The array with its axes reversed, as :meth:`transpose` gives it."""
        return self.transpose()


def spectrum(cells: Any, sql: str | None, populations: Sequence[str], folded: bool, copies: int | None) -> Spectrum:
    """An array as a spectrum."""
    made = numpy.asarray(cells).view(Spectrum)
    made.sql, made.populations, made.folded, made.copies = sql, tuple(populations), folded, copies
    return made


def save_spectrum(
    path: str | os.PathLike[str],
    spectrum: Any,
    *,
    format: str | None = None,
    populations: Sequence[str] | None = None,
    folded: bool | None = None,
    copies: int | None = None,
    monomorphic: float | None = None,
) -> None:
    """Writes a spectrum to a file that other programs read, in the format of its ending or in ``format``.

    ``fs`` is that of dadi and moments; ``obs`` that of fastsimcoal2, whose kind its name tells (``…_jointDAFpop1_0.obs``, ``…_DSFS.obs``);
    ``sfs`` that of sfs and winsfs, ``angsd`` the same without the line of its shape, as realSFS prints it; ``npy`` that of numpy.

    :param populations: their names; without, those of a spectrum that :meth:`Connection.sfs` or :meth:`Connection.joint_sfs` gave.
    :param folded: whether the spectrum is folded; as for ``populations``.
    :param copies: N of a folded spectrum of one population, whose ⌊N/2⌋ + 1 bins do not tell it; as for ``populations``.
    :param monomorphic: the number of sites without derived copies, in the place of the first cell.
    """
    path = os.fspath(path)
    kind = (format or os.path.splitext(path)[1].lstrip(".")).lower()
    cells = numpy.asarray(spectrum)
    if not (numpy.issubdtype(cells.dtype, numpy.integer) or numpy.issubdtype(cells.dtype, numpy.floating)):
        raise TypeError(f"a spectrum is an array of numbers, found elements of the type {cells.dtype}")
    names = getattr(spectrum, "populations", ()) if populations is None else populations
    if any("," in name for name in names):
        raise ValueError("the name of a population cannot have a comma in a file")
    is_folded = bool(getattr(spectrum, "folded", False)) if folded is None else folded
    copies = getattr(spectrum, "copies", None) if copies is None else copies
    options = [("folded", "true" if is_folded else "false")]
    if names:
        options.append(("populations", ",".join(names)))
    if copies is not None:
        options.append(("copies", str(int(copies))))
    if monomorphic is not None:
        options.append(("monomorphic", repr(float(monomorphic))))
    if kind == "angsd":
        kind = "sfs"
        options.append(("header", "false"))
    _vcz.write_spectrum(path, kind, cells.ravel().tolist(), list(cells.shape), options)
