"""Arguments, settings, and errors, which have the text of the command line."""

import pathlib
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest

import vcz
from conftest import FIXTURES

SIM, POPULATIONS = FIXTURES / "sim.vcz.zip", FIXTURES / "sim.populations.tsv"


def samples(path=POPULATIONS):
    lines = [line.split("\t") for line in path.read_text().splitlines()[1:]]
    found = {}
    for sample, population, *_ in lines:
        found.setdefault(population, []).append(sample)
    return found


def test_populations_in_every_form():
    with vcz.connect(SIM, populations=POPULATIONS) as db:
        expected = db.sfs("sim", "first").tolist()
    of = samples()
    rows = [(sample, name) for name, members in of.items() for sample in members]
    forms = [
        str(POPULATIONS),
        of,
        pd.DataFrame(rows, columns=["sample_id", "population"]),
        pl.DataFrame(rows, schema=["sample_id", "population"], orient="row"),
    ]
    for form in forms:
        with vcz.connect(SIM, populations=form) as db:
            assert db.sfs("sim", "first").tolist() == expected and db.tables() == ["sim"]
    with vcz.connect(SIM) as db:
        assert db.sfs("sim", of["first"]).tolist() == expected
        assert db.sql("SELECT sfs(call_genotype, $1) AS s FROM sim", [of["first"]]).to_pylist()[0]["s"] == expected
        frame = pd.DataFrame({"sample_id": ["nobody"], "population": ["x"]})
        with pytest.raises(vcz.Error, match="'nobody'"):
            db.open(SIM, name="other", populations=frame)
        with pytest.raises(TypeError, match="must be a list of sample ids"):
            db.open(SIM, name="other", populations={"x": "nobody"})


def test_stores_by_pattern_and_name():
    with vcz.connect(str(FIXTURES / "int16*.vcz.zip")) as db:
        assert db.tables() == ["int16", "int16.v3"]
    with vcz.connect() as db:
        db.open(FIXTURES / "sim.vcz.zip", name="a").open(f"b={SIM}")
        assert db.tables() == ["a", "b"]
        assert "with the tables a, b" in repr(db)
    with pytest.raises(FileNotFoundError, match="there is no store 'no/\\*.vcz'"):
        vcz.connect("no/*.vcz")


def test_parameters():
    with vcz.connect() as db:
        one = lambda sql, parameters: db.sql(sql, parameters).to_pylist()[0]["x"]
        for value in (None, True, 7, -7, 2**63, 0.5, 3.0, "it's", [1, 2], ["a", "b"]):
            found = one("SELECT $1 AS x", [value])
            assert found == value and type(found) is type(value)
            assert one("SELECT $v AS x", {"v": value}) == value
        assert one("SELECT ? + ? AS x", [np.int64(1), np.float32(0.5)]) == 1.5
        assert one("SELECT sum(value) AS x FROM range(10) WHERE value IN ($1, $2) LIMIT $3", [3, 4, 1]) == 7
        with pytest.raises(vcz.Error, match="has 1 parameter\\(s\\), and 2 value\\(s\\) were given"):
            db.sql("SELECT $1", [1, 2])
        with pytest.raises(vcz.Error, match="no value is bound to the parameter \\$a"):
            db.sql("SELECT $a", {"b": 1})
        with pytest.raises(TypeError, match="found object"):
            db.sql("SELECT $1", [object()])


def test_statements():
    with vcz.connect(SIM, populations=POPULATIONS) as db:
        result = db.sql("CREATE VIEW v AS SELECT variant_position AS p FROM sim; SELECT max(p) AS m FROM v")
        assert result.to_pylist()[0]["m"] > 0
        assert db.sql("SET datafusion.execution.batch_size = 100").to_pylist() == []
        assert max(len(batch) for batch in db.sql("SELECT p FROM v").to_arrow().to_batches()) <= 100
        with pytest.raises(vcz.Error, match="no statement"):
            db.sql(" ; ")


def test_windows():
    with vcz.connect(SIM, populations=POPULATIONS) as db:
        scan = db.windows(
            "sim", 50_000, step=25_000, mask=str(FIXTURES / "sim.accessible.bed"),
            pi_first=("diversity", "first"), fst=("fst_hudson", "first", "second"), n="count(*) FILTER (WHERE is_snp(variant_allele))",
        )
        rows = scan.to_pylist()
        script = (FIXTURES.parents[1] / "sql" / "genome_scan.sql").read_text().split(";", 1)[1].replace("tests/", f"{FIXTURES.parent}/")
        expected = db.sql(script).to_pylist()
        assert [row["fst"] for row in rows] == [row["fst"] for row in expected]
        assert [row["sites"] for row in rows] == [row["sites"] for row in expected]
        per_base = [(row["pi_first"] or 0) / row["accessible_bases"] if row["accessible_bases"] else None for row in rows]
        assert per_base == [row["pi_first"] for row in expected]
        assert "genome_windows('sim', 50000, 25000" in scan.sql
        plain = db.windows("sim", 100_000, pi=("diversity", "first"), where="variant_contig = 'chr1'").to_pylist()
        assert plain[0]["pi"] == db.sql(
            "SELECT diversity(call_genotype, 'first') AS pi FROM sim WHERE variant_contig = 'chr1' AND variant_position <= 100000"
        ).to_pylist()[0]["pi"]
        with pytest.raises(ValueError, match="'sites' is the name of another column"):
            db.windows("sim", 1000, sites="count(*)")


