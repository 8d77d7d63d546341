"""The page for users of clients, src/flight/README.md: its Python runs as it stands."""

import json
import re

import matplotlib
import pytest

from server import FIXTURES, REPOSITORY

matplotlib.use("Agg")
PAGE = (REPOSITORY / "src" / "flight" / "README.md").read_text()
EXPECTED = json.loads((FIXTURES / "expected.json").read_text())["sim.vcz"]


def test_the_python_of_the_page(server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 4
    assert all("127.0.0.1:50051" in block for block in (blocks[0], blocks[2]))
    names = {}
    for block in blocks:
        exec(compile(block.replace("127.0.0.1:50051", server.address), "README.md", "exec"), names)
    for population in ["first", "second"]:
        assert list(names["spectra"][population]) == EXPECTED[population]["sfs"]
    assert names["spectrum"] == EXPECTED["first"]["sfs"]
    assert "has no contig 'chr9'" in names["notices"][0]
    windows = {(row["contig"], row["window_start"]): row for row in EXPECTED["windows"]["w50k"]["rows"]}
    scan = names["scan"]
    assert len(scan) == len(windows)
    for row in scan.itertuples():
        wanted = windows[row.contig, row.window_start]
        assert row.pi == pytest.approx(wanted["diversity_first"] / wanted["accessible_bases"], rel=1e-9)
    assert (tmp_path / "scan.png").read_bytes().startswith(b"\x89PNG")
    assert names["genotypes"].shape[1:] == (30, 2)


def test_the_flags_of_the_page_exist():
    import subprocess

    from server import VCZ

    usage = subprocess.run([VCZ, "serve", "--help"], capture_output=True, text=True, check=True).stdout
    flags = set(re.findall(r"--[a-z][a-z-]+", PAGE)) - {"--quiet"}
    assert flags and all(flag in usage for flag in flags), [flag for flag in flags if flag not in usage]
    missing = [flag for flag in set(re.findall(r"--[a-z][a-z-]+", usage)) - {"--help"} if flag not in PAGE]
    assert not missing, missing
