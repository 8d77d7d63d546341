"""Servers that several tests share."""

import os
import pathlib

import pytest

import peers
from server import FIXTURES, REPOSITORY, SIM, Server
from stores import wide_store

MASK = f"""
CREATE EXTERNAL TABLE accessible (contig VARCHAR, "start" BIGINT, "end" BIGINT) STORED AS CSV
  LOCATION '{FIXTURES}/sim.accessible.bed' OPTIONS ('format.delimiter' '\t', 'format.has_header' 'false', 'format.comment' '#');
CREATE VIEW short AS SELECT variant_contig, variant_position FROM sim WHERE variant_position < 1000;
"""


def pytest_configure(config):
    config.addinivalue_line("markers", "alone: has limits on times or memory, and so runs with nothing beside it (run.sh)")


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """The fixture `sim`, a mask and a view, without users."""
    sql = tmp_path_factory.mktemp("sql") / "init.sql"
    sql.write_text(MASK)
    with Server(*SIM, "--sql", sql, "--memory-limit", "1g", "--query-memory-limit", "200m") as server:
        yield server


@pytest.fixture(scope="session")
def shared_data():
    """The folder of real stores, where there is one."""
    folder = pathlib.Path(os.environ.get("VCZ_TEST_DATA", REPOSITORY.parent / "shared" / "data"))
    if not (folder / "gambX.vcz.zip").exists():
        pytest.skip(f"no real stores in {folder}")
    return folder


@pytest.fixture(scope="session")
def wide(tmp_path_factory):
    """A store with 1 GB of genotypes: 100,000 variants of 5,000 diploids."""
    return wide_store(tmp_path_factory.mktemp("wide") / "wide.vcz", variants=100_000, samples=5_000)


@pytest.fixture(scope="session")
def tree_sequence():
    """What the store `simulated` is made of."""
    return peers.simulation()


@pytest.fixture(scope="session")
def peer_stores(tree_sequence, tmp_path_factory):
    """The stores that are compared with other packages, in one server; see peers.py."""
    folder = tmp_path_factory.mktemp("peers")
    stores = peers.stores(tree_sequence, folder)
    sql = folder / "init.sql"
    sql.write_text("\n".join(store.table for store in stores.values()))
    with Server("--sql", sql) as server, server.adbc() as connection:
        for store in stores.values():
            store.connection = connection
        yield stores
