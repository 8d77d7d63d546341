"""The progress bar: a line on standard error, on a terminal or in a notebook, once a query has taken a second."""

from __future__ import annotations

import contextlib
import sys
import time

DELAY = 1.0
WIDTH = 40


class Bar:
    """A bar that is drawn over itself."""

    def __init__(self):
        self._start = time.monotonic()
        self._drawn = 0

    def __call__(self, done: int, total: int) -> None:
        passed = time.monotonic() - self._start
        if passed < DELAY or total == 0:
            return
        part = done / total
        full = int(part * WIDTH)
        left = f", about {passed * (1 - part) / part:.0f} s left" if 0 < done < total else ""
        line = f"[{'#' * full}{'.' * (WIDTH - full)}] {part:4.0%}  {done:,} of {total:,} variants  {passed:.0f} s{left}"
        print("\r" + line.ljust(self._drawn), end="", file=sys.stderr, flush=True)
        self._drawn = len(line)

    def clear(self) -> None:
        """Removes what was drawn."""
        if self._drawn:
            print("\r" + " " * self._drawn + "\r", end="", file=sys.stderr, flush=True)
            self._drawn = 0


def is_wanted() -> bool:
    """Whether somebody sees a bar: standard error is a terminal, or a notebook shows it."""
    if "ipykernel" in sys.modules:
        return True
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):
        return False


@contextlib.contextmanager
def bar(wish):
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
