"""Strict numerics for every test: 64 bits, no implicit promotion of types or ranks."""

import gc
import os
from pathlib import Path

# As turnout does, which is imported later.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
# Workers share the processors, and threads of one that wait for each other take time from all.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import jax
import pytest
from hypothesis import HealthCheck, settings

import tests.helpers.typecheck  # noqa: F401 (jaxtyping's hook looks it up as an attribute)
from tests.helpers.tiers import sort_into_tiers, unknown_cases

QUICK = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true --xla_cpu_parallel_codegen_split_count=1"
"""Tests compile far more than they compute, so programs are compiled quickly rather than well."""

if jax.__version_info__ < (0, 11):
    # Newer compilers lack it. turnout has the same, but is imported only once types are checked.
    QUICK += " --xla_cpu_use_fusion_emitters=false"

# XLA reads this when it first computes, and commands that tests start inherit it. What the caller set comes last and wins.
os.environ["XLA_FLAGS"] = f"{QUICK} {os.environ.get('XLA_FLAGS', '')}"

# A mesh needs several devices, and others use the first one.
jax.config.update("jax_num_cpu_devices", 8)

# Programs are kept from one run of the tests to the next, between workers, and for the commands that tests start.
KEPT = {
    "jax_compilation_cache_dir": str(Path(__file__).parents[1] / ".pytest_cache" / "programs"),
    "jax_persistent_cache_min_compile_time_secs": 0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
}
for name, value in KEPT.items():
    jax.config.update(name, value)
    os.environ[name.upper()] = str(value)

# Values that take long too.
os.environ["TURNOUT_CACHE"] = str(Path(__file__).parents[1] / ".pytest_cache" / "turnout")

# A command may read a program that another is still writing, or was killed in writing; it then compiles the program itself.
UNFINISHED = ("Error reading persistent compilation cache entry", "Error writing persistent compilation cache entry")
# drjax 0.2.1 asks for the mesh in a way that JAX will drop.
DROPPED = ("jax.interpreters.pxla.thread_resources is deprecated",)
os.environ["PYTHONWARNINGS"] = ",".join(f"ignore:{message}" for message in (*UNFINISHED, *DROPPED))

# Commands that run in this process print wide tables.
os.environ["COLUMNS"] = "200"

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

settings.register_profile("turnout", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("turnout")


LONGEST = ("test_published.py", "test_new_project.py", "test_drill.py", "test_flower.py", "test_kill.py")
"""Files that begin first, so that no worker is left alone with one at the end."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Mark cases by their tiers before pytest selects by marks, and put the longest files first."""
    sort_into_tiers(items)
    if not any("::" in argument for argument in config.args) and (unknown := unknown_cases(items)):
        raise pytest.UsageError(f"no test has these cases, which marks name: {', '.join(unknown)}")
    items.sort(key=lambda item: item.path.name not in LONGEST)


def pytest_collection_finish():
    """Let collections of garbage pass over what was imported, which stays, and be rarer: tracing makes many objects."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


MEGABYTE = 2**20 // os.sysconf("SC_PAGE_SIZE")
"""Pages of memory in a megabyte."""

RESIDENT, GROWTH = 1_150 * MEGABYTE, 100 * MEGABYTE
"""Pages that a process may have before compiled programs are dropped, and pages that these may take in any case."""

MAPS = 20_000
"""Memory maps that compiled programs may take: at 65,530 Linux ends the process."""


@pytest.fixture(scope="session")
def pages() -> dict[str, int]:
    """Resident pages when programs were last dropped."""
    return {}


@pytest.fixture(autouse=True)
def few_programs(pages):
    """Drop compiled programs before they take too much memory; until then modules share those of single operations."""
    yield
    process = Path("/proc/self")
    if not process.exists():
        return
    resident = int((process / "statm").read_text().split()[1])
    limit = max(RESIDENT, pages.setdefault("before", resident) + GROWTH)
    if resident > limit or (process / "maps").read_bytes().count(b"\n") > MAPS:
        # Modules of turnout are imported after the hook that checks types.
        from turnout.core.spare_memory import drop_programs

        drop_programs()
        pages["before"] = int((process / "statm").read_text().split()[1])


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of the real data sets."""
    folder = os.environ.get("TURNOUT_DATA")
    if not folder:
        pytest.skip("the real data sets are not here: set TURNOUT_DATA to their folder")
    return Path(folder)
