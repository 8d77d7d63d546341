"""Stores behind an HTTP server that cannot list, without consolidated metadata: what `vcz inspect` and `vcz sql` say of arrays that may be missing,
names by a table option, and `vcz inspect --consolidate`."""

import functools
import json
import shutil
import threading
import zipfile

import pytest

from server import FIXTURES
from test_remote import STORES, Quiet, Web, vcz

# An array whose name nothing tells.
NAME = "variant_XX"
SQL = f'SELECT max("{NAME}") AS a, sum(variant_position) AS b, sfs(call_genotype) AS c FROM t'
# What may be missing where the attributes have a VCF header, and where they have none.
OTHERS = {
    True: "There may be more: arrays that neither the VCF Zarr specification nor the VCF header in the store's attributes names.",
    False: "There may be more: arrays of INFO fields other than AA, AF and DP and of FORMAT fields other than GT, DP and GQ",
}


@pytest.fixture(params=STORES)
def folder(request, tmp_path):
    """A fixture as a folder, which has the array `NAME`, too."""
    path = tmp_path / "x.vcz"
    with zipfile.ZipFile(FIXTURES / f"{request.param}.zip") as archive:
        archive.extractall(path)
    shutil.copytree(path / "variant_quality", path / NAME)
    return path


@pytest.fixture
def url(folder):
    server = Web(("127.0.0.1", 0), functools.partial(Quiet, directory=folder.parent))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/{folder.name}"
    server.shutdown()


def without_header(folder):
    """Removes the VCF header from the attributes."""
    document = folder / ".zattrs" if (folder / ".zattrs").exists() else folder / "zarr.json"
    content = json.loads(document.read_text())
    attributes = content.get("attributes", content)
    for key in [key for key in attributes if key.startswith("vcf_") and key != "vcf_zarr_version"]:
        del attributes[key]
    document.write_text(json.dumps(content))


def inspected(location, *options):
    """The arrays of a store, without what only a place that can be listed tells, and the warnings."""
    report = json.loads(vcz("inspect", location, "--format", "json", *options))
    arrays = {array.pop("name"): array for array in report["arrays"]}
    for array in arrays.values():
        del array["store"], array["stored_bytes"]
    return arrays, report["warnings"]


def queried(location, *options):
    return json.loads(vcz("sql", f"t={location}", *options, "-q", "--format", "json", "-c", SQL))


@pytest.mark.parametrize("header", [True, False])
def test_what_may_be_missing_is_said(folder, url, header):
    everything, none = inspected(folder)
    assert NAME in everything and not none
    if not header:
        without_header(folder)
    arrays, (warning,) = inspected(url)
    assert arrays == {name: array for name, array in everything.items() if name != NAME}
    for part in ["cannot be listed", "no consolidated metadata", OTHERS[header], "'vcz.arrays'", "vcz inspect STORE --consolidate"]:
        assert part in warning, warning
    assert f"Warning: {warning}\n" in vcz("inspect", url)
    message = vcz("sql", f"t={url}", "-q", "-c", SQL, expect=1)
    assert f'No field named "{NAME}"' in message and f"store '{url}': {warning}" in message, message
    assert "cannot be listed" in vcz("inspect", url, "--consolidate", expect=1)


def test_arrays_are_named(folder, url):
    named = ["-o", f"vcz.arrays={NAME}"]
    assert inspected(url, *named)[0] == inspected(folder)[0]
    assert queried(url, *named) == queried(folder)
    assert "there is no array 'variant_YY'" in vcz("inspect", url, "-o", "vcz.arrays=variant_YY", expect=1)


def test_the_owner_consolidates(folder, url):
    """In the folder that is served; afterwards all is there by HTTP."""
    everything, _ = inspected(folder)
    vcz("inspect", folder, "--consolidate")
    assert inspected(url) == (everything, [])
    assert queried(url) == queried(folder)
