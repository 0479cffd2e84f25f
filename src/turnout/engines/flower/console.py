"""The lines that nodes and servers write to the standard error, which may be a file."""

import os
import sys
from copy import deepcopy
from typing import Any

from flwr.common.logger import FLOWER_LOGGER, console_handler, update_console_handler
from uvicorn.config import LOGGING_CONFIG

from turnout.io import json_lines


def dated_lines() -> None:
    """Begin each line of Flower's log with its time, or make all logs JSON where $TURNOUT_LOG_FORMAT says so.

    Colours are for terminals only, and not where NO_COLOR is set.
    """
    if json_lines.wanted():
        FLOWER_LOGGER.removeHandler(console_handler)
        json_lines.write_json_lines()
    update_console_handler(timestamps=True, colored=_colored())


def dated_config() -> dict[str, Any]:
    """Return the same for the log of uvicorn, which serves a SuperLink."""
    if json_lines.wanted():
        return {"version": 1, "disable_existing_loggers": False, "loggers": {"uvicorn": {"level": "INFO"}}}
    config = deepcopy(LOGGING_CONFIG)
    config["formatters"]["default"] |= {"fmt": "%(levelprefix)s %(asctime)s: %(message)s", "use_colors": _colored()}
    return config


def _colored() -> bool:
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR")
