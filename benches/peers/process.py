"""Runs statements in one process of `vcz sql` and reads back their times, results and the peak of memory.

Results are printed as JSON: a spectrum of 100,000 numbers as a table takes the CLI far longer to lay out than to compute.
"""

import dataclasses
import json
import pathlib
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
    peak_bytes: int  # resident, where it was watched
    output: bytes

    def rows(self):
        """The rows of each statement that returned rows, as printed with `--format json`."""
        return [json.loads(line) for line in self.output.splitlines() if line.startswith(b"[")]


def vcz(binary, statements, *options, peak=False):
    """One process that runs `statements` from a file, so that all but the first find a warm process."""
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as script, tempfile.TemporaryFile() as out:
        script.write(";\n".join(statements) + ";\n")
        script.flush()
        command = [binary, "sql", "--format", "json", *options, "-f", script.name]
        start = time.perf_counter()
        child = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
        peak_bytes = watch(child) if peak else 0
        child.wait()
        wall = time.perf_counter() - start
        out.seek(0)
        output = out.read()
    if child.returncode:
        sys.exit(f"vcz failed on {statements[-1]}\n{output.decode(errors='replace')}")
    seconds = [float(found) for found in ELAPSED.findall(output)]
    return Run(seconds, wall, peak_bytes, output)


def watch(child):
    """The peak of resident memory, polled every few milliseconds: the figure of wait4 includes the parent before the exec."""
    status, most = pathlib.Path(f"/proc/{child.pid}/status"), 0
    while child.poll() is None:
        try:
            lines = status.read_text().splitlines()
            most = max(most, *(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), 0)
        except OSError:
            break
        time.sleep(0.002)
    return most


def table(name, store, partitions=1, populations=None):
    """Statements that register `store` and its populations, those beside it if none are given, as the table `name`."""
    populations = populations or store.with_suffix(".populations.tsv")
    return [
        f"SET datafusion.execution.target_partitions = {partitions}",
        f"CREATE EXTERNAL TABLE {name} STORED AS VCZ LOCATION '{store}' OPTIONS ('vcz.populations' '{populations}')",
    ]
