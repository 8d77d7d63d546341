"""Writes tests/docs/pixy.json: what pixy prints for the lines of its page. Run it where pixy is installed, after the page or its data were changed:

    DOCS_EXAMPLE=FOLDER python tests/docs/keep_pixy.py      # the folder that tests/docs/example.py made
"""

import json
import os
import pathlib
import subprocess
import tempfile

from test_coming_from import lines_of, setup_of, shell

with tempfile.TemporaryDirectory() as work:
    folder = pathlib.Path(work)
    for path in pathlib.Path(os.environ["DOCS_EXAMPLE"]).iterdir():
        (folder / path.name).symlink_to(path)
    shell(setup_of("pixy"), folder)
    kept = {line.peer: shell(line.peer, folder) for line in lines_of("pixy")}
kept["version"] = subprocess.run(["pixy", "--version"], capture_output=True, text=True).stdout.split()[-1]
pathlib.Path(__file__).with_name("pixy.json").write_text(json.dumps(kept, indent=1) + "\n")
