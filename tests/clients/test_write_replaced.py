"""Faults at every request while a store, or an array, in S3 is replaced: what is there is the old one or the new one, or it does not open, with an
error that says so; never a part of one and a part of the other."""

import os
import re
import shutil
import signal
import subprocess

import numpy as np
import pytest

from faults import Bucket, Proxy
from written import REPOSITORY, arrays, command, copy, create, environment, fixture, group, says, sql

NO_RETRY = "'retry.max_retries' '0'"
OLD, NEW = "SELECT {} FROM t WHERE variant_position % 2 = 0", "SELECT {} FROM t WHERE variant_position % 2 = 1"
COLUMNS = "variant_contig, variant_position, variant_allele, variant_position * {} AS x, call_genotype"
# What every request from one on meets; `killed` ends the process when a request is sent, `answered` when it has been answered.
FAULTS = ["denied", "lost", "killed", "answered"]
# Of the requests that a fault could meet, it meets one of so many; with 1 they take minutes for each fault.
ONE_OF = int(os.environ.get("VCZ_FAULTS_ONE_OF", "2"))
STATISTIC = "SELECT count(*) AS n, sum(variant_position) AS p, sum(variant_x) AS x, sfs(call_genotype) AS s FROM c"


@pytest.fixture(scope="module")
def bucket():
    bucket = Bucket()
    yield bucket
    bucket.stop()


class Faulty:
    """A statement whose requests from `which` on fail."""

    def __init__(self, bucket, statements, which, fault):
        self.process, self.which, self.fault = None, which, fault
        with Proxy(bucket.host, bucket.port, self.meets) as proxy:
            self.process = subprocess.Popen(
                command(statements), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=REPOSITORY,
                env=environment(**bucket.variables(proxy.port)),
            )
            _, self.message = self.process.communicate(timeout=240)
            self.requests = list(proxy.requests)
        self.status = self.process.returncode

    def meets(self, number, method, path):
        if self.which is None or number < self.which:
            return None
        if self.fault in ("killed", "answered"):
            # The request that it is killed at is not passed on, or is.
            self.process.send_signal(signal.SIGKILL)
            return "lost" if self.fault == "answered" and number == self.which else "reset"
        return self.fault


class Kept:
    """The objects of the bucket below a prefix, to be put back."""

    def __init__(self, bucket, prefix):
        self.bucket, self.prefix = bucket, prefix
        self.tags = bucket.tags(prefix)
        self.objects = {key: bucket.content(key, tag) for key, tag in self.tags.items()}

    def put_back(self):
        there = self.bucket.tags(self.prefix)
        for key in set(there) - set(self.objects):
            self.bucket.client.delete_object(Bucket="box", Key=key)
        for key, data in self.objects.items():
            if there.get(key) != self.tags[key]:
                self.bucket.client.put_object(Bucket="box", Key=key, Body=data)


