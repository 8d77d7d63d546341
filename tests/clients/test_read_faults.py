"""Faults at every request of a query of a store in S3 or behind an HTTP server: the right answer or an error that names the store, never another
answer. One chunk alone that is another, in a folder, cannot be told (src/docs/pages/guide/formats.md)."""

import collections
import concurrent.futures
import io
import json
import re
import zipfile

import numpy as np
import pytest

from faults import KEYS, Shelf
from server import FIXTURES
from test_remote import vcz

SQL = "SELECT sfs(call_genotype) AS sfs, count(*) AS n, sum(variant_position) AS sum FROM t"
# One retry, at once.
RETRY = ["-o", "retry.max_retries=1", "-o", "retry.initial_backoff=1ms", "-o", "retry.max_backoff=1ms"]
OTHER = ("/data/", "/other/")
# What every request from one on meets, and one alone; `lost` is an answer without a body.
FROM_ONE_ON = ["reset", "cut", "lost", "internal", "unavailable", "shorter", "longer", "retagged", OTHER]
ALONE = ["reset", "cut", "internal", "unavailable", "shorter", "longer", "retagged"]
# What messages say of them.
CAUSES = "HTTP error|Server returned|bytes and sent|(ETag|content) has changed|is not JSON|the header says"


def files(name):
    with zipfile.ZipFile(FIXTURES / "layouts" / f"{name}.vcz.zip") as archive:
        return {key: archive.read(key) for key in archive.namelist() if not key.endswith("/")}


def archived(content):
    """An archive that is longer than those that are read whole."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("padding", np.random.default_rng(1).bytes(3 << 20))
        for key, data in content.items():
            archive.writestr(key, data)
    return packed.getvalue()


def with_other_genotypes(content):
    """A store of which only the chunks of genotypes, of which some are absent, are others."""
    chunks = [key for key in content if key.startswith("call_genotype/") and not key.endswith((".zarray", ".zattrs"))]
    return content | {key: content[chunks[-1]] for key in chunks}


@pytest.fixture(scope="module")
def objects():
    found = {}
    content = files("v2-consolidated")
    for prefix, of in [("data", content), ("other", with_other_genotypes(content))]:
        found |= {f"{prefix}/x.vcz/{key}": data for key, data in of.items()} | {f"{prefix}/x.vcz.zip": archived(of)}
    return found


def run(objects, place, fault=lambda *_: None):
    """The answer of a query, or the error, and the requests."""
    with Shelf(objects, fault) as shelf:
        address = f"http://127.0.0.1:{shelf.port}"
        location = place.format(address)
        try:
            printed = vcz("sql", f"t={location}", *RETRY, "-q", "--format", "json", "-c", SQL, **KEYS, AWS_ENDPOINT=address)
        except AssertionError as error:
            return None, str(error), shelf.requests
        return json.loads(printed), None, shelf.requests


PLACES = {
    "S3": "s3://box/data/x.vcz",
    "HTTP": "{}/box/data/x.vcz",
    "an archive in S3": "s3://box/data/x.vcz.zip",
    "an archive by HTTP": "{}/box/data/x.vcz.zip",
}


@pytest.mark.parametrize("place", PLACES)
def test_faults_at_every_request(place, objects):
    right, error, requests = run(objects, PLACES[place])
    others, _, _ = run(objects, PLACES[place], lambda *_: OTHER)
    assert right and others and right != others, (error, requests)
    # Half of the kinds at each request; the other half where the same is read in the other way.
    shift = int("S3" in place)
    cases = [(kind, False) for kind in FROM_ONE_ON] + [(kind, True) for kind in ALONE]
    cases = [(first, *case) for first in range(1, len(requests) + 1) for case in cases[(first + shift) % 2 :: 2]]

    def outcome(case):
        first, kind, alone = case
        happens = lambda number, *_: kind if number == first or number > first and not alone else None
        answer, error, asked = run(objects, PLACES[place], happens)
        told = f"{place}: {kind} at request {first} of {len(requests)}, alone: {alone}\n{answer or error}\n{asked}"
        if error:
            assert "x.vcz" in error and re.search(CAUSES, error) and not re.search("panicked|Internal error", error), told
            return "error"
        if answer != right:
            # The other store was there before this one was opened.
            opened = next(number for number, (_, path) in enumerate(asked, 1) if path.endswith((".zmetadata", ".zip")))
            assert kind == OTHER and first <= opened and answer == others, told
            return "others"
        return "right"

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        outcomes = collections.Counter(pool.map(outcome, cases))
    print(f"{place}: {len(requests)} requests: {outcomes}")
    assert outcomes["right"] > 5 and outcomes["error"] > 5
