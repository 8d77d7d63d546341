"""Builds the documentation site, and fails if anything in it is not true:

    python src/docs/build.py --vcz VCZ --out FOLDER [--update] [--no-site]

1. the data of the function reference and of the pages for users of other programs: `tests/docs/example.py`;
2. the function reference, `pages/reference/*.md`, from the functions' own documentation (`\\h NAME` of `vcz sql`). The example of each function is run,
   and its result shown; one that cannot be run is an error; and the reference of the Python module, from its docstrings;
3. the pages: code whose fence is marked `run` is executed, in order, with one session for each page, and what it gives must be what the page shows
   in the `text` that follows (with `--update` the page is changed instead); `picture="NAME.svg"` (or `.png`) makes the picture that the page shows below the code;
4. the notebook, `notebooks/*.py`, executed by Jupyter;
5. the site, by `mkdocs build --strict`: FOLDER/site.

Everything is written to FOLDER, nothing into the repository, unless `--update` is given.
"""

import argparse
import contextlib
import hashlib
import importlib.util
import inspect
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap
import time
import warnings

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parent.parent
#: Characters in a line of a table.
WIDTH = 100


class Wrong(Exception):
    """What is wrong with the documentation."""


def functions(vcz):
    """(title, names) of each list that `\\h` prints, but for DataFusion's."""
    printed = subprocess.run([vcz, "sql", "-q", "-c", "\\h"], capture_output=True, text=True, check=True).stdout
    lists = []
    for part in printed.split("\n\n"):
        title, _, names = part.partition(":\n")
        if not title.startswith("Of DataFusion"):
            lists.append((title, re.findall(r"[a-z_0-9]+", names)))
    return lists


class Entry:
    """The documentation of a function, as `\\h NAME` prints it."""

    def __init__(self, name, text):
        self.name = name
        description, syntax, *parts = [part for part in text.strip().split("\n\n") if part.strip()]
        # Arguments are indented, and the example is not.
        arguments = parts.pop(0) if parts and parts[0].startswith("  ") else ""
        lines = "\n\n".join(parts).splitlines()
        see = [re.fullmatch(r"See also (\w+)\.", line) for line in lines]
        self.see = [found[1] for found in see if found]
        self.example = "\n".join(line for line, found in zip(lines, see) if not found).strip()
        if not self.example:
            raise Wrong(f"{name} has no example")
        self.description = description.removeprefix(f"{name}: ").strip()
        self.syntax = syntax.strip()
        self.arguments = [line.strip().partition(": ")[::2] for line in arguments.splitlines() if line.strip()]


def entries(vcz, names):
    arguments = [word for name in names for word in ("-c", f"\\h {name}")]
    printed = subprocess.run([vcz, "sql", "-q", *arguments], capture_output=True, text=True, check=True).stdout
    starts = []
    at = 0
    for name in names:
        at = printed.index(f"{name}: ", at)
        starts.append(at)
        at += 1
    return [Entry(name, printed[start:end]) for name, start, end in zip(names, starts, [*starts[1:], len(printed)])]


def shown(db, statement, rows):
    """What a statement gives as text, and what was reported beside it; the last one of several."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = db.sql(statement)
        text = result._table(rows, WIDTH) if result.columns else ""
    notices = [str(warning.message) for warning in caught]
    return result, "\n".join(line.rstrip() for line in text.splitlines()), list(dict.fromkeys(notices))


#: What the examples of the reference stand on, beside the table `t`.
SETUP = """\
CREATE EXTERNAL TABLE t STORED AS VCZ LOCATION 'example.vcz' OPTIONS ('vcz.populations' 'populations.tsv');
CREATE VIEW chr22 AS SELECT * FROM t WHERE variant_contig = '22';
CREATE VIEW sim AS SELECT * FROM t;
CREATE VIEW sites AS
SELECT variant_contig, variant_position, allele_counts(call_genotype, 'YRI') AS ac,
       allele_counts(call_genotype, 'YRI') AS ac1, allele_counts(call_genotype, 'CEU') AS ac2,
       allele_counts(call_genotype, 'YRI') AS a, allele_counts(call_genotype, 'CEU') AS b,
       allele_counts(call_genotype, 'Vindija') AS c, allele_counts(call_genotype, 'chimp') AS d
