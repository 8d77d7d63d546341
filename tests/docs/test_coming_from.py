"""The pages for users of other programs: each line is run by the other program and by `vcz`, and gives the same.

A table has a line of the other program in its first column and one of SQL in the second. Of lines marked ≠ the results differ, and the page says why.
Elsewhere a block of `sh` prints columns, and the block of `sql` below it gives the same columns.
"""

import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
import vcz

TOP = pathlib.Path(__file__).resolve().parents[2]
PAGES = TOP / "src" / "docs" / "pages" / "coming-from"
EXAMPLE = pathlib.Path(os.environ["DOCS_EXAMPLE"])
SGKIT = os.environ.get("DOCS_SGKIT_PYTHON")
#: Lines on each page, so that none is lost by a change of its form.
LINES = {"scikit-allel": 33, "sgkit": 15, "bcftools": 28, "vcftools": 20, "plink2": 19, "pixy": 6}


@dataclasses.dataclass
class Line:
    page: str
    number: int
    peer: str
    sql: str
    differs: bool

    def __str__(self):
        return f"{self.page}:{self.number}"


def code(cell):
    found = re.findall(r"`` (.+?) ``|`([^`]+)`", cell)
    return [(first or second).replace("\\|", "|") for first, second in found]


def lines_of(page):
    """The lines of a page, in order."""
    text = (PAGES / f"{page}.md").read_text()
    lines, fence, block, start, pending = [], None, [], 0, None
    for number, row in enumerate(text.splitlines(), 1):
        if row.startswith("```"):
            if fence is None:
                fence, block, start = row[3:].split(" ")[0], [], number
            else:
                if fence == "sh" and "setup" not in opening:
                    pending = (start, "\n".join(block))
                elif fence == "sql" and pending:
                    lines.append(Line(page, pending[0], pending[1], "\n".join(block), pending[1].startswith("# ≠")))
                    pending = None
                fence = None
            opening = row if fence else ""
        elif fence is not None:
            block.append(row)
        elif row.startswith("| ") and "`" in row:
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]]
            lines.append(Line(page, number, code(cells[0])[0], code(cells[1])[0], cells[0].startswith("≠")))
    return lines


def setup_of(page):
    text = (PAGES / f"{page}.md").read_text()
    return "\n".join(re.findall(r"^```(?:python|sh) setup\n(.*?)^```", text, re.S | re.M))


def parametrize(page):
    return pytest.mark.parametrize("line", lines_of(page), ids=str)


@pytest.mark.parametrize("page", LINES)
def test_the_lines_of_a_page_are_found(page):
    assert len(lines_of(page)) >= LINES[page]


@pytest.fixture(scope="session")
def db():
    os.chdir(EXAMPLE)
    db = vcz.connect(settings={"datafusion.execution.target_partitions": 1}, progress=False)
    for name, store in {"t": "example.vcz", "all_sites": "allsites.vcz"}.items():
        db.sql(f"CREATE EXTERNAL TABLE {name} STORED AS VCZ LOCATION '{store}' OPTIONS ('vcz.populations' 'populations.tsv')")
    return db


def rows(db, sql):
    statement = sql if re.match(r"(SELECT|WITH)\b", sql) else f"SELECT {sql} FROM t"
    return db.sql(statement).to_pylist()


def plain(value):
    """Numbers and lists of them; NULL is NaN."""
    if isinstance(value, dict):
        return [plain(part) for part in value.values()]
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    return np.nan if value is None else value


def same(found, wanted, rtol=1e-9, atol=1e-12):
    found, wanted = np.asarray(found, dtype=float).squeeze(), np.asarray(wanted, dtype=float).squeeze()
    assert np.isfinite(wanted).any()
    if found.shape != wanted.shape:
        return False
    return bool(np.isclose(found, wanted, rtol=rtol, atol=atol, equal_nan=True).all())


def check(db, line, wanted, **tolerance):
    found = [plain(list(row.values())) for row in rows(db, line.sql)]
    is_same = same(found, wanted, **tolerance)
    assert is_same != line.differs, f"{line.peer}\n{np.asarray(wanted).ravel()[:8]}\n{line.sql}\n{np.asarray(found).ravel()[:8]}"


# Python


@pytest.fixture(scope="session")
def allel_names():
    os.chdir(EXAMPLE)
    names = {}
    with np.errstate(all="ignore"):
        exec(setup_of("scikit-allel"), names)
    return names


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::vcz.Notice")
@parametrize("scikit-allel")
def test_scikit_allel(db, allel_names, line):
    with np.errstate(all="ignore"):
        wanted = eval(line.peer, allel_names)
    # rogers_huff_r is computed in single precision.
    check(db, line, np.asarray(wanted), **({"rtol": 1e-5} if "rogers_huff" in line.peer else {}))


