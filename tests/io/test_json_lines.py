"""Lines of a log as JSON."""

import json
import logging
import sys
from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from turnout.io.json_lines import JsonLines


@settings(max_examples=50)
@given(st.text(), st.sampled_from([logging.INFO, logging.WARNING, logging.ERROR]))
def test_a_record_is_one_line(message, level):
    record = logging.LogRecord("turnout", level, "", 0, "%s", (message,), None)
    line = JsonLines().format(record)
    read = json.loads(line)
    assert "\n" not in line and read.keys() == {"time", "level", "message"}
    assert (read["message"], read["level"]) == (message, logging.getLevelName(level).lower())
    assert abs(datetime.fromisoformat(read["time"]) - datetime.fromtimestamp(record.created, UTC)).total_seconds() < 0.002


def test_an_exception_is_in_the_line():
    try:
        raise ValueError("a\nb")
    except ValueError:
        line = JsonLines().format(logging.LogRecord("turnout", logging.ERROR, "", 0, "failed", (), sys.exc_info()))
    assert "\n" not in line and json.loads(line)["exception"].endswith("ValueError: a\nb")
