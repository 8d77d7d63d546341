"""Runs statements in one process of `vcz sql` and reads back their times, results and the peak of memory."""

import dataclasses
import json
import os
import re
import subprocess
import sys
import tempfile
import time

ELAPSED = re.compile(rb"^Elapsed ([0-9.]+) seconds", re.MULTILINE)


@dataclasses.dataclass
class Run:
    seconds: list  # of each statement: planning, execution and printing
    wall: float  # of the process
    peak_bytes: int  # resident
    output: bytes

    def rows(self):
        """The rows of each statement that gave some, as printed with `--format json`."""
        return [json.loads(line) for line in self.output.splitlines() if line.startswith(b"[")]


def vcz(binary, statements, *options):
    """One process that runs `statements` from a file, so that all but the first find a warm process."""
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as script, tempfile.TemporaryFile() as out:
        script.write(";\n".join(statements) + ";\n")
        script.flush()
        start = time.perf_counter()
        child = subprocess.Popen([binary, "sql", *options, "-f", script.name], stdout=out, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        output = out.read()
    if child.returncode:
        sys.exit(f"vcz failed on {statements[-1]}\n{output.decode(errors='replace')}")
    seconds = [float(found) for found in ELAPSED.findall(output)]
    return Run(seconds, wall, usage.ru_maxrss * 1024, output)


def table(name, store, partitions=1):
    """Statements that register `store` and its populations as the table `name`."""
    populations = store.with_suffix(".populations.tsv")
    return [
        f"SET datafusion.execution.target_partitions = {partitions}",
        f"CREATE EXTERNAL TABLE {name} STORED AS VCZ LOCATION '{store}' OPTIONS ('vcz.populations' '{populations}')",
    ]
