"""The picture of the README, src/docs/picture.png, from the README's queries:

    python src/docs/picture.py [FILE]        # from the top of the repository
"""

import pathlib
import re
import sys

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import vcz

TOP = pathlib.Path(__file__).resolve().parents[2]


def queries():
    """The SQL of the README."""
    return re.findall(r"^```sql\n(.*?)^```", (TOP / "README.md").read_text(), re.S | re.M)


def draw(path):
    matplotlib.rcParams.update({"axes.spines.top": False, "axes.spines.right": False})
    # The first statement makes the table.
    _, spectrum, joint, scan = (statement for block in queries() for statement in vcz_statements(block))
    db = vcz.connect("tests/fixtures/sim.vcz.zip", populations="tests/fixtures/sim.populations.tsv", progress=False)
    figure = plt.figure(figsize=(11, 3.1), layout="constrained")
    left, middle, right = figure.subfigures(1, 3, width_ratios=[1, 1.15, 1.6])
    ax = left.subplots()
    vcz.plot.sfs(db.sql(spectrum).to_numpy()[0], ax=ax)
    ax.set_title("spectrum", fontsize=10)
    ax = middle.subplots()
    vcz.plot.joint_sfs(db.sql(joint).to_numpy()[0], ax=ax, names=("first", "second"))
    ax.set_title("joint spectrum", fontsize=10)
    axes = right.subplots(2, 1, sharex=True)
    vcz.plot.scan(db.sql(scan), y=["pi", "fst"], axes=axes)
    axes[0].set_title("windows", fontsize=10)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def vcz_statements(block):
    """The statements of a block, without comments."""
    code = "\n".join(line.split("--")[0] for line in block.splitlines())
    return [statement.strip() for statement in code.split(";") if statement.strip()]


if __name__ == "__main__":
    draw(sys.argv[1] if len(sys.argv) > 1 else TOP / "src" / "docs" / "picture.png")
