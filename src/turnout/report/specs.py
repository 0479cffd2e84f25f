"""The specifications of the pictures of results."""

import re
from pathlib import Path
from typing import Any

from turnout.report.charts import curves
from turnout.report.costs import main_metric, prices_of
from turnout.report.loaded_run import Result
from turnout.report.pictures import SPECS, read_specs


def specs_of(folder: Path) -> dict[str, Any]:
    """Return the specifications of the pictures of the results in `folder`: those left there, or one for each price of a run.

    Args:
        folder: Folder of a run, a study, a plan or of theory.

    Raises:
        UserError: It holds no results.
    """
    is_run = (folder / "trace.parquet").exists() and not (folder / SPECS).exists()
    return run_specs(Result.read(folder)) if is_run else read_specs(folder)


def run_specs(result: Result) -> dict[str, Any]:
    """Return one specification for each price, by the metric and the price.

    Args:
        result: A finished run.
    """
    metric = main_metric(result)
    return {f"{metric}-{_slug(price.label)}": curves(result, metric, [price]) for price in prices_of(result)}


def _slug(label: str) -> str:
    """Return a price's label as part of a file name."""
    return re.sub(r"[^a-z0-9.]+", "-", label.lower()).strip("-")
