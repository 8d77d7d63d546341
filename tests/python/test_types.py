"""The package is typed: mypy finds nothing in it, the stub of the compiled part is what that part has, and the code of users is checked."""

import subprocess
import sys
import textwrap

import pytest

from conftest import TOP

#: Lines that must be errors are marked so; mypy also reports marks without an error.
USER = """
    import pathlib
    from typing import Any, assert_type

    import numpy
    import polars
    import vcz

    with vcz.connect(pathlib.Path("sim.vcz"), "b=c.vcz", populations={"first": ["s1"]}, progress=lambda done, total: None) as db:
        assert_type(db, vcz.Connection)
        assert_type(db.open("d.vcz", name="d").register("t", polars.DataFrame()), vcz.Connection)
        result = db.sql("SELECT 1 AS a WHERE $1", [True])
        assert_type(result, vcz.Result)
        assert_type(result.to_pylist(), list[dict[str, Any]])
        assert_type(result.to_polars(), polars.DataFrame)
        assert_type(result.to_numpy("a"), numpy.ndarray)
        assert_type(result.columns, list[str])
        assert_type(result.write(pathlib.Path("x.parquet")), int)
        assert_type(db.windows("t", 1000, pi=("diversity", "first"), n="count(*)"), vcz.Result)
        joint = db.joint_sfs("t", "first", ["s1", "s2"], project=(4, 4))
        assert_type(joint, vcz.Spectrum | None)
        if joint is not None:
            assert_type(joint.populations, tuple[str, ...])
            vcz.save_spectrum("x.fs", joint, folded=False)
            vcz.plot.joint_sfs(joint, names=["a", "b"])
        db.sql(7)  # type: ignore[arg-type]
        db.sfs("t", project="4")  # type: ignore[arg-type]
        db.nothing()  # type: ignore[attr-defined]
        vcz.nothing  # type: ignore[attr-defined]
    try:
        vcz.connect(memory="8GB")  # type: ignore[call-arg]
    except vcz.Error as error:
        print(error)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where mypy runs and has its cache: not in the repository, where the package has no compiled part."""
    return tmp_path_factory.mktemp("types")


def check(folder, module, *arguments):
    done = subprocess.run([sys.executable, "-m", module, *map(str, arguments)], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


CONFIGURATION = TOP / "tests" / "python" / "mypy.ini"


def test_the_package(folder):
    check(folder, "mypy", "--config-file", CONFIGURATION, "--package", "vcz")


def test_the_code_of_users(folder):
    (folder / "user.py").write_text(textwrap.dedent(USER))
    check(folder, "mypy", "--config-file", CONFIGURATION, "user.py")


def test_the_stub_of_the_compiled_part(folder):
    # Python before 3.12 has buffers without the method.
    (folder / "allowed.txt").write_text("vcz\\._vcz\\.Buffer\\.__buffer__\n")
    check(folder, "mypy.stubtest", "--mypy-config-file", CONFIGURATION, "--allowlist", "allowed.txt", "--ignore-unused-allowlist", "vcz._vcz")
