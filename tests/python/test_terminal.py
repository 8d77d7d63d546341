"""At a terminal: the progress bar of the module, in a script and in IPython, and the prompt of the command that the package installs."""

import os
import pathlib
import re
import subprocess
import sys

import pexpect
import pytest

from conftest import FIXTURES, TOP
from vcz import _progress

VCZ = pathlib.Path(sys.executable).parent / "vcz"
COLUMNS = 80
#: Reads 3 GB of genotypes.
SCAN = "SELECT max(call_genotype[1][1]) AS m FROM absent WHERE variant_position <= 600000"
BAR = r"\r\[#*\.*\] +[0-9]+%  [0-9,]+ of 2,000,000 variants  [0-9]+ s"


@pytest.fixture
def terminal(tmp_path):
    """Starts a program at a terminal of 80 columns."""
    started = []

    def start(*command):
        environment = {**os.environ, "HOME": str(tmp_path), "IPYTHONDIR": str(tmp_path), "TERM": "xterm", "PYTHON_HISTORY": os.devnull}
        child = pexpect.spawn(
            str(command[0]), [str(word) for word in command[1:]], cwd=TOP, env=environment, encoding="utf-8",
            dimensions=(40, COLUMNS), timeout=60, echo=False,
        )
        started.append(child)
        return child

    yield start
    for child in started:
        child.close(force=True)


def screen(text):
    """The lines that a terminal shows of this text; one that does not fit the width would be two."""
    lines = [""]
    for piece in re.findall(r"\r\n|\r|[^\r]+", re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)):
        if piece == "\r\n":
            lines.append("")
        elif piece == "\r":
            lines[-1] = "\r" + lines[-1].removeprefix("\r")
        else:
            over = lines[-1].removeprefix("\r") if lines[-1].startswith("\r") else ""
            before = "" if lines[-1].startswith("\r") else lines[-1]
            lines[-1] = before + piece + over[len(piece) :]
    return [line.removeprefix("\r").rstrip() for line in lines]


def test_the_text_of_the_bar(capsys, monkeypatch):
    now = 0.0
    monkeypatch.setattr(_progress.time, "monotonic", lambda: now)
    monkeypatch.setattr(_progress, "columns", lambda: 200)
    bar = _progress.Bar()
    bar(1, 4)
    assert capsys.readouterr().err == "", "nothing in the first second"
    now = 2.0
    bar(0, 4000)
    assert capsys.readouterr().err == f"\r[{'.' * 40}]   0%  0 of 4,000 variants  2 s"
    bar(1000, 4000)
    line = f"[{'#' * 10}{'.' * 30}]  25%  1,000 of 4,000 variants  2 s, about 6 s left"
    assert capsys.readouterr().err == f"\r{line}"
    bar(4000, 4000)
    # What is left of a longer line is drawn over.
    last = f"[{'#' * 40}] 100%  4,000 of 4,000 variants  2 s"
    assert capsys.readouterr().err == f"\r{last.ljust(len(line))}"
    bar.clear()
    bar.clear()
    assert capsys.readouterr().err == f"\r{' ' * len(last)}\r"
    bar(0, 0)
    assert capsys.readouterr().err == ""
    # On a narrow terminal the bar is shorter, and then the line.
    for columns in (80, 60, 20):
        monkeypatch.setattr(_progress, "columns", lambda: columns)
        bar(123_456_789, 987_654_321)
        line = capsys.readouterr().err.lstrip("\r").rstrip()
        assert len(line) < columns and line.startswith("[") and (columns == 20 or "987,654,321 variants" in line)
        bar.clear()
        capsys.readouterr()


def test_who_sees_a_bar(monkeypatch):
    for terminal in (True, False):
        monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
        for wish, kind in ((None, _progress.Bar if terminal else type(None)), (True, _progress.Bar), (False, type(None)), (print, type(print))):
            with _progress.bar(wish) as bar:
                assert type(bar) is kind
    monkeypatch.setattr(sys, "stderr", None)
    assert not _progress.is_wanted() and _progress.columns() > 0


def script(store, reading):
    code = f"""
import pyarrow, vcz
vcz._progress.DELAY = 0.1
db = vcz.connect({str(store)!r}, settings={{"datafusion.execution.target_partitions": 1}})
try:
    print("found", {reading})
except KeyboardInterrupt:
    print("stopped")
print("then", db.sql("SELECT 7 AS n").to_pylist())
"""
    return sys.executable, "-c", code


READINGS = {"collected": f"db.sql('{SCAN}').to_pylist()", "stream": f"pyarrow.table(db.sql('{SCAN}')).to_pylist()"}


