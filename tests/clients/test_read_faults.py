"""Faults at every request of a query of a store in S3 or behind an HTTP server: the right answer or an error that names the store, and the array and
chunk where it is about one, never another answer. One chunk alone that is absent or another, in a folder, cannot be told
(src/docs/pages/guide/formats.md)."""

import collections
import concurrent.futures
import io
import json
import re
import zipfile

import numpy as np
import pytest

from faults import KEYS, STATUSES, Shelf
from server import FIXTURES
from test_remote import vcz

SQL = "SELECT sfs(call_genotype) AS sfs, count(*) AS n, sum(variant_position) AS sum FROM t"
# One retry, at once.
RETRY = ["-o", "retry.max_retries=1", "-o", "retry.initial_backoff=1ms", "-o", "retry.max_backoff=1ms"]
OTHER = ("/data/", "/other/")
# What every request from one on meets, or one alone; `lost` is an answer without a body.
KINDS = [*STATUSES, "reset", "cut", "lost", "shorter", "longer", "retagged", OTHER]
# With a retry, one of these alone changes nothing.
PASSING = ["unavailable", "internal", "reset", "cut", "lost"]
# A chunk of a folder that alone meets one of these cannot be told from one that the store never had, or that was always this one.
UNTOLD = ["absent", OTHER]
# What messages say of them.
CAUSES = "HTTP error|Server returned|bytes and sent|(ETag|content) has changed|is not JSON|the header says|is absent|is not a VCZ store|region_index"
CHUNK = re.compile(r"/[\d.]+$")
# An archive is opened by so many requests.
OPENING = 2


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
    cases = [(first, kind, alone) for first in range(1, len(requests) + 1) for kind in KINDS for alone in (False, True)]

    def outcome(case):
        first, kind, alone = case
        happens = lambda number, *_: kind if number == first or number > first and not alone else None
        answer, error, asked = run(objects, PLACES[place], happens)
        told = f"{place}: {kind} at request {first} of {len(requests)}, alone: {alone}\n{answer or error}\n{asked}"
        # The path of request `first` is not the same each time, because several requests run at once.
        met = asked[first - 1][1]
        untold = alone and kind in UNTOLD and CHUNK.search(met)
        if error:
            assert "x.vcz" in error and re.search(CAUSES, error) and not re.search("panicked|Internal error", error), told
            names_chunk = re.search(r"array '\w+', chunk [\d.]+:|cannot read '\w+/[\d.]+'", error)
            assert names_chunk or untold or not (CHUNK.search(met) or met.endswith(".zip") and first > OPENING), told
            assert not (alone and kind in PASSING), told
            return "error"
        if answer != right and untold:
            return "untold"
        if answer != right:
            # The other store was there before this one was opened.
            opened = next(number for number, (_, path) in enumerate(asked, 1) if path.endswith((".zmetadata", ".zip")))
            assert kind == OTHER and not alone and first <= opened and answer == others, told
            return "others"
        return "right"

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        outcomes = collections.Counter(pool.map(outcome, cases))
    print(f"{place}: {len(requests)} requests: {outcomes}")
    assert outcomes["right"] > len(requests) and outcomes["error"] > len(requests)
