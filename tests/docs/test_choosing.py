"""Every configuration of the page that helps to choose is one, and its run gets somewhere."""

import tomllib
from pathlib import Path

import pytest

from tests.helpers.walkthrough import blocks
from turnout.experiment.build import build, session_of
from turnout.experiment.config import Reader

PAGE = Path(__file__).parents[2] / "docs" / "choosing.md"
FILES = {block.file.removesuffix(".toml"): block.text for block in blocks(PAGE) if block.file.endswith(".toml")}
PASTED = [name for name in FILES if name not in ("task", "theory")]
"""Those that a reader runs; the others are for a plan, and for theory."""


@pytest.mark.tiers(quick=[], slow=["first", "ditto"])
@pytest.mark.parametrize("name", PASTED)
def test_a_configuration_to_paste_lowers_the_loss(name):
    experiment = Reader(name, FILES[name], tomllib.loads(FILES[name])).experiment(name)
    values = session_of(experiment, build(experiment, None)).run().trace.frame["value"].to_numpy()
    assert values[-1] < 0.8 * values[0]


def test_every_answer_of_the_table_has_its_configuration():
    text = PAGE.read_text()
    sections = {line[3:].lower().replace("`", "").replace(" ", "-") for line in text.splitlines() if line.startswith("## ")}
    table = text.partition("\n| question")[2].partition("\n\n")[0]
    linked = {part.partition(")")[0] for part in table.split("](#")[1:]}
    assert len(linked) == len(PASTED) and linked <= sections
