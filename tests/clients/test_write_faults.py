"""Faults while `COPY … STORED AS VCZ` writes: full disks, kills, permissions, writers at the same time, and an object store that fails.

Each ends in a clear error or a right result: a store that opens is whole, what was there is kept, and only a killed process leaves files, whose names say
that they are temporary. VCZ_FAULT_SEED is the seed of the moments at which processes are killed.
"""

import os
import random
import re
import shutil
import signal
import subprocess
import time
import zipfile

import numpy as np
import pytest

from faults import Bucket, Proxy, small_disk, small_files, without_privileges
from stores import wide_store
from written import (
    REPOSITORY, arrays, assert_arrays, assert_copy, assert_values, beside, command, contents, copy, create, digest, environment, fails, fixture, group, says, sql,
)

KILLS = 20
# Of zarr-python, about the temporaries of processes that were killed.
pytestmark = pytest.mark.filterwarnings("ignore:Object at .* is not recognized")
TEMPORARY = r"\.{name}\.tmp-.+"
CHANCE = random.Random(os.environ.get("VCZ_FAULT_SEED") or None)


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A store of 20,000 variants of 500 diploids: 20 MB of genotypes that do not compress well."""
    return wide_store(tmp_path_factory.mktemp("large") / "large.vcz", variants=20_000, samples=500)


def start(statements, **options):
    """A running `vcz sql`."""
    return subprocess.Popen(
        command(statements), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=REPOSITORY, env=environment(), **options
    )


def ended(process):
    """The exit status and the message of a process."""
    _, message = process.communicate(timeout=240)
    assert process.returncode in (0, 1), f"exit status {process.returncode}\n{message[-3000:]}"
    assert "panicked" not in message, message[-3000:]
    return process.returncode, message


def failed(process, *parts):
    status, message = ended(process)
    assert status == 1, "nothing failed"
    says(message, *parts)


def opens(path):
    """Whether zarr-python opens a group there."""
    try:
        group(path)
        return True
    except (FileNotFoundError, NotADirectoryError, KeyError, ValueError, zipfile.BadZipFile):
        return False


# ------------------------------------------------------------------------------------------- full disks


def test_a_full_disk(large, tmp_path):
    """A file system of 2 MB: folders, archives, replacements and new arrays fail with a message, and free what they took."""
    with small_disk(tmp_path, 2 << 20) as disk:
        if disk is None:
            pytest.skip("NOT RUN: no file system can be mounted here, so none is full (files of limited length are tested)")
        tables = [create("t", large), fixture("haploid").table("h")]
        kept, archive = disk / "kept.vcz", disk / "kept.vcz.zip"
        sql(*tables, copy("SELECT * FROM h", kept), copy("SELECT * FROM h", archive))
        before = {path: digest(path) for path in (kept, archive)}
        free = shutil.disk_usage(disk).free
        for format_, name in [(2, "new.vcz"), (3, "new.vcz"), (2, "new.vcz.zip"), (3, "kept.vcz"), (2, "kept.vcz.zip")]:
            message = fails(*tables, copy("SELECT * FROM t", disk / name, format=format_, overwrite=str(name.startswith("kept")).lower()))
            says(message, "space|full", name)
            assert {path: digest(path) for path in (kept, archive)} == before
            assert sorted(path.name for path in disk.iterdir()) == ["kept.vcz", "kept.vcz.zip"]
            assert shutil.disk_usage(disk).free >= free - 65536
        # An array that does not fit beside the others.
        filler = disk / "filler"
        filler.write_bytes(b"\0" * (shutil.disk_usage(disk).free - 8192))
        values = ", ".join(f"variant_position * {n} + 1.5 AS x{n}" for n in range(40))
        says(fails(create("t", kept), copy(f"SELECT {values} FROM t", kept, mode="add", codec="none")), "space|full")
        filler.unlink()
        assert digest(kept) == before[kept]
        sql(create("t", kept), copy("SELECT variant_position * 2 AS x FROM t", kept, mode="add"))
        assert (arrays(kept)["variant_x"] == arrays(kept)["variant_position"].astype("i8") * 2).all()


@pytest.mark.parametrize("name", ["a.vcz", "a.vcz.zip"])
def test_files_that_cannot_grow(name, large, tmp_path):
    """A process that may write files of 16 KB only: those of the store, and those in which lists wait for the longest one."""
    for columns, parts in [("variant_contig, variant_position, call_genotype", ["large|space|size", "a.vcz"]), ("*", ["large|space|size"])]:
        failed(start([create("t", large), copy(f"SELECT {columns} FROM t", tmp_path / name)], preexec_fn=small_files(16384)), *parts)
        assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------------------------------- errors of the query


@pytest.mark.parametrize("name", ["a.vcz", "a.vcz.zip"])
def test_a_query_that_fails_late(name, large, tmp_path):
    """What a failed statement has written is removed."""
    message = fails(create("t", large), copy("SELECT *, 10 / (variant_position - 19000) AS x FROM t", tmp_path / name, variants_chunk_size=100))
    says(message, "zero")
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_is_damaged(large, tmp_path):
    """A chunk of the source that is too short."""
    damaged = tmp_path / "damaged.vcz"
    shutil.copytree(large, damaged)
    chunk = damaged / "call_genotype" / "17.0.0"
    content = chunk.read_bytes()
    chunk.unlink()
    chunk.write_bytes(content[: len(content) // 2])
    says(fails(create("t", damaged), copy("SELECT * FROM t", tmp_path / "a.vcz")), "call_genotype", "17.0.0")
    assert beside(damaged) == []


def test_an_interrupt(large, tmp_path):
    """Ctrl-C, or a server's manager: at most a temporary is left."""
    for number in (signal.SIGINT, signal.SIGTERM):
        process = start([create("t", large), copy("SELECT * FROM t", tmp_path / "a.vcz", codec="blosc-zstd:9", variants_chunk_size=50)])
        wait_for_temporary(process, tmp_path)
        process.send_signal(number)
        process.communicate(timeout=60)
        assert_only_temporaries(tmp_path, "a.vcz")
        assert not (tmp_path / "a.vcz").exists()


