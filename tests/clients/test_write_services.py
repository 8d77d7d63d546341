"""`COPY … STORED AS VCZ` to Google Cloud Storage and Azure: the same stores as in a folder, new arrays, replaced stores, and two writers at once."""

import json
import os
import subprocess

import pytest

from faults import Cloud
from test_remote import stores  # noqa: F401
from test_services import ACCOUNT, KEY, azure  # noqa: F401
from written import REPOSITORY, arrays, assert_copy, assert_values, command, contents, copy, create, environment, fails, fixture, says, sql


class Service:
    """A bucket or container `box`: its scheme, what reaches it, and what is in it."""

    def __init__(self, scheme, options, download):
        self.scheme, self.options, self.download = scheme, options, download

    def location(self, name):
        return f"{self.scheme}://box/{name}"

    def given(self):
        return ", ".join(f"'{key}' '{text}'" for key, text in self.options.items())

    def table(self, name, store):
        return f"{create(name, self.location(store))} OPTIONS ({self.given()})"

    def copy(self, query, name, **options):
        return copy(query, self.location(name), **{"format": 2} | options).replace("OPTIONS (", f"OPTIONS ({self.given()}, ")

    def files(self, name, folder):
        """The objects below a name, or the one of that name, as files; where they are."""
        target = folder / name.rsplit("/", 1)[-1]
        for key, data in self.download(name):
            path = target if key == name else target / key.removeprefix(name + "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return target

    def keys(self, name):
        return sorted(key for key, _ in self.download(name))


@pytest.fixture
def google():
    objects = {}
    with Cloud(objects) as cloud:
        address = f"http://127.0.0.1:{cloud.port}"
        # A key that asks for no token.
        key = {"gcs_base_url": address, "disable_oauth": True, "client_email": "", "private_key": "", "private_key_id": ""}
        below = lambda name: [(key, data) for key, data in objects.items() if key == name or key.startswith(name + "/")]  # noqa: E731
        yield Service("gs", {"gcp.service_account_key": json.dumps(key)}, below)


@pytest.fixture
def microsoft(azure):  # noqa: F811
    blob = pytest.importorskip("azure.storage.blob")
    service = blob.BlobServiceClient(f"{os.environ['AZURITE_BLOB_STORAGE_URL']}/{ACCOUNT}", credential=KEY)
    container = service.get_container_client("box")
    names = lambda name: [key for key in container.list_blob_names(name_starts_with=name) if key == name or key.startswith(name + "/")]  # noqa: E731
    return Service("az", azure, lambda name: [(key, container.download_blob(key).readall()) for key in names(name)])


@pytest.fixture(params=["google", "microsoft"])
def service(request):
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize(("name", "format_"), [("a.vcz", 2), ("a.vcz", 3), ("a.vcz.zip", 2)])
def test_a_store_is_written_and_replaced(service, name, format_, tmp_path):
    source, target = fixture("sim"), f"written{format_}/{name}"
    assert sql(source.table(), service.copy("SELECT * FROM t", target, format=format_)) == [[{"count": 7402}]]
    assert_copy(service.files(target, tmp_path / "down"), source.path, format_)
    sql(source.table(), copy("SELECT * FROM t", tmp_path / name, format=format_))
    assert contents(tmp_path / "down" / name) == contents(tmp_path / name)
    keys = service.keys(target)
    assert not [key for key in keys if ".vcz-" in key]
    statistic = "SELECT count(*) AS n, sfs(call_genotype) AS s FROM {}"
    ours, theirs = sql(source.table(), service.table("c", target), statistic.format("c"), statistic.format("t"))
    assert ours == theirs
    says(fails(source.table(), service.copy("SELECT * FROM t LIMIT 5", target, format=format_)), "exist", "vcz.overwrite")
    # A statement that fails keeps what is there.
    fails(source.table(), service.copy("SELECT *, -1 AS minus FROM t", target, format=format_, overwrite="true"))
    assert service.keys(target) == keys
    assert_copy(service.files(target, tmp_path / "kept"), source.path, format_)
    sql(source.table(), service.copy("SELECT * FROM t LIMIT 500", target, format=format_, overwrite="true"))
    part = arrays(service.files(target, tmp_path / "replaced"))
    assert_values(part["call_genotype"], arrays(source.path)["call_genotype"][:500], "call_genotype")
    assert len(part["variant_position"]) == 500


@pytest.mark.parametrize("format_", [2, 3])
def test_arrays_are_added_and_replaced(service, format_, tmp_path):
    source, target = fixture("sim"), f"added{format_}/a.vcz"
    sql(source.table(), service.copy("SELECT * FROM t", target, format=format_))
    before = arrays(service.files(target, tmp_path / "before"))
    for turn, query in enumerate(["variant_position * 2 AS x", "variant_position * 1.5 AS x"]):
        overwrite = {"overwrite": "true"} if turn else {}
        add = service.copy(f"SELECT {query} FROM c", target, mode="add", **overwrite).replace("'vcz.format' '2', ", "")
        sql(service.table("c", target), add)
        found = arrays(service.files(target, tmp_path / str(turn)))
        assert set(found) == {*before, "variant_x"}
        assert (found["variant_x"] == before["variant_position"].astype("i8") * (1.5 if turn else 2)).all()
        for name, values in before.items():
            assert_values(found[name], values, name)
    says(fails(service.table("c", target), add.replace("'vcz.overwrite' 'true'", "'vcz.overwrite' 'false'")), "exist", "vcz.overwrite")


@pytest.mark.parametrize("name", ["a.vcz", "a.vcz.zip"])
def test_two_writers(service, name, tmp_path):
    source, target = fixture("sim"), f"both/{name}"
    queries = [f"SELECT * FROM t WHERE variant_position % 2 = {rest}" for rest in range(2)]
    running = [
        subprocess.Popen(
            command([source.table(), service.copy(query, target, variants_chunk_size=400)]), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            cwd=REPOSITORY, env=environment(),
        )
        for query in queries
    ]
    ends = [(process.communicate(timeout=240)[1], process.returncode) for process in running]
    assert sorted(status for _, status in ends) == [0, 1], ends
    says(next(message for message, status in ends if status), "exist|another statement|at the same time")
    position = arrays(source.path)["variant_position"]
    winner = next(at for at, (_, status) in enumerate(ends) if status == 0)
    assert_values(arrays(service.files(target, tmp_path))["variant_position"], position[position % 2 == winner], "variant_position")

