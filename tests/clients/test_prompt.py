"""The prompt of `vcz sql`, typed at in a pseudo-terminal: history, completion, help, rejected lines, spectra that fit the width."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time

import pytest

from server import REPOSITORY, SIM, VCZ

pytestmark = pytest.mark.alone


class Prompt:
    """`vcz sql` at a terminal of 80 columns."""

    def __init__(self, home, *arguments):
        self.terminal, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 80, 0, 0))
        environment = {**os.environ, "HOME": str(home), "TERM": "xterm"}
        command = [VCZ, "sql", *map(str, arguments)]
        self.process = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=REPOSITORY,
            env=environment,
            start_new_session=True,
            # So that Ctrl-C is a signal.
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(theirs)
        self.text = ""
        self.wait_for("> ")

    def wait_for(self, pattern, seconds=30):
        """Everything printed up to a match of `pattern` since the last call."""
        end = time.monotonic() + seconds
        while not (found := re.search(pattern, self.text)):
            ready, _, _ = select.select([self.terminal], [], [], max(0, end - time.monotonic()))
            assert ready, f"{pattern!r} did not come:\n{self.text}"
            more = os.read(self.terminal, 65536).decode(errors="replace")
            # Colours and movements of the cursor.
            self.text += re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", more)
        before, self.text = self.text[: found.end()], self.text[found.end() :]
        return before

    def type(self, text):
        os.write(self.terminal, text.encode())

    def end(self):
        self.type("\\q\r")
        assert self.process.wait(20) == 0
        os.close(self.terminal)


@pytest.fixture
def prompt(tmp_path):
    running = Prompt(tmp_path, *SIM)
    yield running
    if running.process.poll() is None:
        running.process.kill()


def test_statements_and_spectra(prompt):
    prompt.type("SELECT count(*) AS sites FROM sim;\r")
    assert "1 row(s) fetched" in prompt.wait_for("Elapsed")
    prompt.type("SELECT sfs(call_genotype, 'first') AS spectrum FROM sim;\r")
    shown = prompt.wait_for("Elapsed")
    assert "[1742, 997, 468," in shown
    lines = [line.rstrip() for line in shown.splitlines() if line.startswith("|")]
    assert len(lines) >= 3 and max(map(len, lines)) <= 80
    prompt.type("SELECT joint_sfs(call_genotype, ['s01'], ['s02']) AS joint FROM sim;\r")
    matrix = [line for line in prompt.wait_for("Elapsed").splitlines() if line.startswith("|")]
    assert sum("," in line for line in matrix) == 3
    prompt.end()


def test_a_rejected_line_leaves_the_prompt_empty(prompt, tmp_path):
    prompt.type("SELEC 1;\r")
    assert "SQL error" in prompt.wait_for("\n.*> ")
    prompt.type("SELECT diversity('a');\r")
    said = prompt.wait_for(r"\[, population\]\)")
    assert "Candidate functions" not in said
    # The next line is a new one.
    prompt.type("SELECT 40 + 2 AS answer;\r")
    assert "42" in prompt.wait_for("Elapsed")
    prompt.end()
    history = (tmp_path / ".vcz_history").read_text()
    assert "SELEC 1;" in history and "SELECT 40 + 2" in history


def test_completion(prompt):
    # A table and a function.
    prompt.type("SELECT count(*) + 1 AS n FROM si\t;\r")
    assert "7403" in prompt.wait_for("Elapsed")
    prompt.type("SELECT round(tajim\tcall_genotype, 'first'), 3) AS d FROM sim;\r")
    assert re.search(r"\|\s*-?[0-9]\.[0-9]+\s*\|", prompt.wait_for("Elapsed"))
    prompt.type("SELECT count(*) FROM sim WHERE variant_pos\t > 0;\r")
    assert "7402" in prompt.wait_for("Elapsed")
    prompt.type("SELECT sfs(call_genotype, 'fir\t')[1] AS s FROM sim;\r")
    assert "1742" in prompt.wait_for("Elapsed")
    prompt.type("SET vcz.pref\t = 7;\r")
    prompt.wait_for("Elapsed")
    prompt.type("SHOW vcz.prefetch;\r")
    assert re.search(r"\|\s*7\s*\|", prompt.wait_for("Elapsed"))
    prompt.end()


def test_help(prompt):
    prompt.type("\\h\r")
    shown = prompt.wait_for("documents a function")
    for name in ["tajimas_d", "allele_counts", "vcz_samples", "array_agg"]:
        assert name in shown
    prompt.type("\\h fay_wu_h\r")
    assert "fay_wu_h(ac)" in prompt.wait_for("FROM t")
    prompt.type("\\h no_such\r")
    prompt.wait_for("there is no function 'no_such'")
    prompt.type("\\nonsense\r")
    prompt.wait_for("is not a command")
    prompt.type("\\d\r")
    assert "sim" in prompt.wait_for("Elapsed")
    prompt.end()


def test_interrupt_stops_a_query(prompt):
    prompt.type("SELECT sum(value) FROM range(200000000000);\r")
    time.sleep(1.0)
    prompt.type("\x03")
    prompt.wait_for(r"\^C")
    prompt.type("SELECT 1 AS one;\r")
    assert "1 row(s)" in prompt.wait_for("Elapsed")
    prompt.end()


@pytest.mark.parametrize("stores", [["sim"], ["sim", "missing", "haploid"]], ids=len)
def test_inspect_is_within_the_terminal(stores):
    terminal, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 80, 0, 0))
    process = subprocess.Popen([VCZ, "inspect", *(f"tests/fixtures/{name}.vcz.zip" for name in stores)], stdin=theirs, stdout=theirs, cwd=REPOSITORY)
    os.close(theirs)
    text = b""
    while True:
        try:
            more = os.read(terminal, 65536)
        except OSError:  # Linux's end of a terminal
            break
        if not more:
            break
        text += more
    assert process.wait(20) == 0
    lines = text.decode().splitlines()
    table = [line for line in lines if line.startswith(("|", "+"))]
    assert len(table) > 20 * len(stores) and max(map(len, table)) <= 80
    assert all(any(f"{name}.vcz.zip" in line for line in lines) for name in stores)
    assert sum(line.startswith("Left out for the terminal's width") for line in lines) >= len(stores)
