"""The JSON schema of results: what runs and studies leave is valid, and a wrong field is not."""

import json
from pathlib import Path

import jsonschema
import pytest

import turnout as t
from tests.cli.test_as_json import asked
from tests.helpers.commands import config, turnout
from turnout.experiment.result_types import RunSummary
from turnout.experiment.schema import schema_of
from turnout.studies.result_types import StudySummary

PUBLISHED = sorted((Path(__file__).parents[2] / "results").glob("*/summary.json"))
RUN, STUDY = (jsonschema.Draft202012Validator(schema_of(one)) for one in (RunSummary, StudySummary))


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """What a run with a target, devices and faults printed."""
    folder = tmp_path_factory.mktemp("run")
    tables = {"devices": {"seconds_per_query": 0.1}, "faults": {"loss": 0.1, "missing": "skip"}, "price": [{"kind": "bytes"}]}
    return asked("run", config(folder, **tables), "--out", folder / "out", "--timing")


def study(folder: Path) -> dict:
    """The summary of a study whose second method breaks, and which claims something."""
    methods = {"gd": t.Gd(t.Full(), lr=0.1), "broken": t.Gd(t.Full(), lr=1e200)}
    t.study(
        {
            "seeds": 2,
            "run": {"rounds": 3},
            "problems": {"made": t.Quadratic.random(4, 3)},
            "methods": methods,
            "goals": {"near": {"metric": "gradient", "share": 0.9}},
            "claims": [{"method": "gd", "rival": "broken"}],
        },
        folder,
    )
    return json.loads((folder / "summary.json").read_text())


def test_the_command_prints_the_schemas():
    for of, validator in (("run", RUN), ("study", STUDY)):
        code, out, _ = turnout("schema", "--of", of)
        assert code == 0 and json.loads(out) == validator.schema
        validator.check_schema(validator.schema)


@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.parent.name)
def test_published_studies_are_valid(path):
    STUDY.validate(json.loads(path.read_text()))


@pytest.mark.slow
def test_a_run_is_valid_and_a_wrong_field_is_not(played):
    RUN.validate(played)
    RUN.validate({**played, **json.loads((Path(played["folder"]) / "summary.json").read_text())})
    assert played["plan"] and played["timing"] and played["target"]
    planted = {**played["ledger"], "totals": {**played["ledger"]["totals"], "exchange": 1}}
    for wrong in ({"further": 1}, {"rounds": "3"}, {"status": "ended"}, {"ledger": planted}, {"plan": {}}):
        assert not RUN.is_valid({**played, **wrong})
    for name in RunSummary.__required_keys__:
        assert not RUN.is_valid({key: value for key, value in played.items() if key != name})


@pytest.mark.longer
def test_a_study_is_valid_and_a_wrong_field_is_not(tmp_path):
    written = study(tmp_path)
    STUDY.validate(written)
    assert written["claims"]
    for wrong in ({"further": 1}, {"runs": "4"}, {"claims": [{**written["claims"][0], "answer": "yes"}]}):
        assert not STUDY.is_valid({**written, **wrong})
    for name in StudySummary.__required_keys__:
        assert not STUDY.is_valid({key: value for key, value in written.items() if key != name})
