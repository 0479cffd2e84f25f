"""docs/configuration.md names every kind, every key and every class; every example file is a configuration."""

from dataclasses import fields
from pathlib import Path

import pytest

from tests.helpers.kinds import PAGE, kinds_table
from turnout.codecs import Exchange
from turnout.experiment.config import read
from turnout.experiment.experiment import RunSpec
from turnout.experiment.registry import TABLES
from turnout.privacy.mechanism import Privacy

EXAMPLES = [path for path in sorted((Path(__file__).parents[2] / "examples").rglob("*.toml")) if path.stem != "study"]


def test_every_configured_name_and_key_is_documented():
    page = PAGE.read_text()
    for table, kinds in TABLES.items():
        for kind, cls in kinds.items():
            assert f"`{kind}`" in page, f"{table} {kind}"
            for field in fields(cls):
                if field.repr and field.name not in ("kind", "sampler"):
                    assert f"`{field.name}`" in page, f"{table} {kind}: {field.name}"
    for field in (*fields(RunSpec), *fields(Exchange), *fields(Privacy)):
        assert not field.repr or f"`{field.name}`" in page, field.name


def test_the_table_of_classes_is_that_of_the_registry():
    assert kinds_table() in PAGE.read_text(), "python -m tests.helpers.kinds writes the table anew"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_a_configuration(path):
    assert read(path).target is not None