def test_settings_and_limits():
    with vcz.connect(settings={"vcz.backend": "host", "datafusion.execution.target_partitions": 3}, batch_size=500) as db:
        rows = {row["name"]: row["value"] for row in db.sql("SELECT name, value FROM information_schema.df_settings").to_pylist()}
        assert rows["datafusion.execution.target_partitions"] == "3" and rows["datafusion.execution.batch_size"] == "500"
        assert rows["vcz.backend"].lower() == "host"
    for wrong, match in (
        ({"memory_limit": "much"}, "memory_limit: 'much' is not a size"),
        ({"memory_pool": "lazy"}, "expected 'greedy' or 'fair'"),
        ({"batch_size": 0}, "at least 1"),
        ({"populations": "x.tsv"}, "none were given"),
    ):
        with pytest.raises(ValueError, match=match):
            vcz.connect(**wrong)
    with pytest.raises(vcz.Error, match="(?i)vcz.nothing|nothing"):
        vcz.connect(settings={"vcz.nothing": 1})


def test_errors():
    with pytest.raises(FileNotFoundError, match="there is no store 'nowhere.vcz'"):
        vcz.connect("nowhere.vcz")
    with pytest.raises(FileNotFoundError, match="there is no populations file 'nowhere.tsv'"):
        vcz.connect(SIM, populations="nowhere.tsv")
    with vcz.connect(SIM, populations=POPULATIONS) as db:
        for sql, match in (
            ("SELECT nothing FROM sim", "nothing"),
            ("SELECT diversity(call_genotype, 'fist') FROM sim", "first"),
            ("SELEC 1", "SELEC"),
            ("SELECT 1 / (value - value) FROM range(3)", "(?i)divide by zero"),
        ):
            with pytest.raises(vcz.Error, match=match):
                db.sql(sql).to_pylist()
        with pytest.raises(TypeError, match="__arrow_c_stream__"):
            db.register("t", 7)
        with pytest.raises(Exception, match="(?i)divide by zero"):
            pl.DataFrame(db.sql("SELECT 1 / (value - value) AS x FROM range(3)"))
        result = db.sql("SELECT 1 AS a")
        assert result.to_pylist() == [{"a": 1}]
    for use in (result.to_pylist, lambda: db.sql("SELECT 1"), result.__arrow_c_stream__, lambda: db.open(SIM), db.tables):
        with pytest.raises(vcz.Error, match="the connection is closed"):
            use()
    assert repr(db) == "<vcz.Connection, closed>"
    db.close()


VCZ = pathlib.Path(sys.executable).parent / "vcz"


def command_error(*arguments):
    """What `vcz sql` says of its last statement, which must fail."""
    done = subprocess.run([VCZ, "sql", "-q", *map(str, arguments)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and done.stderr.startswith("Error: "), done
    return done.stderr.removeprefix("Error: ").rstrip("\n")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT nothing FROM sim",
        "SELECT * FROM nowhere",
        "SELECT no_function(1)",
        "SELECT diversity(call_genotype, 'frist') FROM sim",
        "SELECT sfs(call_genotype, []) FROM sim",
        "SELECT diversity('a')",
        "SELEC 1",
        "SELECT '",
        "SELECT 1; SELEC 2",
        "SELECT 1 / (value - value) FROM range(3)",
        "SELECT CAST('x' AS INT)",
        "SET vcz.nothing = 1",
        "INSERT INTO sim VALUES (1)",
        "CREATE EXTERNAL TABLE t STORED AS VCZ LOCATION 'nowhere.vcz'",
        "COPY (SELECT sfs(call_genotype) FROM sim GROUP BY variant_contig) TO 'nowhere/x.fs'",
        "SELECT genome_bin(variant_position, 0) FROM sim",
    ],
)
def test_errors_are_those_of_the_command(sql):
    expected = command_error(SIM, "--populations", POPULATIONS, "-c", sql)
    with vcz.connect(SIM, populations=POPULATIONS) as db, pytest.raises(vcz.Error) as raised:
        db.sql(sql).to_pylist()
    assert str(raised.value) == expected


@pytest.mark.parametrize("stores, populations", [(["nowhere.vcz"], None), ([SIM], "nowhere.tsv"), ([SIM], FIXTURES / "sim.accessible.bed")])
def test_errors_of_stores_are_those_of_the_command(stores, populations):
    options = [] if populations is None else ["--populations", populations]
    expected = command_error(*stores, *options, "-c", "SELECT 1")
    with pytest.raises((vcz.Error, FileNotFoundError)) as raised:
        vcz.connect(*stores, populations=populations)
    assert str(raised.value) == expected


def test_a_generator_that_fails():
    pa = pytest.importorskip("pyarrow")

    def batches():
        yield pa.record_batch({"a": [1]})
        raise RuntimeError("of the generator")

    reader = pa.RecordBatchReader.from_batches(pa.schema({"a": pa.int64()}), batches())
    with vcz.connect() as db, pytest.raises(vcz.Error, match="of the generator"):
        db.register("t", reader)


def test_explain(db, capsys):
    db.sql("SELECT sfs(call_genotype, 'first') FROM sim").explain(analyze=True)
    assert "elapsed" in capsys.readouterr().out
    db.sql("SELECT count(*) FROM sim").explain()
    assert "physical_plan" in capsys.readouterr().out
