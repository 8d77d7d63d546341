"""The module on a GPU: the same answers as on the host, Ctrl-C, and the end of Python while the GPU works.

Where no GPU can be used the tests are skipped, and pytest says so; with VCZ_REQUIRE_GPU=1 they fail. VCZ_GPU_STORE is a large store, such as those of
benches/simulate, for what takes time.
"""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import vcz
from conftest import FIXTURES

QUERIES = [
    "SELECT sfs(call_genotype, 'first') AS x FROM t",
    "SELECT joint_sfs(call_genotype, 'first', 'second') AS x FROM t",
    "SELECT genome_bin(variant_position, 20000) AS w, diversity(call_genotype) AS pi, tajimas_d(call_genotype, 'first') AS d FROM t "
    "GROUP BY variant_contig, w ORDER BY variant_contig, w",
    "SELECT variant_position, allele_counts(call_genotype, 'second') AS x FROM t ORDER BY variant_contig, variant_position, x LIMIT 50",
]
STORES = ["sim.vcz.zip", "sim.v3.vcz.zip", "missing.vcz.zip", "formats.vcz.zip"]


def open_on(backend, store, populations=None):
    return vcz.connect(f"t={store}", populations=populations, settings={"vcz.backend": backend}, progress=False)


@pytest.fixture(scope="module", autouse=True)
def device():
    try:
        with open_on("gpu", FIXTURES / "sim.vcz.zip") as db:
            db.sql("SELECT sfs(call_genotype) AS s FROM t").to_pylist()
    except vcz.Error as error:
        if os.environ.get("VCZ_REQUIRE_GPU") == "1":
            raise
        pytest.skip(f"NOT RUN: no GPU can be used: {error}")


@pytest.mark.parametrize("store", STORES)
def test_answers_are_those_of_the_host(store):
    populations = FIXTURES / f"{store.split('.')[0]}.populations.tsv"
    with open_on("gpu", FIXTURES / store, populations) as gpu, open_on("host", FIXTURES / store, populations) as host:
        for query in QUERIES:
            assert gpu.sql(query).to_pylist() == host.sql(query).to_pylist(), query
        (plan,) = [row["plan"] for row in gpu.sql(f"EXPLAIN FORMAT INDENT {QUERIES[0]}").to_pylist() if row["plan_type"] == "physical_plan"]
        assert "backend=gpu" in plan, plan


def large_store():
    store = os.environ.get("VCZ_GPU_STORE")
    if not store:
        pytest.skip("NOT RUN: VCZ_GPU_STORE does not name a large store")
    return store


def test_a_large_store_and_ctrl_c():
    store = large_store()
    query = "SELECT sfs(call_genotype) AS s FROM t"
    with open_on("gpu", store) as gpu, open_on("host", store) as host:
        expected = host.sql(query).to_pylist()
        assert gpu.sql(query).to_pylist() == expected
        sent = []

        def interrupt():
            time.sleep(0.5)
            sent.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            while True:
                gpu.sql(query).to_pylist()
        took = time.monotonic() - sent[0]
        thread.join()
        assert took < 0.5, took
        assert gpu.sql(query).to_pylist() == expected


def test_python_ends_while_the_gpu_works():
    code = f"""
import threading, time
import vcz
db = vcz.connect("t={large_store()}", settings={{"vcz.backend": "gpu"}}, progress=False)
db.sql("SELECT sfs(call_genotype) AS s FROM t").to_pylist()
def work():
    while True:
        db.sql("SELECT sfs(call_genotype) AS s FROM t").to_pylist()
threading.Thread(target=work, daemon=True).start()
time.sleep(1)
print("bye")
"""
    begun = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stdout == "bye\n" and done.stderr == "", done
    print(f"the whole process took {time.monotonic() - begun:.1f} s")
