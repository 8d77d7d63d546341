"""The progress bar: a line on standard error, on a terminal or in a notebook, once a query has taken a second."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from typing import Any, Callable, Iterator, Union

Progress = Union[bool, None, Callable[[int, int], Any]]

DELAY = 1.0
WIDTH = 40


class Bar:
    """A bar that is drawn over itself."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._drawn = 0

    def __call__(self, done: int, total: int) -> None:
        passed = time.monotonic() - self._start
        if passed < DELAY or total == 0:
            return
        part = done / total
        left = f", about {passed * (1 - part) / part:.0f} s left" if 0 < done < total else ""
        words = f" {part:4.0%}  {done:,} of {total:,} variants  {passed:.0f} s{left}"
        # A line that is wrapped could not be drawn over.
        room = columns() - 1
        width = max(0, min(WIDTH, room - len("[]") - len(words)))
        full = int(part * width)
        line = f"[{'#' * full}{'.' * (width - full)}]{words}"[:room]
        print("\r" + line.ljust(self._drawn), end="", file=sys.stderr, flush=True)
        self._drawn = len(line)

    def clear(self) -> None:
        """Removes what was drawn."""
        if self._drawn:
            print("\r" + " " * self._drawn + "\r", end="", file=sys.stderr, flush=True)
            self._drawn = 0


def columns() -> int:
    """The width of the terminal that standard error is; where it is none, lines are not wrapped."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (AttributeError, OSError, ValueError):
        return 200


def is_kernel() -> bool:
    """Whether this is the kernel of a notebook, which has a shell of its own."""
    if "ipykernel" not in sys.modules:
        return False
    from IPython import get_ipython

    return hasattr(get_ipython(), "kernel")


def is_wanted() -> bool:
    """Whether somebody sees a bar: standard error is a terminal, or a notebook shows it."""
    if is_kernel():
        return True
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):
        return False


@contextlib.contextmanager
def bar(wish: Progress) -> Iterator[Callable[[int, int], Any] | None]:
    """The callback for a query: a function that was given, a bar where one is wanted, or None."""
    if wish is False or (wish is None and not is_wanted()):
        yield None
    elif callable(wish):
        yield wish
    else:
        drawn = Bar()
        try:
            yield drawn
        finally:
            drawn.clear()