def by_zarr(bucket, name, folder, consolidated):
    """The arrays as zarr-python finds them; None if it does not open a group."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    path = bucket.download(name, folder)
    try:
        return {name: array[...] for name, array in group(path, consolidated=consolidated).arrays()}
    except (FileNotFoundError, KeyError, ValueError):
        return None


def by_sql(bucket, location, statistic=STATISTIC):
    """The answer of a query, or what the program says."""
    done = subprocess.run(
        command([create("c", location), statistic]), capture_output=True, text=True, cwd=REPOSITORY, env=environment(**bucket.variables()), timeout=240
    )
    assert "panicked" not in done.stderr and done.returncode in (0, 1), done.stderr
    return (done.stdout.strip(), None) if done.returncode == 0 else (None, done.stderr)


def same(one, other):
    """Whether two stores have the same arrays with the same values."""
    return set(one) == set(other) and all(np.array_equal(one[name], other[name]) and one[name].dtype == other[name].dtype for name in one)


def requests_of(bucket, statements, fault):
    """Runs statements without faults; those of their requests that meet this fault: the first and last ones, and of the others each meets one of them, or none."""
    requests = Faulty(bucket, statements, None, None).requests
    # Chunks that are staged are like each other.
    staged = [at for at, (method, path) in enumerate(requests, 1) if method == "PUT" and ".vcz-staged" in path]
    numbers = [at for at in range(1, len(requests) + 1) if at not in staged[1:-1]]
    return sorted({numbers[0], *numbers[FAULTS.index(fault) :: len(FAULTS) * ONE_OF], *numbers[-2:]}), requests


@pytest.mark.parametrize("format_", [2, 3])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_store_is_replaced(format_, fault, bucket, tmp_path):
    """By one of other rows, of which a part would be read as if it were whole."""
    source, prefix = fixture("haploid"), f"replaced{format_}"
    name = f"{prefix}/a.vcz"
    location = f"s3://box/{name}"
    bucket.remove(prefix)
    options = {"format": format_, "variants_chunk_size": 40}
    statement = lambda query, number, **more: copy(query.format(COLUMNS.format(number)), location, **options, **more).replace(  # noqa: E731
        "OPTIONS (", f"OPTIONS ({NO_RETRY}, "
    )
    sql(source.table(), statement(OLD, 3), **bucket.variables())
    before = Kept(bucket, prefix)
    old = by_zarr(bucket, name, tmp_path / "down", None), by_sql(bucket, location)[0]
    replace = [source.table(), statement(NEW, 5, overwrite="true")]
    numbers, requests = requests_of(bucket, replace, fault)
    new = by_zarr(bucket, name, tmp_path / "down", None), by_sql(bucket, location)[0]
    assert old[1] != new[1] and not same(old[0], new[0]) and len(numbers) > 5
    found = []
    for which in numbers:
        before.put_back()
        run = Faulty(bucket, replace, which, fault)
        assert run.status in (0, 1, -signal.SIGKILL) and "panicked" not in run.message, run.message
        answer, message = by_sql(bucket, location)
        at = f"request {which} of {len(requests)}, {requests[which - 1]}, {run.message}"
        assert answer in (old[1], new[1], None), f"{at}: {answer}"
        if message:
            says(message, re.escape(location), "is not a VCZ store")
        for consolidated in (None, False):
            seen = by_zarr(bucket, name, tmp_path / "down", consolidated)
            assert seen is None or same(seen, old[0]) or same(seen, new[0]), f"{at}: consolidated: {consolidated}"
        # An error says what has become of the old store.
        if run.status == 1:
            assert answer == old[1] or "write it again" in run.message or answer == new[1], at
        assert run.status or answer == new[1], at
        found.append("old" if answer == old[1] else "new" if answer else "none")
    print(f"{fault}: {len(numbers)} of {len(requests)} requests: {[(kind, found.count(kind)) for kind in ('old', 'none', 'new')]}")
    assert found[0] == "old" and {"old", "none"} <= set(found)
    # It can be written again, once the mark of the killed statement is removed.
    bucket.remove(f"{name}/.vcz-writing")
    sql(*replace, **bucket.variables())
    assert by_sql(bucket, location)[0] == new[1]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(("how", "format_"), [("new", 3), ("replaced", 2), ("replaced", 3)])
def test_an_array_is_added(how, format_, fault, bucket, tmp_path):
    """The array is there and whole, the old one or the new one, or it is not there; the others stay."""
    source, prefix = fixture("haploid"), f"{how}{format_}"
    name = f"{prefix}/a.vcz"
    location = f"s3://box/{name}"
    bucket.remove(prefix)
    sql(source.table(), copy(f"SELECT {COLUMNS.format(3)} FROM t", location, format=format_, variants_chunk_size=40), **bucket.variables())
    array = {"new": "y", "replaced": "x"}[how]
    # Of another type than the old one, of as many bytes, so that old metadata would be wrong for it.
    add = f"SELECT CAST(variant_position AS DOUBLE) / 4 AS {array} FROM c"
    overwrite = {"overwrite": "true"} if how == "replaced" else {}
    statements = [create("c", location), copy(add, location, mode="add", **overwrite).replace("OPTIONS (", f"OPTIONS ({NO_RETRY}, ")]
    before = Kept(bucket, prefix)
    old = by_zarr(bucket, name, tmp_path / "down", None)
    assert old["variant_x"].dtype == np.int64
    numbers, requests = requests_of(bucket, statements, fault)
    new = by_zarr(bucket, name, tmp_path / "down", None)
    assert new[f"variant_{array}"].dtype == np.float64 and len(numbers) > 4
    others = {name: values for name, values in old.items() if name != f"variant_{array}"}
    query = f"SELECT sum(variant_{array}) AS a, count(*) AS n FROM c"
    (new_answer, _), _ = by_sql(bucket, location, query), before.put_back()
    old_answer, _ = by_sql(bucket, location, query)
    found = []
    for which in numbers:
        before.put_back()
        run = Faulty(bucket, statements, which, fault)
        assert run.status in (0, 1, -signal.SIGKILL) and "panicked" not in run.message, run.message
        at = f"request {which} of {len(requests)}, {requests[which - 1]}, {run.message}"
        for consolidated in (None, False):
            seen = by_zarr(bucket, name, tmp_path / "down", consolidated)
            assert same({name: values for name, values in seen.items() if name != f"variant_{array}"}, others), at
            assert any(same(seen, wanted) for wanted in (old, new, others)), f"{at}: consolidated: {consolidated}"
        answer, message = by_sql(bucket, location, query)
        assert answer in (old_answer, new_answer, None), f"{at}: {answer}"
        if message:
            says(message, f"variant_{array}")
        assert run.status or answer == new_answer, at
        found.append("new" if answer == new_answer else "none" if answer is None else "old")
    print(f"{how}, {fault}: {len(numbers)} of {len(requests)} requests: {[(kind, found.count(kind)) for kind in ('old', 'none', 'new')]}")
    assert len(arrays(bucket.download(name, tmp_path / "last"))["variant_position"]) == len(old["variant_position"])
