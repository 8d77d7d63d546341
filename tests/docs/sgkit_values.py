"""Values of sgkit for test_coming_from.py, which starts this in an environment with sgkit: {"setup": …, "lines": {…}} on standard input, values on the last line."""

import json
import sys
import warnings

import numpy as np

warnings.simplefilter("ignore")
asked = json.load(sys.stdin)
names = {}
exec(asked["setup"], names)
values = {}
for key, line in asked["lines"].items():
    try:
        value = np.asarray(eval(line, names), dtype=float)
        values[key] = {"value": [None if np.isnan(x) else x for x in value.ravel().tolist()] if value.ndim < 2 else value.tolist()}
    except Exception as error:
        values[key] = {"error": f"{line}: {type(error).__name__}: {error}"}
print(json.dumps(values))