@pytest.fixture(scope="session")
def sgkit_values():
    """The values of all lines, from an environment of its own: sgkit needs an older zarr."""
    lines = {str(line): line.peer for line in lines_of("sgkit")}
    done = subprocess.run(
        [SGKIT, str(TOP / "tests" / "docs" / "sgkit_values.py")],
        input=json.dumps({"setup": setup_of("sgkit"), "lines": lines}), capture_output=True, text=True, cwd=EXAMPLE, timeout=280,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.filterwarnings("ignore::vcz.Notice")
@parametrize("sgkit")
def test_sgkit(db, sgkit_values, line):
    wanted = sgkit_values[str(line)]
    assert "error" not in wanted, wanted["error"]
    check(db, line, np.array(wanted["value"], dtype=float), rtol=1e-6, atol=1e-9)


# Programs


def needs(program):
    if shutil.which(program) is None:
        message = f"NOT RUN: there is no {program}, so the lines of its page are not compared (apt-get install {program})"
        print(message, file=sys.stderr)
        pytest.skip(message)


def table(text, rows):
    """Lines of columns, without one of headings."""
    found = [line.split() for line in text.splitlines() if line.strip()]
    return found[1:] if len(found) == rows + 1 or found[0][0].startswith("#") else found


def is_number(cell):
    try:
        float(cell)
        return True
    except ValueError:
        return False


def shell(command, folder):
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", command], capture_output=True, text=True, cwd=folder, timeout=120)
    assert done.returncode == 0, f"{command}\n{done.stderr}"
    return done.stdout


def check_columns(db, line, text, rtol):
    if line.differs:
        with pytest.raises(AssertionError):
            compare_columns(db, line, text, rtol)
    else:
        compare_columns(db, line, text, rtol)


def compare_columns(db, line, text, rtol):
    found = [list(row.values()) for row in rows(db, line.sql)]
    wanted = table(text, len(found))
    assert len(found) == len(wanted) > 0, f"{len(found)} rows, and {len(wanted)} of {line.peer}\n{found[:3]}\n{wanted[:3]}"
    for ours, theirs in zip(found, wanted):
        assert len(ours) == len(theirs), f"{ours}\n{theirs}"
        for one, other in zip(ours, theirs):
            if is_number(other) and not isinstance(one, str):
                value = np.nan if one is None else float(one)
                assert np.isclose(value, float(other), rtol=rtol, atol=rtol, equal_nan=True), f"{line.peer}\n{theirs}\n{ours}"
            elif one is None:
                assert other in ("NA", ".", "nan", "-nan"), f"{theirs}\n{ours}"
            else:
                assert str(one) == other, f"{line.peer}\n{theirs}\n{ours}"


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A folder with the data, into which the programs may write."""
    folder = tmp_path_factory.mktemp("peers")
    for path in EXAMPLE.iterdir():
        (folder / path.name).symlink_to(path)
    if shutil.which("vcftools"):
        shell(setup_of("vcftools"), folder)
    return folder


def sites(db, condition):
    return [
        (row["variant_contig"], str(row["variant_position"]))
        for row in db.sql(f"SELECT variant_contig, variant_position FROM t WHERE {condition}").to_pylist()
    ]


@parametrize("bcftools")
def test_bcftools(db, folder, line):
    needs("bcftools")
    if line.sql.startswith(("SELECT", "WITH")):
        check_columns(db, line, shell(line.peer, folder), 1e-4)
        return
    # An option of `bcftools view`, and a condition.
    found = shell(f"bcftools view -H {line.peer.removeprefix('bcftools view ')} example.vcf.gz | cut -f 1,2", folder)
    wanted = [tuple(row.split("\t")) for row in found.splitlines()]
    assert 0 < len(wanted) < 5_000
    assert (sites(db, line.sql) == wanted) != line.differs, line


@parametrize("vcftools")
def test_vcftools(db, folder, line):
    needs("vcftools")
    if line.sql.startswith(("SELECT", "WITH")):
        check_columns(db, line, shell(line.peer, folder), 2e-5)
        return
    found = shell(f"vcftools --gzvcf example.vcf.gz {line.peer} --recode --stdout 2>log | grep -v '^#' | cut -f 1,2", folder)
    wanted = [tuple(row.split("\t")) for row in found.splitlines()]
    assert 0 < len(wanted) < 5_000
    assert (sites(db, line.sql) == wanted) != line.differs, line


@pytest.fixture(scope="session")
def plink(folder):
    needs("plink2")
    shell(setup_of("plink2"), folder)


@parametrize("plink2")
def test_plink2(db, folder, plink, line):
    if line.sql.startswith(("SELECT", "WITH")):
        check_columns(db, line, shell(line.peer, folder), 1e-4)
        return
    found = shell(f"plink2 --pfile example {line.peer} --write-snplist --out kept >log 2>&1; cat kept.snplist", folder)
    wanted = found.split()
    assert 0 < len(wanted) < 5_000
    ours = [row["variant_id"] for row in db.sql(f"SELECT variant_id FROM t WHERE {line.sql}").to_pylist()]
    assert (ours == wanted) != line.differs, line


@pytest.fixture(scope="session")
def pixy(folder):
    """Whether pixy is installed; it has been run then."""
    if shutil.which("pixy"):
        shell(setup_of("pixy"), folder)
    return shutil.which("pixy")


@parametrize("pixy")
def test_pixy(db, folder, pixy, line):
    """Compared with what pixy gave, and where it is installed with what it gives. (tests/docs/run.sh says where it is not.)"""
    kept = json.loads((TOP / "tests" / "docs" / "pixy.json").read_text())
    check_columns(db, line, kept[line.peer], 1e-9)
    if pixy:
        check_columns(db, line, shell(line.peer, folder), 1e-9)