@pytest.mark.parametrize("reading", READINGS)
def test_the_bar_of_a_script(absent, terminal, reading):
    child = terminal(*script(absent, READINGS[reading]))
    child.expect(BAR)
    shown = child.after
    child.expect(pexpect.EOF)
    shown += child.before
    drawn = [line for line in re.split(r"\r\n?", shown) if line.startswith("[#") or line.startswith("[.")]
    assert len(drawn) >= 3 and max(map(len, drawn)) < COLUMNS
    done = [int(re.search(r"([0-9,]+) of", line)[1].replace(",", "")) for line in drawn]
    assert done == sorted(done) and done[0] < done[-1] < 2_000_000
    # It is gone at the end.
    assert screen(shown) == ["found [{'m': 0}]", "then [{'n': 7}]", ""]


def test_ctrl_c_removes_the_bar(absent, terminal):
    child = terminal(*script(absent, READINGS["collected"].replace("600000", "2000000")))
    child.expect(BAR)
    shown = child.after
    child.sendintr()
    child.expect(pexpect.EOF)
    assert [line.removeprefix("^C") for line in screen(shown + child.before)] == ["stopped", "then [{'n': 7}]", ""]


def test_no_bar_where_nobody_sees_it(absent):
    done = subprocess.run(script(absent, READINGS["collected"]), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stderr == "" and done.stdout.splitlines()[0] == "found [{'m': 0}]"


def test_the_bar_in_ipython(absent, terminal):
    child = terminal(sys.executable, "-m", "IPython", "--simple-prompt", "--no-banner", "--no-confirm-exit", "--colors=NoColor")
    child.expect(r"In \[1\]: ")
    child.sendline("import vcz; vcz._progress.DELAY = 0.1; db = vcz.connect(" + repr(str(absent)) + ', settings={"datafusion.execution.target_partitions": 1})')
    child.expect(r"In \[2\]: ")
    child.sendline(f"db.sql('{SCAN}')")
    child.expect(BAR)
    shown = child.after
    child.expect(r"In \[3\]: ")
    lines = screen(shown + child.before)
    # The table is shown where the bar was.
    table = [line for line in lines if line.startswith("|")]
    assert [line.strip("| ") for line in table] == ["m", "0"] and not any("%" in line for line in lines), lines
    child.sendline(f"db.sql('{SCAN}'.replace('600000', '2000000')).to_pylist()")
    child.expect(BAR)
    shown = child.after
    child.sendintr()
    child.expect(r"In \[4\]: ")
    lines = screen(shown + child.before)
    assert any("KeyboardInterrupt" in line for line in lines) and not any("variants" in line for line in lines), lines
    child.sendline("db.sql('SELECT 6 * 7 AS n').to_pylist()")
    child.expect_exact("[{'n': 42}]")
    child.sendline("exit")
    child.expect(pexpect.EOF)


def test_the_prompt(terminal, tmp_path):
    child = terminal(VCZ, "sql", FIXTURES / "sim.vcz.zip", "--populations", FIXTURES / "sim.populations.tsv")
    child.expect("> ")
    # Completion, and a statement of two lines.
    child.send("SELECT sfs(call_genotype, 'fir\t')[1] AS s\r")
    child.send("FROM sim;\r")
    child.expect(r"1742.*Elapsed")
    child.expect("> ")
    child.send("SELEC 1;\r")
    child.expect("(?i)error")
    child.expect("> ")
    # Ctrl-C ends the query, not the prompt.
    child.send("SELECT sum(value) AS s FROM range(200000000000);\r")
    child.expect(pexpect.TIMEOUT, timeout=1)
    child.sendintr()
    child.expect(r"\^C")
    child.send("SELECT 6 * 7 AS answer;\r")
    child.expect(r"\| 42 ")
    child.expect("Elapsed")
    child.expect("> ")
    # Ctrl-D ends it.
    child.sendeof()
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0 and child.signalstatus is None
    history = (tmp_path / ".vcz_history").read_text()
    assert "SELEC 1;" in history and "SELECT 6 * 7" in history
    # The next prompt has it.
    child = terminal(VCZ, "sql")
    child.expect("> ")
    child.send("\x1b[A\r")
    child.expect(r"\| 42 ")
    child.expect("Elapsed")
    child.send("\\q\r")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0


def test_the_prompt_without_a_terminal():
    statements = "SELECT 6 * 7 AS answer;\nSELECT\n  'two lines' AS t;\n"
    done = subprocess.run([VCZ, "sql", "-q", "--format", "csv"], input=statements, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout.split("\n") == ["answer", "42", "t", "two lines", ""], done
    # A reader that ends early ends the command, without a trace of Python.
    command = f"'{VCZ}' sql -q --format csv -c 'SELECT value FROM range(100000000)' | head -n 2; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert done.stdout == "value\n0\n0\n" and done.stderr == "", done
