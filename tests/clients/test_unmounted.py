"""A store on a file system that is unmounted while it is read: the right answer or an error that names the store, never another answer."""

import contextlib
import json
import shutil
import subprocess
import time

import pyarrow
import pyarrow.compute as compute
import pyarrow.flight as flight
import pytest

from faults import small_disk
from protocol import query
from server import REPOSITORY, VCZ, Server
from stores import wide_store

pytestmark = pytest.mark.alone

SQL = "SELECT sfs(call_genotype) AS sfs, count(*) AS n FROM t"
MOMENTS = 10
# Which array is read first is up to the runtime.
MISSED = r"'t': array '\w+', chunk .* unmounted"


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """A store of 300 chunks of genotypes, and the same without 10 of them."""
    found = [wide_store(tmp_path_factory.mktemp(name) / "x.vcz", variants=30_000, samples=500, rows=100) for name in ["whole", "less"]]
    for chunk in range(5, 300, 30):
        (found[1] / "call_genotype" / f"{chunk}.0.0").unlink()
    return found


@contextlib.contextmanager
def mounted(store, folder):
    """A copy of the store in a file system that can be unmounted."""
    with small_disk(folder, 64 << 20) as disk:
        if disk is None:
            pytest.skip("NOT RUN: no file system can be mounted here, so none is unmounted")
        shutil.copytree(store, disk / "x.vcz")
        yield disk


def unmount(disk):
    subprocess.run(["umount", "--lazy", str(disk)], check=True)
    assert not (disk / "x.vcz").exists()


def start(location):
    return subprocess.Popen(
        [VCZ, "sql", f"t={location}", "-q", "--format", "json", "-c", SQL], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=REPOSITORY
    )


def result(server, sql):
    client = server.flight()
    info = client.get_flight_info(query(sql))
    return client.do_get(info.endpoints[0].ticket)


@pytest.mark.parametrize("which", [0, 1], ids=["whole", "less"])
def test_at_any_moment(stores, which, tmp_path):
    """From the start of the program to its end."""
    store = stores[which]
    begun = time.monotonic()
    printed, message = start(store).communicate(timeout=60)
    seconds, right = time.monotonic() - begun, json.loads(printed)
    assert right[0]["n"] == 30_000, message
    outcomes = []
    for moment in range(MOMENTS + 1):
        with mounted(store, tmp_path) as disk:
            process = start(disk / "x.vcz")
            time.sleep(seconds * moment / MOMENTS)
            unmount(disk)
            printed, message = process.communicate(timeout=60)
        if process.returncode == 0:
            assert json.loads(printed) == right, moment
        else:
            assert process.returncode == 1 and "x.vcz" in message and "panicked" not in message, message
        outcomes.append(message.strip() or "the right answer")
    print(seconds, *outcomes, sep="\n")


@pytest.mark.parametrize("which", [0, 1], ids=["whole", "less"])
def test_while_rows_are_read(stores, which, tmp_path):
    """A client has some of the rows; it gets an error, of a store without absent chunks after right rows only."""
    sql = "SELECT variant_position, call_genotype FROM t"
    with Server(f"t={stores[which]}") as server:
        right = result(server, sql).read_all().sort_by("variant_position")
    with mounted(stores[which], tmp_path) as disk, Server(f"t={disk}/x.vcz") as server:
        reader = result(server, sql)
        found = [reader.read_chunk().data]
        unmount(disk)
        with pytest.raises(flight.FlightError, match=MISSED):
            while True:
                found.append(reader.read_chunk().data)
        found = pyarrow.Table.from_batches(found)
        # Positions are 1, 2, …
        assert which or len(found) < len(right) and found == right.take(compute.subtract(found["variant_position"], 1))
        with pytest.raises(flight.FlightError, match=MISSED):
            result(server, SQL).read_all()
