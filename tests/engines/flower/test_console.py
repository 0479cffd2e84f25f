"""Logs of nodes and servers."""

import io
import logging
import logging.config
import re
import sys

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'turnout[flower]'")

from turnout.engines.flower.console import dated_config, dated_lines

TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")


class Terminal(io.StringIO):
    """Says that it is a terminal, or a file."""

    def __init__(self, is_terminal: bool):
        super().__init__()
        self.is_terminal = is_terminal

    def isatty(self) -> bool:
        return self.is_terminal


@pytest.mark.parametrize(("terminal", "no_color", "coloured"), [(False, "", False), (True, "1", False), (True, "", True)])
def test_lines_have_times_and_only_terminals_get_colours(terminal, no_color, coloured, monkeypatch):
    from flwr.common.logger import FLOWER_LOGGER, console_handler, update_console_handler

    monkeypatch.setattr(sys, "stderr", Terminal(terminal))
    monkeypatch.setenv("NO_COLOR", no_color)
    before = {"timestamps": console_handler.timestamps, "colored": console_handler.colored}
    try:
        dated_lines()
        line = console_handler.format(FLOWER_LOGGER.makeRecord("flwr", logging.WARNING, "f", 1, "client 3: left", (), None))
    finally:
        update_console_handler(**before)
    assert TIME.search(line) and line.endswith("client 3: left") and ("\x1b[" in line) == coloured
    formatter = logging.config.DictConfigurator(dated_config()).configure_formatter(dated_config()["formatters"]["default"])
    line = formatter.format(logging.makeLogRecord({"levelname": "INFO", "levelno": 20, "msg": "Started"}))
    assert TIME.search(line) and line.endswith("Started") and ("\x1b[" in line) == coloured
