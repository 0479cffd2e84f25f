"""The lines that nodes and servers write to the standard error, which may be a file."""

import os
import sys
from copy import deepcopy
from typing import Any

from flwr.common.logger import update_console_handler
from uvicorn.config import LOGGING_CONFIG


def dated_lines() -> None:
    """Begin each line of Flower's log with its time; colours are for terminals only, and not where NO_COLOR is set."""
    update_console_handler(timestamps=True, colored=_colored())


def dated_config() -> dict[str, Any]:
    """Return the same for the log of uvicorn, which serves a SuperLink."""
    config = deepcopy(LOGGING_CONFIG)
    config["formatters"]["default"] |= {"fmt": "%(levelprefix)s %(asctime)s: %(message)s", "use_colors": _colored()}
    return config


def _colored() -> bool:
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR")