FROM t;
CREATE VIEW counts AS SELECT ac1, ac2 FROM sites;
"""

#: Page -> its title and text.
KINDS = {
    "spectra-and-statistics": ("Statistics over sites", "Aggregates over allele counts, or over `call_genotype` and populations. All work with "
        "`GROUP BY`, with `FILTER` and in `OVER`."),
    "individuals-and-haplotypes": ("Individuals, haplotypes, linkage", "Aggregates that need the genotypes themselves: they take `call_genotype`, and a population if "
        "not every sample is meant."),
    "genotypes": ("Of genotypes", "Functions of the genotypes of a site. The scan computes them, and decodes each chunk once for all functions of a query."),
    "sites": ("Of sites, spectra and intervals", "Functions of one row: of allele counts, of columns, of a spectrum, of positions."),
    "tables": ("Table functions", "Used in `FROM`. Their first argument is the name of a table, or of a view of tables."),
}


def page_of(kind, entry):
    first = entry.syntax.partition("(")[2]
    of_genotypes = first.startswith("call_genotype")
    if kind.startswith("Statistics"):
        return "individuals-and-haplotypes" if of_genotypes else "spectra-and-statistics"
    if kind.startswith("Table"):
        return "tables"
    return "genotypes" if of_genotypes else "sites"


def escaped(text):
    """Text of a function's documentation in Markdown: code between backticks as it is."""
    return "`".join(part if index % 2 else plain(part) for index, part in enumerate(text.split("`")))


def plain(text):
    return text.replace("*", r"\*").replace("_", r"\_").replace("<", "&lt;").replace("[", r"\[").replace("|", r"\|")


def reference(vcz, pages, example):
    """Writes the function reference; returns the number of functions."""
    import vcz as module

    where, found = {}, {}
    for kind, names in functions(vcz):
        for entry in entries(vcz, names):
            where[entry.name] = page_of(kind, entry)
            found[entry.name] = entry
    written = {page: [f"# {title}\n\n{text} The examples are run on the [data of the examples](index.md#the-data-of-the-examples).\n"] for page, (title, text) in KINDS.items()}
    failed = []
    with contextlib.chdir(example):
        db = module.connect(settings={"datafusion.execution.target_partitions": 1}, progress=False)
        db.sql(SETUP)
        for name in sorted(found):
            entry = found[name]
            try:
                result, text, notices = shown(db, entry.example, 5)
            except Exception as error:
                failed.append(f"{name}: {entry.example}\n    {error}")
                continue
            # Examples of single values say in a comment what they give.
            said = re.search(r"; -- (.+)$", entry.example)
            if said:
                values = [cell for row in result.to_pylist() for cell in row.values()]
                given = ", ".join(str(value).lower() if isinstance(value, bool) else str(value) for value in values)
                if given != said[1]:
                    failed.append(f"{name}: the example says {said[1]}, and gives {given}")
            links = ", ".join(f"[`{see}`]({'' if where.get(see) == where[name] else where.get(see, '') + '.md'}#{see})" for see in entry.see if see in where)
            unknown = [see for see in entry.see if see not in where]
            if unknown:
                failed.append(f"{name}: see also {unknown[0]}, which is not a function")
            lines = [f"## {name}", "", f"`{entry.syntax}`", "", escaped(entry.description), ""]
            lines += [f"- `{argument}`: {escaped(text)}" for argument, text in entry.arguments]
            lines += ["", "```sql", entry.example, "```", "", "```text", text, "```", ""]
            lines += [f"Reported: {escaped(notice)}.\n" for notice in notices]
            lines += [f"See also {links}.", ""] if links else []
            written[where[name]].append("\n".join(lines))
    if failed:
        raise Wrong("examples of functions:\n  " + "\n  ".join(failed))
    folder = pages / "reference"
    folder.mkdir(exist_ok=True)
    for page, parts in written.items():
        (folder / f"{page}.md").write_text("\n".join(parts))
    overview = (HERE / "pages" / "guide" / "functions.md").read_text()
    unlisted = [name for name in found if not re.search(rf"\b{name}\b", overview)]
    if unlisted:
        raise Wrong(f"src/docs/pages/guide/functions.md does not name {', '.join(unlisted)}")
    lines = ["# Function reference", "", f"The {len(found)} functions of this project, with their own documentation: `\\h NAME` at the prompt of `vcz sql` shows the same. ",
             "[Functions by task](../guide/functions.md) is an overview. All functions of [DataFusion](https://datafusion.apache.org/user-guide/sql/) can be used with them.", ""]
    for page, (title, _) in KINDS.items():
        names = [name for name in sorted(found) if where[name] == page]
        lines += [f"**[{title}]({page}.md)**: " + ", ".join(f"[`{name}`]({page}.md#{name})" for name in names) + ".", ""]
    lines += ["## The data of the examples", "",
              "A simulation of eight populations of diploids on two contigs, with SNPs, indels, filters, `GQ`, `DP`, `AD` and 2 % missing calls, made by "
              "`tests/docs/example.py`. The names of populations and samples are those of people and apes, the genotypes are not. "
              "The table is `t`, and some examples use views of it:", "", "```sql", SETUP.strip(), "```", "",
              "At most five rows of each result are shown.", ""]
    (folder / "index.md").write_text("\n".join(lines))
    return len(found)


