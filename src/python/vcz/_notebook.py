"""The cell magic ``%%vcz`` of IPython: a cell of SQL."""

from __future__ import annotations

import shlex
from typing import Any

from ._connection import Connection, latest
from ._result import Result


def load(ipython: Any) -> None:
    """Registers the magic."""

    def vcz(line: str, cell: str) -> Result | None:
        """``%%vcz [NAME] [--db CONNECTION]``: the result of the cell's SQL, in the variable NAME if it is given.

        The connection is the variable CONNECTION, else the one that was made last.
        """
        words = shlex.split(line)
        connection = None
        if "--db" in words:
            at = words.index("--db")
            if at + 1 == len(words):
                raise ValueError("--db needs the name of a variable that is a connection")
            connection = ipython.user_ns.get(words[at + 1])
            if not isinstance(connection, Connection):
                raise ValueError(f"'{words[at + 1]}' is not a connection; make one with vcz.connect()")
            del words[at : at + 2]
        if len(words) > 1 or (words and not words[0].isidentifier()):
            raise ValueError(f"expected %%vcz [NAME] [--db CONNECTION], found %%vcz {line}")
        result = (connection or latest()).sql(cell)
        if not words:
            return result
        ipython.push({words[0]: result})
        return None

    ipython.register_magic_function(vcz, magic_kind="cell", magic_name="vcz")
