"""A log whose lines are JSON objects."""

import json
import logging
import os
import sys
import threading
import warnings
from datetime import UTC, datetime

VARIABLE = "TURNOUT_LOG_FORMAT"
"""Environment variable: "text" or "json", also for the processes that this one starts."""


class JsonLines(logging.Formatter):
    """Formats a record of a log as an object with its time (UTC), level and message, and the traceback of an exception."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False)


def wanted() -> bool:
    """Return whether logs of this process are to be JSON."""
    return os.environ.get(VARIABLE) == "json"


def begun() -> bool:
    """Return whether `write_json_lines` was called."""
    return any(isinstance(handler.formatter, JsonLines) for handler in logging.root.handlers)


def write_json_lines() -> None:
    """Write all logs, warnings and unexpected errors of this process to the standard error as JSON, one line each."""
    handler, log = logging.StreamHandler(), logging.getLogger("turnout")
    handler.setFormatter(JsonLines())
    handler.setLevel(logging.INFO)
    # Other libraries tell of each request.
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    log.setLevel(logging.INFO)
    warnings.showwarning = lambda message, *rest, **more: log.warning("%s", message)
    sys.excepthook = lambda *error: log.critical("unexpected error", exc_info=error)
    threading.excepthook = lambda error: log.critical("unexpected error", exc_info=error[:3])
