"""turnout: federated optimization that counts what communication costs.

`run` and `sweep` run an algorithm on a problem, `study` compares methods, and `plan` finds the cheapest; `__all__` lists the
public names. `client_solvers`, `codecs`, `devices`, `optimisers`, `schedules`, `solvers` and `trackers` are modules of parts.
`TorchOracle`, `parameters_of` and `set_parameters` need PyTorch. Each name is imported when it is first used; `__init__.pyi` says
from where.
"""

import os

from lazy_loader import attach_stub

# OpenBLAS factorises matrices for JAX. Its threads wait by spinning, and where other programs compute too, an eigendecomposition
# takes many times as long. They are to sleep soon instead; OpenBLAS reads this when JAX is imported.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")

__version__ = "0.1.0"

_imported, _, _names = attach_stub(__name__, __file__)

_TORCH = ("TorchOracle", "parameters_of", "set_parameters")
"""Public names that need PyTorch, which `from turnout import *` leaves out."""

__all__ = [name for name in _names if name not in _TORCH]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str):
    # Help and usage errors import nothing of the packages.
    from turnout.core.collector import without_collector

    with without_collector():
        return _imported(name)


def __dir__() -> list[str]:
    return [*__all__, *_TORCH, "__version__"]
