"""``python -m vcz`` is the command ``vcz``."""

import sys

from . import _main

if __name__ == "__main__":
    sys.exit(_main())
