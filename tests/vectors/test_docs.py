"""The pages of test vectors and of other implementations, and the form of the files."""

import json
import re
from pathlib import Path

import jsonschema
import pytest

from tests.references.__main__ import FILES
from turnout import vectors
from turnout.vectors.table import markdown

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "vectors.md").read_text()


@pytest.mark.slow
def test_files_have_the_form_of_the_schema_and_are_small():
    schema = json.loads((FILES.parent / "schema.json").read_text())
    check = jsonschema.Draft202012Validator(schema)
    for name in vectors.names():
        check.validate(vectors.load(name))
    assert sum(path.stat().st_size for path in FILES.iterdir()) < 1e6
    with pytest.raises(jsonschema.ValidationError):
        check.validate(vectors.load("fedavg") | {"format": 2})


def test_the_program_of_the_page_holds_fedavg(monkeypatch):
    (program,) = re.findall(r"```python\n(import json.*?)```", PAGE, flags=re.DOTALL)
    monkeypatch.chdir(FILES)
    exec(program, {})
    with pytest.raises(AssertionError, match="round 1"):
        exec(program.replace('weights=[weights[i] for i in round["cohort"]]', "weights=None"), {})


def test_the_published_table_is_that_of_the_result():
    result = json.loads((ROOT / "results" / "implementations.json").read_text())
    table = markdown(result, vectors.collection()[0])
    page = (ROOT / "docs" / "implementations.md").read_text()
    assert table in page, "run python -m tests.references.published"
    assert "not played yet" not in table
    assert result["date"] in page


def test_every_difference_has_a_report():
    """A deviation or a difference of a package that was run, or read, is linked to from its row of reports."""
    page = (ROOT / "docs" / "implementations.md").read_text()
    linked = set(re.findall(r"\(\.\./reports/([\w-]+)\.md\)", page))
    assert linked == {path.stem for path in (ROOT / "reports").glob("*.md")}
    result = json.loads((ROOT / "results" / "implementations.json").read_text())
    found = vectors.collection()[0]
    for one in result["packages"]:
        differs = [
            family
            for family, row in one["rows"].items()
            if row["verdict"] == "different" or (row["verdict"] == "variant" and found[row["variant"]]["status"] == "deviation")
        ]
        told = re.findall(rf"^\| {re.escape(one['title'])} \| (.*?) \| ", page.partition("## Reports")[2], flags=re.MULTILINE)
        assert {*differs} <= {*re.findall(r"[\w-]+", " ".join(told))}, one["title"]
