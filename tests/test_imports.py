"""What `import turnout` costs: nothing that a run may do without."""

import os
import subprocess
import sys

import pytest

LATER = (
    "torch", "transformers", "datasets", "flwr", "flwr_datasets", "h5py", "pyarrow", "equinox", "optax", "optimistix", "altair",
    "sklearn", "scipy", "polars", "pydantic", "httpx", "jax.extend",
)  # fmt: skip
"""Packages that are extras, or slow to import."""

SHOW = f"""
import sys, turnout
from jax._src import xla_bridge
print([name for name in {LATER} if name in sys.modules], xla_bridge.backends_are_initialized())
"""


@pytest.mark.longer
def test_extras_and_slow_packages_are_imported_when_needed_and_no_device_is_touched():
    assert subprocess.run([sys.executable, "-c", SHOW], capture_output=True, text=True, check=True).stdout == "[] False\n"


@pytest.mark.parametrize(("given", "kept"), [({}, "4"), ({"OPENBLAS_THREAD_TIMEOUT": "9"}, "9")])
def test_threads_of_openblas_sleep_while_they_wait_unless_the_user_says_otherwise(given, kept):
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_THREAD_TIMEOUT"} | given
    code = "import os, turnout; print(os.environ['OPENBLAS_THREAD_TIMEOUT'])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert found.stdout == f"{kept}\n"


READ = """
import sys
from pathlib import Path
from turnout.experiment.config import read
read(Path("examples/adult/sppm-sketch.toml"))
print(*(name for name in sys.modules if name.startswith("turnout.algorithms.")))
"""


def test_a_configuration_imports_the_algorithms_that_it_names():
    found = subprocess.run([sys.executable, "-c", READ], capture_output=True, text=True, check=True)
    assert {"turnout.algorithms.sppm"} <= {*found.stdout.split()} <= {"turnout.algorithms.sppm", "turnout.algorithms.base"}
