"""Servers and programs that share a cache on disk at the same time, while its files come and go: the answers without it, and its limit in the end."""

import concurrent.futures
import contextlib
import json
import os
import threading
import time

import numpy as np
import pytest

from faults import Shelf
from server import Server, rows
from stores import wide_store
from test_remote import as_arguments, vcz

pytestmark = pytest.mark.alone

SQL = "SELECT sfs(call_genotype) AS sfs, sum(variant_position) AS sum FROM {}"
# Stores of 80 chunks of 40 KB, together six times what a cache of 1 MB takes.
STORES, ROWS, SAMPLES, CHUNKS = ["a", "b"], 100, 200, 80
LIMIT, SECONDS, PROGRAMS = 1 << 20, 4, 2


@pytest.fixture
def stores(tmp_path):
    """Stores of random genotypes, by their names."""
    found = {}
    chance = np.random.default_rng(1)
    for name in STORES:
        found[name] = wide_store(tmp_path / f"{name}.vcz", variants=ROWS * CHUNKS, samples=SAMPLES, rows=ROWS)
        for chunk in (found[name] / "call_genotype").glob("*.0.0"):
            chunk.unlink()
            chunk.write_bytes(chance.integers(0, 2, (ROWS, SAMPLES, 2), dtype=np.int8).tobytes())
    return found


@pytest.fixture
def shelf(stores):
    objects = {f"{path.name}/{file.relative_to(path)}": file.read_bytes() for path in stores.values() for file in path.rglob("*") if file.is_file()}
    with Shelf(objects) as shelf:
        yield shelf


def in_cache(folder):
    """The bytes of each file, also of those that are being written: of files that were there at the same time."""
    listed = [entry.path for group in os.scandir(folder) if group.is_dir() for entry in os.scandir(group.path)]
    found = {}
    for path in listed:
        with contextlib.suppress(FileNotFoundError):
            found[path] = os.stat(path).st_size
    return found


class Watch:
    """Measures a cache again and again: the most bytes, and files that went."""

    def __init__(self, folder):
        self.folder, self.most, self.gone, self.ended = folder, 0, 0, threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        before = {}
        while not self.ended.wait(0.005):
            now = in_cache(self.folder)
            self.most = max(self.most, sum(now.values()))
            self.gone += len(before.keys() - now.keys())
            before = now

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()


def rows_of(location, *options):
    return json.loads(vcz("sql", f"t={location}", *options, "-q", "--format", "json", "-c", SQL.format("t")).strip().splitlines()[-1])


def test_shared_by_programs_at_the_same_time(stores, shelf, tmp_path):
    folder = tmp_path / "cache"
    options = as_arguments({"vcz.cache_dir": folder, "vcz.cache_size": str(LIMIT)})
    given = [f"{name}=http://127.0.0.1:{shelf.port}/box/{name}.vcz" for name in STORES]
    right = {name: rows_of(stores[name]) for name in STORES}
    end = None
    asked = lambda: time.monotonic() < end

    def program(first):
        count = 0
        while asked():
            name = STORES[(first + count) % len(STORES)]
            assert rows_of(given[STORES.index(name)].partition("=")[2], *options) == right[name]
            count += 1
        return count

    def client(server, first):
        count = 0
        with server.adbc() as connection:
            while asked():
                name = STORES[(first + count) % len(STORES)]
                assert rows(connection, SQL.format(name)) == right[name]
                count += 1
        return count

    with Server(*given, *options) as one, Server(*given, *options) as two, Watch(folder) as watch, concurrent.futures.ThreadPoolExecutor() as pool:
        end = time.monotonic() + SECONDS
        running = [pool.submit(client, server, first) for first, server in enumerate([one, two, one, two])]
        running += [pool.submit(program, first) for first in range(PROGRAMS)]
        counts = [future.result() for future in running]
    used = sum("if-none-match" in headers for headers in shelf.headers)
    print(f"{counts} answers, at most {watch.most} bytes, {watch.gone} files went, {used} of {len(shelf.requests)} requests for what was there")
    assert all(counts) and watch.gone > 50 and used > 50 and watch.most <= LIMIT
    assert rows_of(given[0].partition("=")[2], *options) == right[STORES[0]]
    left = in_cache(folder)
    assert LIMIT / 2 < sum(left.values()) <= LIMIT and not [path for path in left if "/.writing-" in path]
