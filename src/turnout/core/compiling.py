"""How programs are compiled: well, but without what takes long and gains nothing."""

import os
from collections.abc import Callable
from functools import cache, wraps
from typing import Any

import jax
from jax.core import Tracer

from turnout.core.backend import on_cpu
from turnout.core.cache import keep_programs
from turnout.core.collector import without_collector
from turnout.core.forks import refuse_forked, watch_forks

QUICK_TO_COMPILE: dict[str, Any] = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
"""Options for a program that takes longer to compile than to run."""

# A part for each processor: more take longer to split and to link.
USUAL: dict[str, Any] = {
    "xla_backend_optimization_level": 1,
    "xla_cpu_parallel_codegen_split_count": min(32, os.cpu_count() or 1),
}
"""Options for all others on a CPU, unless XLA_FLAGS says otherwise; an accelerator has the compiler's own."""

if jax.__version_info__ < (0, 11):
    # On a CPU the program is as fast without these emitters, and compiles in half of the time; newer compilers lack them.
    QUICK_TO_COMPILE["xla_cpu_use_fusion_emitters"] = False
    USUAL["xla_cpu_use_fusion_emitters"] = False

USUAL = {name: value for name, value in USUAL.items() if name not in os.environ.get("XLA_FLAGS", "")}


def program(function: Callable, *, quick: bool = False, **options) -> Callable:
    """Return `function` compiled by `jax.jit`, with compiler options for the device on which it is first called.

    Inside another program, which has options of its own, it is a part of that. A call raises `UserError` in a process that was
    forked from one in which programs ran.

    Args:
        function: The function.
        quick: Whether it is compiled quickly rather than well.
        **options: Options of `jax.jit`.
    """
    part = jax.jit(function, **options)

    @cache
    def compiled(cpu: bool) -> Callable:
        keep_programs()
        watch_forks()
        return jax.jit(function, compiler_options=QUICK_TO_COMPILE if quick else USUAL if cpu else None, **options)

    @wraps(function)
    def call(*arguments, **keywords):
        if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves((arguments, keywords))):
            return part(*arguments, **keywords)
        refuse_forked()
        # Around the whole call, since what is not collected during a trace would be while it is lowered.
        with without_collector():
            return compiled(on_cpu())(*arguments, **keywords)

    vars(call)["compiled"] = compiled
    return call