def python_reference(pages):
    """Writes the reference of the Python module, from its docstrings; returns the number of functions and methods."""
    import vcz

    def markdown(text):
        text = re.sub(r":(?:meth|class|func):`([^`]+)`", r"`\1`", text).replace("``", "`")
        text = re.sub(r"^:param (\w+): ", r"- `\1`: ", text, flags=re.M)
        # Continued lines of an argument are indented already.
        return text

    def entry(title, member):
        documentation = inspect.getdoc(member)
        if not documentation:
            raise Wrong(f"{title} has no documentation")
        if isinstance(member, property):
            signature = title
        else:
            known = inspect.signature(member)
            arguments = [argument.replace(annotation=argument.empty) for name, argument in known.parameters.items() if name != "self"]
            signature = title + str(known.replace(parameters=arguments, return_annotation=known.empty))
        return f"### {title}\n\n```python\n{signature}\n```\n\n{markdown(documentation)}\n"

    count = 0
    parts = ["# Python reference\n\nThe module `vcz`, with its own documentation; [Python](../guide/python.md) shows how it is used.\n"]
    for title, of, prefix, names in [
        ("Module", vcz, "vcz.", ["connect", "save_spectrum"]),
        ("Connection", vcz.Connection, "Connection.", None),
        ("Result", vcz.Result, "Result.", None),
        ("Plots", vcz.plot, "vcz.plot.", ["sfs", "joint_sfs", "scan"]),
    ]:
        parts.append(f"## {title}\n")
        if inspect.isclass(of):
            parts.append(markdown(inspect.getdoc(of)) + "\n")
        for name in names or [name for name in vars(of) if not name.startswith("_")]:
            parts.append(entry(prefix + name, getattr(of, name)))
            count += 1
    (pages / "reference" / "python.md").write_text("\n".join(parts))
    return count


FENCE = re.compile(r"^```(\w+)([^\n`]*)\n(.*?)^```[ ]*\n", re.S | re.M)


def options(info):
    found = {key: value or bare or True for key, value, bare in re.findall(r'(\w+)(?:=(?:"([^"]*)"|(\S+)))?', info)}
    return found


