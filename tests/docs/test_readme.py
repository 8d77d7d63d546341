"""The README: its queries run, its links lead somewhere, and its picture is that of its queries."""

import importlib.util
import os
import pathlib
import re

import numpy as np
import pytest
import vcz
from matplotlib import image

TOP = pathlib.Path(__file__).resolve().parents[2]
README = (TOP / "README.md").read_text()


@pytest.fixture(scope="module")
def picture():
    spec = importlib.util.spec_from_file_location("picture", TOP / "src" / "docs" / "picture.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    os.chdir(TOP)
    return module


def test_queries(picture):
    statements = [statement for block in picture.queries() for statement in picture.vcz_statements(block)]
    assert len(statements) == 4
    db = vcz.connect(progress=False)
    for statement in statements:
        result = db.sql(statement)
        assert statement.startswith("CREATE") or result.to_pylist()


def test_python():
    (code,) = re.findall(r"^```python\n(.*?)^```", README, re.S | re.M)
    names = {}
    os.chdir(TOP)
    exec(code, names)
    assert len(names["scan"].to_pylist()) > 100


def test_picture_is_current(picture, tmp_path):
    """In content, not in bytes."""
    picture.draw(tmp_path / "picture.png")
    drawn, kept = image.imread(tmp_path / "picture.png"), image.imread(TOP / "src" / "docs" / "picture.png")
    how = "run python src/docs/picture.py"
    assert drawn.shape == kept.shape, how
    assert (np.abs(drawn - kept).max(axis=2) > 0.1).mean() < 0.001, how


PAGES = [str(path.relative_to(TOP)) for path in sorted((TOP / "src" / "docs" / "pages").rglob("*.md"))]


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "src/flight/README.md", "src/scan/remote/README.md", *PAGES])
def test_links(page):
    """Files that links name are in the repository. (That of the site's pages also name sections that are there is checked by mkdocs.)"""
    text = (TOP / page).read_text()
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target or target.endswith((".svg", ".png")) and page in PAGES:
            continue
        name, _, anchor = target.partition("#")
        path = (TOP / page).parent / name if name else TOP / page
        assert path.exists(), f"{page}: {target}"
        if anchor and page not in PAGES:
            headings = re.findall(r"^#+ (.+)$", path.read_text(), re.M)
            slugs = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]
            assert anchor in slugs, f"{page}: {target}"


def test_length():
    """One screen and a half."""
    assert len(README.splitlines()) <= 90