# ------------------------------------------------------------------------------------------- processes that are killed


def wait_for_temporary(process, folder):
    end = time.monotonic() + 60
    while not any(folder.iterdir()):
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.002)


def assert_only_temporaries(folder, name, *others):
    """Asserts that nothing is beside the target but temporaries of it; their number."""
    names = [entry.name for entry in folder.iterdir() if entry.name not in (name, *others)]
    for found in names:
        assert re.fullmatch(TEMPORARY.format(name=re.escape(name)), found), f"{found} in {folder}"
    return len(names)


def kills(statements, seconds, number):
    """Runs statements so many times, each killed within the time that they take; yields after each kill."""
    for _ in range(number):
        process = start(statements)
        time.sleep(CHANCE.uniform(0.02, seconds * 1.1))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        yield process.returncode


def seconds_of(statements):
    begun = time.monotonic()
    sql(*statements)
    return time.monotonic() - begun


def clear(folder):
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


@pytest.mark.parametrize("name", ["a.vcz", "a.vcz.zip"])
def test_kills(name, large, tmp_path):
    """A target that is there is whole, whenever the process was killed; temporaries are in nobody's way."""
    whole, folder = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir()
    folder.mkdir()
    table, target = create("t", large), folder / name
    seconds = seconds_of([table, copy("SELECT * FROM t", whole / name, variants_chunk_size=40)])
    wanted = contents(whole / name)
    left = there = 0
    for _ in kills([table, copy("SELECT * FROM t", target, variants_chunk_size=40)], seconds, KILLS // 2):
        left += assert_only_temporaries(folder, name) > 0
        if target.exists():
            there += 1
            assert contents(target) == wanted
            clear(folder)
    print(f"{KILLS // 2} kills within {seconds:.2f} s: {left} left temporaries, {there} stores were there")
    assert left > 0
    if target.exists():
        clear(folder)
    sql(table, copy("SELECT * FROM t", target, variants_chunk_size=40))
    assert contents(target) == wanted


@pytest.mark.parametrize("name", ["a.vcz", "a.vcz.zip"])
def test_kills_while_a_store_is_replaced(name, large, tmp_path):
    """The old store or the new one is there."""
    old, new, folder = tmp_path / "old", tmp_path / "new", tmp_path / "killed"
    for made in (old, new, folder):
        made.mkdir()
    tables = [create("t", large), fixture("int16").table("o")]
    statement = copy("SELECT * FROM t WHERE variant_position < 8000", folder / name, overwrite="true", variants_chunk_size=40)
    sql(*tables, copy("SELECT * FROM o", old / name))
    seconds = seconds_of([*tables, statement.replace(str(folder), str(new))])
    possible = [contents(old / name), contents(new / name)]
    shutil.copytree(old, folder, dirs_exist_ok=True)
    found = []
    for _ in kills([*tables, statement], seconds, KILLS // 2):
        assert_only_temporaries(folder, name)
        found.append(possible.index(contents(folder / name)))
        if found[-1] == 1:
            clear(folder)
            shutil.copytree(old, folder, dirs_exist_ok=True)
    print(f"of {len(found)} kills {sum(found)} left the new store")


@pytest.mark.parametrize("format_", [2, 3])
def test_kills_while_an_array_is_added(format_, large, tmp_path):
    """The store opens, with what it had; the new arrays are whole or not there."""
    original, target, whole = (tmp_path / name / "a.vcz" for name in ("original", "killed", "whole"))
    for path in (original, target, whole):
        path.parent.mkdir()
    sql(create("t", large), copy("SELECT * FROM t", original, format=format_))
    add = "SELECT variant_position * 1.5 AS x, allele_counts(call_genotype) AS ac FROM t"
    shutil.copytree(original, whole)
    seconds = seconds_of([create("t", whole), copy(add, whole, mode="add", variants_chunk_size=50)])
    before, wanted = arrays(original), arrays(whole)
    new = {"variant_x", "variant_ac"}
    assert set(wanted) - set(before) == new
    # Nothing of these is rewritten.
    chunks = {name: value for name, value in digest(original).items() if not name.rsplit("/", 1)[1].startswith((".z", "zarr.json"))}
    there = left = 0
    for _ in range(KILLS // 4):
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(original, target)
        statements = [create("t", target), copy(add, target, mode="add", variants_chunk_size=50)]
        for _ in kills(statements, seconds, 1):
            pass
        for consolidated in (True, False):
            found = {name: array[...] for name, array in group(target, consolidated=consolidated).arrays()}
            assert set(before) <= set(found) <= set(wanted)
            for name, values in found.items():
                assert_values(values, wanted[name], f"{name}, consolidated: {consolidated}")
        now = digest(target)
        assert all(now[name] == value for name, value in chunks.items())
        beyond = [path.name for path in target.iterdir() if path.name not in (*wanted, ".zgroup", ".zattrs", ".zmetadata", "zarr.json")]
        assert all(re.fullmatch(r"\..+\.tmp-.+|\..*\.tmp", name) for name in beyond), beyond
        there += new <= set(found)
        left += bool(beyond)
        # It can be done again, whatever is left.
        sql(statements[0], statements[1].replace("'add'", "'add', 'vcz.overwrite' 'true'"), "SELECT count(*) FROM t")
        for name, values in arrays(target).items():
            assert_values(values, wanted[name], name)
        assert beside(target) == []
    print(f"{KILLS // 4} kills within {seconds:.2f} s: {left} left temporaries, {there} the new arrays")


# ------------------------------------------------------------------------------------------- permissions


def test_no_permission(tmp_path):
    """A folder that cannot be written, a path below a file, a folder that is not there, a store that cannot be changed."""
    source = fixture("haploid")
    closed, file = tmp_path / "closed", tmp_path / "file"
    closed.mkdir()
    file.write_text("not a folder")
    store = tmp_path / "store.vcz"
    sql(source.table(), copy("SELECT * FROM t", store), copy("SELECT * FROM t", closed / "there.vcz"))
    before, there = digest(store), digest(closed / "there.vcz")
    for path in [closed, store, *(folder for folder in store.rglob("*") if folder.is_dir())]:
        path.chmod(0o555)
    try:
        for target, options in [
            (closed / "a.vcz", {}), (closed / "a.vcz.zip", {}), (closed / "there.vcz", {"overwrite": "true"}), (file / "a.vcz", {}), (file / "a.vcz.zip", {}),
        ]:
            process = start([source.table(), copy("SELECT * FROM t", target, **options)], preexec_fn=without_privileges)
            failed(process, target.name, "permission|denied|directory")
        process = start([create("t", store), copy("SELECT variant_position + 1 AS x FROM t", store, mode="add")], preexec_fn=without_privileges)
        failed(process, "store.vcz", "permission|denied")
    finally:
        for path in [closed, store, *(folder for folder in store.rglob("*") if folder.is_dir())]:
            path.chmod(0o755)
    assert digest(store) == before and digest(closed / "there.vcz") == there
    assert sorted(path.name for path in tmp_path.iterdir()) == ["closed", "file", "store.vcz"] and beside(closed / "there.vcz") == []
    # A folder that is not there is made, or the message names it.
    status, message = ended(start([source.table(), copy("SELECT * FROM t", tmp_path / "no" / "a.vcz")]))
    if status:
        says(message, "no/a.vcz|/no")
        assert not (tmp_path / "no").exists()
    else:
        assert_copy(tmp_path / "no" / "a.vcz", source.path, 2)


def test_a_replaced_store_that_cannot_be_removed(tmp_path):
    """The new store is in place, so that the statement has succeeded; what it has replaced is left, and named."""
    source, store = fixture("haploid"), tmp_path / "x.vcz"
    sql(source.table(), copy("SELECT * FROM t WHERE variant_position % 2 = 0", store))
    folders = [folder for folder in store.rglob("*") if folder.is_dir()]
    tmp_path.chmod(0o777)
    store.chmod(0o777)
    for folder in folders:
        folder.chmod(0o555)
    status, message = ended(start([source.table(), copy("SELECT * FROM t", store, overwrite="true")], preexec_fn=without_privileges))
    assert status == 0, message
    (left,) = beside(store)
    says(message, "cannot remove", left)
    assert_copy(store, source.path, 2)
    for folder in (tmp_path / left).rglob("*"):
        folder.chmod(0o755)


# ------------------------------------------------------------------------------------------- writers at the same time


@pytest.mark.parametrize("name", ["a.vcz", "a.vcz.zip"])
def test_two_writers(name, large, tmp_path):
    """One of them has written the store, and the other one says that it is there."""
    table = create("t", large)
    for turn in range(3):
        target = tmp_path / str(turn) / name
        target.parent.mkdir()
        queries = [f"SELECT * FROM t WHERE variant_position % 2 = {rest}" for rest in range(2)]
        ends = [ended(process) for process in [start([table, copy(query, target)]) for query in queries]]
        assert sorted(status for status, _ in ends) == [0, 1], ends
        says(next(message for status, message in ends if status), "exist", name)
        winner = next(at for at, (status, _) in enumerate(ends) if status == 0)
        position = arrays(large)["variant_position"]
        assert_values(arrays(target)["variant_position"], position[position % 2 == winner], "variant_position")
        assert_values(arrays(target)["call_genotype"], group(large)["call_genotype"][...][position % 2 == winner], "call_genotype")
        assert beside(target) == []


@pytest.mark.parametrize("name", ["a.vcz", "a.vcz.zip"])
def test_two_writers_that_replace(name, tmp_path):
    """The store is that of one of them."""
    source = fixture("sim")
    target = tmp_path / name
    keep = arrays(source.path)["variant_position"] % 2
    sql(source.table(), copy("SELECT * FROM t LIMIT 10", target))
    for _ in range(3):
        queries = [f"SELECT * FROM t WHERE variant_position % 2 = {rest}" for rest in range(2)]
        ends = [ended(process) for process in [start([source.table(), copy(query, target, overwrite="true")]) for query in queries]]
        assert 0 in [status for status, _ in ends], ends
        winner = int(arrays(target)["variant_position"][0] % 2)
        assert ends[winner][0] == 0
        wanted = arrays(source.path)
        assert_arrays(target, {n: v[keep == winner] if n.startswith(("variant_", "call_")) else v for n, v in wanted.items()})
        assert beside(target) == []


@pytest.mark.parametrize("format_", [2, 3])
def test_arrays_added_at_the_same_time(format_, tmp_path):
    """All of these arrays are there, in the consolidated metadata, too, but for those of writers that say that they have failed."""
    source, target = fixture("sim"), tmp_path / "a.vcz"
    sql(source.table(), copy("SELECT * FROM t", target, format=format_))
    before = arrays(target)
    position = before["variant_position"].astype("i8")
    wanted = {}
    for turn in range(3):
        queries = {f"variant_x{turn}_{n}": f"SELECT variant_position * {n + 2} AS x{turn}_{n} FROM t" for n in range(4)}
        running = [start([create("t", target), copy(query, target, mode="add")]) for query in queries.values()]
        ends = [ended(process) for process in running]
        assert 0 in [status for status, _ in ends], ends
        wanted |= {name: position * (n + 2) for n, (name, (status, _)) in enumerate(zip(queries, ends)) if status == 0}
        for consolidated in (True, False):
            found = dict(group(target, consolidated=consolidated).arrays())
            assert set(found) == set(before) | set(wanted), f"consolidated: {consolidated}"
            for name, values in wanted.items():
                assert_values(found[name][...].astype("i8"), values, name)
    for name, values in before.items():
        assert_values(arrays(target)[name], values, name)


# ------------------------------------------------------------------------------------------- object stores


@pytest.fixture(scope="module")
def bucket():
    bucket = Bucket()
    yield bucket
    bucket.stop()


TARGETS = [("a.vcz", 2), ("a.vcz", 3), ("a.vcz.zip", 2)]


@pytest.mark.parametrize(("name", "format_"), TARGETS)
def test_to_an_object_store(name, format_, bucket, tmp_path):
    """Without faults: the same files as in a folder; a store that exists is kept, and replaced with 'vcz.overwrite'; metadata come last."""
    source, target = fixture("sim"), f"s3://box/whole/{name}"
    bucket.remove("whole/")
    with Proxy(bucket.host, bucket.port, lambda *_: None) as proxy:
        variables = bucket.variables(proxy.port)
        ((count,),) = sql(source.table(), copy("SELECT * FROM t", target, format=format_), **variables)
        assert count == {"count": 7402}
        written = [path.partition("?")[0].removeprefix("/box/whole/") for method, path in proxy.requests if method == "PUT"]
        if not name.endswith(".zip"):
            root = [at for at, path in enumerate(written) if path.removeprefix("a.vcz/") in (".zgroup", ".zattrs", ".zmetadata", "zarr.json")]
            assert min(root) > max(at for at, path in enumerate(written) if re.search(r"/\d+(/\d+)*$", path))
        sql(source.table(), copy("SELECT * FROM t", tmp_path / name, format=format_))
        assert contents(bucket.download(f"whole/{name}", tmp_path / "down")) == contents(tmp_path / name)
        assert all(key == f"whole/{name}" or key.startswith(f"whole/{name}/") for key in bucket.keys("whole/"))
        # It is read from there.
        statistic = "SELECT sfs(call_genotype, 'first') AS s FROM {}"
        ours, theirs = sql(source.table(), create("c", target, source.populations), statistic.format("c"), statistic.format("t"), **variables)
        assert ours == theirs
        says(fails(source.table(), copy("SELECT * FROM t LIMIT 5", target, format=format_), **variables), "exist", "vcz.overwrite")
        assert contents(bucket.download(f"whole/{name}", tmp_path / "down")) == contents(tmp_path / name)
        sql(source.table(), copy("SELECT * FROM t LIMIT 500", target, format=format_, overwrite="true"), **variables)
        shutil.rmtree(tmp_path / "down")
        part = arrays(bucket.download(f"whole/{name}", tmp_path / "down"))
        assert len(part["variant_position"]) == 500
        assert_values(part["call_genotype"], arrays(source.path)["call_genotype"][:500], "call_genotype")


def every_tenth(kinds):
    """Every tenth request fails, in one of these ways."""
    return lambda number, method, path: kinds[number // 10 % len(kinds)] if number % 10 == 0 else None


@pytest.mark.parametrize(("name", "format_"), TARGETS)
@pytest.mark.parametrize("kinds", [["unavailable", "internal", "reset", "lost"], ["denied"]], ids=["again", "denied"])
def test_an_object_store_that_fails_every_tenth_request(kinds, name, format_, bucket, tmp_path):
    """Where trying again helps the store is right; otherwise there is an error, and nothing that opens."""
    source, target = fixture("sim"), f"s3://box/tenth/{name}"
    bucket.remove("tenth/")
    statements = [source.table(), copy("SELECT * FROM t", target, format=format_, variants_chunk_size=400, samples_chunk_size=10)]
    with Proxy(bucket.host, bucket.port, every_tenth(kinds)) as proxy:
        done = subprocess.run(
            command(statements), capture_output=True, text=True, cwd=REPOSITORY, env=environment(**bucket.variables(proxy.port)), timeout=240
        )
        print(f"{proxy.number} requests, faults: {proxy.faults}, exit status {done.returncode}: {done.stderr[-300:]}")
    assert done.returncode in (0, 1) and "panicked" not in done.stderr, done.stderr
    assert "TestSecretKey" not in done.stderr and "AKIATESTKEYID" not in done.stderr
    down = bucket.download(f"tenth/{name}", tmp_path / "down")
    if done.returncode == 0:
        assert kinds != ["denied"] or proxy.faults == {}
        assert_copy(down, source.path, format_, (400, 10))
        return
    says(done.stderr, "tenth/a.vcz|box")
    # Archives are few requests.
    assert kinds == ["denied"] or name.endswith(".zip"), done.stderr
    if opens(down):
        assert_copy(down, source.path, format_, (400, 10))
    else:
        fails(create("c", target), "SELECT count(*) FROM c", **bucket.variables())
    # Again, now that nothing fails. The mark may be left where requests that clean up were denied, too.
    bucket.remove(f"tenth/{name}/.vcz-writing")
    bucket.remove(f"tenth/{name}.vcz-writing")
    sql(*statements[:1], statements[1].replace("OPTIONS (", "OPTIONS ('vcz.overwrite' 'true', "), **bucket.variables())
    shutil.rmtree(tmp_path / "down", ignore_errors=True)
    assert_copy(bucket.download(f"tenth/{name}", tmp_path / "down"), source.path, format_, (400, 10))


@pytest.mark.parametrize(("name", "format_"), TARGETS)
def test_what_was_written_before_an_error_is_removed(name, format_, bucket):
    """One request is denied, an early, a middle and the last one of those that write."""
    source, target = fixture("chunks7"), f"s3://box/once/{name}"
    bucket.remove("once/")
    statements = [source.table(), copy("SELECT * FROM t", target, format=format_, variants_chunk_size=100)]
    # Not those that remove: what is written is removed by them.
    writes = lambda method, path: method == "PUT" or method == "POST" and "?delete" not in path  # noqa: E731
    with Proxy(bucket.host, bucket.port, lambda *_: None) as proxy:
        sql(*statements, **bucket.variables(proxy.port))
        number = sum(writes(*request) for request in proxy.requests)
    for which in sorted({1, number // 2, number}):
        bucket.remove("once/")
        seen = []

        def fault(_, method, path):
            seen.append((method, path))
            return "denied" if writes(method, path) and sum(writes(*request) for request in seen) == which else None

        with Proxy(bucket.host, bucket.port, fault) as proxy:
            says(fails(*statements, **bucket.variables(proxy.port)), "denied|403", "once/a.vcz|box")
        assert bucket.keys("once/") == [] and bucket.uploads() == [], f"request {which} of {number}"


@pytest.mark.parametrize(("name", "format_"), TARGETS)
def test_answers_that_are_lost(name, format_, bucket, tmp_path):
    """The server has done what it was asked to, once, and its answer does not come: asked again, it says that it is done already."""
    source, target = fixture("haploid"), f"s3://box/lost/{name}"
    statements = [source.table(), copy("SELECT * FROM t", target, format=format_)]
    for which in range(1, 6):
        bucket.remove("lost/")
        with Proxy(bucket.host, bucket.port, lambda number, *_, which=which: "lost" if number == which else None) as proxy:
            done = subprocess.run(
                command(statements), capture_output=True, text=True, cwd=REPOSITORY, env=environment(**bucket.variables(proxy.port)), timeout=240
            )
        assert done.returncode in (0, 1), done.stderr
        if done.returncode:
            assert bucket.keys("lost/") == [], f"{proxy.requests[which - 1]}: {done.stderr}"
        else:
            assert_copy(bucket.download(f"lost/{name}", tmp_path / str(which)), source.path, format_)
        # Most of them can be asked again.
        assert done.returncode == 0, f"{proxy.requests[which - 1]}: {done.stderr}"


@pytest.mark.parametrize(("name", "format_"), TARGETS)
def test_a_store_that_is_replaced_in_an_object_store(name, format_, bucket, tmp_path):
    """A statement that fails, at once or late, keeps what is there."""
    source, target = fixture("sim"), f"s3://box/replaced/{name}"
    bucket.remove("replaced/")
    sql(source.table(), copy("SELECT * FROM t", target, format=format_), **bucket.variables())
    before, keys = bucket.download(f"replaced/{name}", tmp_path / "before"), bucket.keys("replaced/")
    tables = [source.table(), fixture("unsorted").table("u")]
    late = "CASE WHEN variant_position > 200000 AND variant_contig = 'chr2' THEN -1 ELSE 3 END"
    for turn, minus in enumerate(["-1", late]):
        query = f"SELECT variant_contig, variant_position, call_genotype, {minus} AS minus FROM t"
        fails(*tables, copy(query, target, overwrite="true", format=format_, variants_chunk_size=300), **bucket.variables())
        assert bucket.keys("replaced/") == keys
        after = bucket.download(f"replaced/{name}", tmp_path / f"after{turn}")
        assert list(digest(after).values()) == list(digest(before).values())
    sql(*tables, copy("SELECT * FROM u", target, overwrite="true", format=format_), **bucket.variables())
    assert_copy(bucket.download(f"replaced/{name}", tmp_path / "other"), fixture("unsorted").path, format_)


@pytest.mark.parametrize("format_", [2, 3])
def test_arrays_are_added_to_an_object_store_that_fails(format_, bucket, tmp_path):
    """The array is there and whole, or the store is as it was."""
    source, target = fixture("sim"), "s3://box/added/a.vcz"
    bucket.remove("added/")
    sql(source.table(), copy("SELECT * FROM t", target, format=format_), **bucket.variables())
    before = arrays(bucket.download("added/a.vcz", tmp_path / "before"))
    statement = copy("SELECT variant_position * 1.5 AS x{} FROM t", target, mode="add", variants_chunk_size=200)
    for turn, kinds in enumerate([["unavailable", "internal", "reset", "lost"], ["denied"]]):
        with Proxy(bucket.host, bucket.port, lambda number, method, path, kinds=kinds: kinds[number % len(kinds)] if number % 7 == 5 else None) as proxy:
            variables = bucket.variables(proxy.port)
            done = subprocess.run(
                command([create("t", target), statement.format(turn)]), capture_output=True, text=True, cwd=REPOSITORY, env=environment(**variables), timeout=240
            )
            print(f"{proxy.number} requests, faults: {proxy.faults}, exit status {done.returncode}: {done.stderr[-300:]}")
        assert done.returncode in (0, 1) and "panicked" not in done.stderr, done.stderr
        down = bucket.download("added/a.vcz", tmp_path / f"after{turn}")
        for consolidated in (True, False):
            found = {name: array[...] for name, array in group(down, consolidated=consolidated).arrays()}
            for name, values in before.items():
                assert_values(found[name], values, name)
            name = f"variant_x{turn}"
            assert name in found or done.returncode == 1
            if name in found:
                assert_values(found[name], before["variant_position"] * 1.5, name)
                before[name] = found[name]


@pytest.mark.parametrize("name", ["a.vcz", "a.vcz.zip"])
def test_two_writers_to_an_object_store(name, bucket, tmp_path):
    """What opens is the store of one of them."""
    source, target = fixture("sim"), f"s3://box/both/{name}"
    store = arrays(source.path)
    for turn in range(2):
        bucket.remove("both/")
        queries = [f"SELECT * FROM t WHERE variant_position % 2 = {rest}" for rest in range(2)]
        running = [
            subprocess.Popen(
                command([source.table(), copy(query, target, variants_chunk_size=400)]), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                cwd=REPOSITORY, env=environment(**bucket.variables()),
            )
            for query in queries
        ]
        ends = [ended(process) for process in running]
        print([status for status, _ in ends])
        for status, message in ends:
            assert status == 0 or re.search("exist|another statement|at the same time", message), message
        assert [status for status, _ in ends].count(0) == 1, ends
        assert not [key for key in bucket.keys("both/") if ".vcz-" in key]
        down = bucket.download(f"both/{name}", tmp_path / str(turn))
        if not opens(down):
            assert 0 not in [status for status, _ in ends]
            continue
        rest = int(arrays(down)["variant_position"][0] % 2)
        keep = store["variant_position"] % 2 == rest
        assert ends[rest][0] == 0
        assert_arrays(down, {n: v[keep] if n.startswith(("variant_", "call_")) else v for n, v in store.items()})
        assert np.count_nonzero(keep) == len(arrays(down)["variant_position"])
