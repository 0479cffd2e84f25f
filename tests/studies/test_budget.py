"""A study with a budget: no run starts when it is spent, all get as far, and the same study goes on with more."""

import json

import jsonschema
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import turnout as t
from tests.helpers.commands import turnout
from turnout.experiment.schema import schema_of
from turnout.studies.result_types import StudySummary
from turnout.studies.study import Study

ROUNDS, SEEDS = 4, 3
"""A round of gradient descent is one exchange with all clients, so that each run costs `ROUNDS` exchanges."""


def study(**changes) -> dict:
    methods = {"gd": {"algorithm": t.Gd(t.Full(), lr=0.1), "grid": {"algorithm.lr": [0.02, 0.05]}}, "one": t.Gd(t.Full(), lr=0.1)}
    return {
        "seeds": SEEDS,
        "run": {"rounds": ROUNDS},
        "problems": {"made": t.Quadratic.random(4, 3)},
        "methods": methods,
        "goals": {"near": {"metric": "gradient", "share": 0.9, "stop": False}},
        **changes,
    }


def played(study: Study, purpose: str = "report") -> list[tuple]:
    """The method, setting and seed of each run with a purpose."""
    rows = study.runs.filter(pl.col("purpose") == purpose)
    return rows.select("method", "setting", "seed").unique(maintain_order=True).rows()


@pytest.mark.slow
def test_no_run_starts_when_the_budget_is_spent_and_more_of_it_goes_on(tmp_path):
    part = t.study(study(), tmp_path, budget=("exchanges", 4 * ROUNDS - 1))
    # The first seed of the three settings, and the second of one.
    assert [seed for *_, seed in played(part)].count(0) == 3 and len(played(part)) == 4
    assert part.budget is not None and part.budget.spent == 4 * ROUNDS and len(part.budget.not_played) == 5
    facts = json.loads((tmp_path / "summary.json").read_text())
    jsonschema.validate(facts, schema_of(StudySummary))
    assert len(facts["budget"]["not_played"]) == 5 and "one on made, seed 2" in facts["budget"]["not_played"]
    assert "one on made, seed 2</li>" in (tmp_path / "report.html").read_text()
    whole = t.study(study(), tmp_path, budget=("exchanges", 1e9))
    assert whole.budget is not None and whole.budget.spent == 9 * ROUNDS and not whole.budget.not_played
    assert_frame_equal(whole.runs, t.study(study()).runs)
    assert_frame_equal(t.study(study(), tmp_path, budget=("exchanges", 1)).runs, whole.runs)


@pytest.mark.longer
def test_nothing_is_reported_before_tuning_is_over(tmp_path):
    tuned = study(tuning={"seeds": 2})
    part = t.study(tuned, tmp_path, budget=("exchanges", 3 * ROUNDS))
    assert len(played(part, "tune")) == 3 and not played(part)
    assert "1 runs were not played, so that none are reported" in str(part.budget)
    whole = t.study(tuned, tmp_path, budget=("exchanges", 1e9))
    tuning, reporting = ({seed for *_, seed in played(whole, purpose)} for purpose in ("tune", "report"))
    assert len(tuning) == 2 and len(reporting) == SEEDS and not tuning & reporting


@pytest.mark.longer
def test_a_run_that_breaks_is_listed_as_broken_and_spends_nothing():
    lossy = {"algorithm": t.Gd(t.Full(), lr=0.1), "faults": {"loss": 0.9}}
    done = t.study(study(methods={"gd": lossy}), budget=("exchanges", 1e9))
    assert len(done.broken) == SEEDS and done.budget is not None
    assert done.budget.spent == 0 and not done.budget.not_played


@pytest.mark.slow
def test_workers_start_no_further_run_either(tmp_path):
    part = t.study(study(), tmp_path, budget=("exchanges", 3 * ROUNDS), workers=2)
    assert 3 <= len(played(part)) <= 4 and part.budget is not None
    assert part.budget.spent == len(played(part)) * ROUNDS and len(part.budget.not_played) == 9 - len(played(part))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"budget": ("bites", 1)}, "unknown price 'bites'.*did you mean|unknown price 'bites': known are exchanges"),
        ({"budget": ("exchanges", 0)}, "the budget of exchanges is a number above 0, but it is 0"),
        ({"budget": ("exchanges", float("nan"))}, "above 0, but it is nan"),
        ({"budget": ("exchanges", 1), "executor": "local"}, "leave out the executor, or the budget"),
    ],
    ids=["price", "zero", "nan", "executor"],
)
def test_a_mistake_is_told_before_the_first_run(options, words):
    with pytest.raises(t.UserError, match=words):
        t.study(study(), **options)


def test_the_option_has_a_price_and_a_number(tmp_path):
    code, _, said = turnout("study", tmp_path / "none.toml", "--out", tmp_path, "--budget", "1000")
    assert code == 2 and "--budget 1000: write the name of a price and a number" in said
