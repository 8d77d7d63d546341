"""SQL for population genetics: VCZ stores (VCF in Zarr) as tables, statistics as SQL functions, results as Arrow.

>>> import vcz
>>> db = vcz.connect("sim.vcz.zip", populations="sim.populations.tsv")
>>> db.sql("SELECT sfs(call_genotype, 'first') FROM sim").to_numpy()  # doctest: +SKIP

The functions are listed by ``db.sql("SELECT routine_name, description FROM information_schema.routines").show()``.
"""

import atexit as _atexit
import sys as _sys
import typing as _typing

from . import _vcz
from ._connection import Connection, Notice, connect
from ._result import Result
from ._vcz import Error, __version__

__all__ = ["Connection", "Error", "Notice", "Result", "Spectrum", "connect", "plot", "save_spectrum", "__version__"]

# A notebook's kernel may not have activated its environment, in which packages have CUDA's libraries.
_vcz.search_prefix(_sys.prefix)
# CUDA's exit handlers fail while another thread is inside of CUDA.
_atexit.register(_vcz.settle)


if _typing.TYPE_CHECKING:
    from . import plot
    from ._spectrum import Spectrum, save_spectrum
else:

    def __getattr__(name: str) -> _typing.Any:
        # Imported when they are used: they need numpy or matplotlib.
        if name == "save_spectrum":
            from ._spectrum import save_spectrum

            return save_spectrum
        if name == "Spectrum":
            from ._spectrum import Spectrum

            return Spectrum
        if name == "plot":
            import importlib

            return importlib.import_module(".plot", __name__)
        raise AttributeError(f"module 'vcz' has no attribute '{name}'")


def load_ipython_extension(ipython: _typing.Any) -> None:
    """``%load_ext vcz``: the cell magic ``%%vcz``."""
    from ._notebook import load

    load(ipython)


def _main() -> int:
    """The command ``vcz``."""
    import signal

    # Python's own handler would only run once the command has ended. SIGPIPE stays ignored, as Python and Rust programs start: behind `| head`
    # the command ends with status 0.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _vcz.main(["vcz", *_sys.argv[1:]])
