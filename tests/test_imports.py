"""What `import turnout` costs: nothing that a run may do without."""

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