class Page:
    """A page: its code is run, in order, in a folder that has the `tests` and `sql` of the repository, and into which it may write."""

    def __init__(self, path, vcz):
        self.path, self.vcz = path, vcz
        self.text = path.read_text()
        self.db = None
        self.names = {"__name__": "page"}
        self.ran = self.pictures = 0

    def session(self):
        import vcz as module

        if self.db is None:
            self.db = module.connect(settings={"datafusion.execution.target_partitions": 1}, progress=False)
        return self.db

    def run(self, language, info, code):
        """What the code gives."""
        if language == "sql":
            _, text, notices = shown(self.session(), code, int(info.get("rows", 40)))
            return "\n".join([*text.splitlines(), *(line for notice in notices for line in textwrap.wrap(f"Note: {notice}", WIDTH))])
        if language == "python":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                exec(compile(code, str(self.path), "exec"), self.names)
            return "\n".join(line.rstrip() for line in printed.getvalue().splitlines())
        if language == "sh":
            path = f"{pathlib.Path(self.vcz).parent}:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
            done = subprocess.run(["bash", "-euc", code], capture_output=True, text=True, env={**os.environ, "PATH": path}, timeout=120)
            if done.returncode:
                raise Wrong(f"exit status {done.returncode}: {done.stderr.strip()}")
            return "\n".join(line.rstrip() for line in done.stdout.splitlines())
        raise Wrong(f"{language} cannot be run")

    def build(self, update, folder):
        """The page as it is published, and as it should be in the repository."""
        source, published, at = [], [], 0
        wrong = []
        fences = list(FENCE.finditer(self.text))
        skip = None
        for index, fence in enumerate(fences):
            if fence is skip:
                continue
            language, info, code = fence[1], options(fence[2]), fence[3]
            between = self.text[at : fence.start()]
            at = fence.end()
            source.append(between + fence[0])
            visible = code
            if language == "rust":
                # Lines that rustdoc hides.
                visible = "".join(line for line in code.splitlines(True) if not re.match(r"#( |$)", line))
                language_shown = "rust"
            else:
                language_shown = "sh" if language == "sh" else language
            published.append(between + f"```{language_shown}\n{visible}```\n")
            if "run" not in info and "picture" not in info:
                continue
            line = self.text[: fence.start()].count("\n") + 1
            try:
                text = self.run(language, info, code).rstrip()
            except Exception as error:
                wrong.append(f"{self.path.name}:{line}: {type(error).__name__}: {error}")
                continue
            self.ran += 1
            if "picture" in info:
                import matplotlib.pyplot as plt

                figure = plt.gcf()
                figure.savefig(folder / info["picture"], dpi=150, metadata={"Date": None} if info["picture"].endswith(".svg") else None)
                plt.close("all")
                self.pictures += 1
                alt = info.get("alt")
                if not isinstance(alt, str):
                    wrong.append(f"{self.path.name}:{line}: the picture needs alt=\"…\"")
                published.append(f"\n![{alt}]({info['picture']})\n")
            following = fences[index + 1] if index + 1 < len(fences) else None
            has_output = following is not None and following[1] == "text" and not self.text[fence.end() : following.start()].strip()
            if has_output:
                skip = following
                gap = self.text[fence.end() : following.start()]
                if following[3].rstrip("\n") != text:
                    if not update:
                        wrong.append(f"{self.path.name}:{line}: the page shows\n{following[3]}but the result is\n{text}")
                made = f"{gap}```text\n{text}\n```\n"
                source.append(made)
                published.append(made)
                at = following.end()
        source.append(self.text[at:])
        published.append(self.text[at:])
        if wrong:
            raise Wrong("\n".join(wrong))
        if update and "".join(source) != self.text:
            self.path.write_text("".join(source))
        return "".join(published)


def matplotlib_defaults():
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "vcz", "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 10,
                                "axes.spines.top": False, "axes.spines.right": False, "figure.dpi": 100})


#: Pages that are elsewhere in the repository, where their readers look for them. What is in their places in `pages` is for readers of the repository.
ELSEWHERE = {
    "guide/server.md": "src/flight/README.md",
    "guide/object-stores.md": "src/scan/remote/README.md",
}


def elsewhere(pages):
    for name, source in ELSEWHERE.items():
        text = (TOP / source).read_text()
        for other, path in ELSEWHERE.items():
            text = text.replace(f"]({os.path.relpath(path, pathlib.Path(source).parent)}", f"]({pathlib.Path(other).name}")

        def local(match):
            target, _, anchor = match[1].partition("#")
            if "://" in target or not target:
                return match[0]
            path = pathlib.Path(os.path.normpath(TOP / pathlib.Path(source).parent / target))
            if path.is_relative_to(HERE / "pages"):
                return f"]({os.path.relpath(path, HERE / 'pages' / 'guide')}{'#' + anchor if anchor else ''})"
            return match[0]

        (pages / name).write_text(re.sub(r"\]\(([^)\s]+)\)", local, text))


def notebooks(pages, out):
    """Runs the notebooks, and writes each as a page."""
    import jupytext
    import nbclient
    from nbconvert import MarkdownExporter

    count = 0
    for path in sorted((HERE / "notebooks").glob("*.py")):
        notebook = jupytext.read(path)
        work = out / "notebooks" / path.stem
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        os.environ["PATH"] = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
        nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(work)}}).execute()
        for cell in notebook.cells:
            # Warnings of other packages, and progress.
            if cell.cell_type == "code":
                cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
        text, resources = MarkdownExporter().from_notebook_node(notebook)
        target = pages / "notebooks"
        target.mkdir(exist_ok=True)
        for name, content in resources["outputs"].items():
            (target / f"{path.stem}_{name}").write_bytes(content)
            text = text.replace(f"]({name})", f"]({path.stem}_{name})")
        # Below the title.
        text = text.replace("\n\n", f"\n\n[The notebook as a file]({path.stem}.ipynb)\n\n", 1)
        (target / f"{path.stem}.md").write_text(re.sub(r"!\[(png|svg)\]", "![picture]", text))
        jupytext.write(notebook, target / f"{path.stem}.ipynb")
        count += 1
    return count


def example_data(out):
    script = TOP / "tests" / "docs" / "example.py"
    folder = out / "example"
    version = hashlib.sha256(script.read_bytes()).hexdigest()
    if not (folder / "made").exists() or (folder / "made").read_text() != version:
        shutil.rmtree(folder, ignore_errors=True)
        spec = importlib.util.spec_from_file_location("example", script)
        made = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(made)
        made.make(folder)
        (folder / "made").write_text(version)
    return folder


def main():
    parser = argparse.ArgumentParser(description="Builds the documentation site.")
    parser.add_argument("--vcz", required=True, help="the program")
    parser.add_argument("--out", required=True, type=pathlib.Path, help="the folder of the site")
    parser.add_argument("--update", action="store_true", help="change the results that pages show")
    parser.add_argument("--no-site", action="store_true", help="only what is run")
    parser.add_argument("--only", help="the pages with this in their name, and nothing else")
    arguments = parser.parse_args()
    out, vcz = arguments.out.resolve(), str(pathlib.Path(arguments.vcz).absolute())
    pages = out / "pages"
    shutil.rmtree(pages, ignore_errors=True)
    shutil.copytree(HERE / "pages", pages)
    os.chdir(TOP)
    matplotlib_defaults()
    start = time.monotonic()

    def done(what):
        print(f"{what} ({time.monotonic() - start:.0f} s)", flush=True)

    wrong = []
    ran = pictures = count = 0
    for path in sorted((HERE / "pages").rglob("*.md")):
        if arguments.only and arguments.only not in str(path):
            continue
        page, target = Page(path, vcz), pages / path.relative_to(HERE / "pages")
        work = out / "work" / path.stem
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        for folder in ("tests", "sql"):
            (work / folder).symlink_to(TOP / folder)
        try:
            with contextlib.chdir(work):
                target.write_text(page.build(arguments.update, target.parent))
        except Wrong as error:
            wrong.append(str(error))
        ran, pictures, count = ran + page.ran, pictures + page.pictures, count + 1
    if wrong:
        sys.exit("\n\n".join(wrong))
    done(f"{count} pages, {ran} pieces of code were run, {pictures} pictures made")
    if arguments.only:
        return
    example = example_data(out)
    done("the data of the examples")
    try:
        number, methods = reference(vcz, pages, example), python_reference(pages)
    except Wrong as error:
        sys.exit(str(error))
    done(f"the reference of {number} functions, and {methods} of Python")
    done(f"{notebooks(pages, out)} notebooks")
    if arguments.no_site:
        return
    elsewhere(pages)
    shutil.copy(HERE / "mkdocs.yml", out / "mkdocs.yml")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(out / "mkdocs.yml"), "--site-dir", str(out / "site")]
    if subprocess.run(command, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}).returncode:
        sys.exit("mkdocs failed")
    done(f"the site: {out / 'site' / 'index.html'}")


if __name__ == "__main__":
    main()
