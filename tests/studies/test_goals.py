"""Goals: where a run reaches them, one by one and in a frame of many runs."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import turnout as t
from turnout.accounting.ledger import EVENTS
from turnout.studies.costs import best_settings, costs, run_costs
from turnout.studies.tables import row_of

VALUES = st.lists(st.sampled_from([0.1, 0.4, 0.5, 1.0, 2.0, 8.0, float("nan")]), min_size=1, max_size=8)
GOALS = st.sampled_from(
    [
        t.Goal("gradient", below=0.5),
        t.Goal("gradient", below=0.5, hold="stays"),
        t.Goal("gradient", share=0.25),
        t.Goal("gradient", share=0.25, hold="stays"),
    ]
)


def frame(runs: list[list[float]], diverged: bool = False, **columns) -> pl.DataFrame:
    """Rows of runs with the given gradients; every round has one exchange."""
    frames = []
    for seed, values in enumerate(runs):
        own = {"problem": "p", "method": "m", "setting": "", "purpose": "report", **columns, "seed": seed}
        events = {name: np.arange(len(values)) for name in EVENTS}
        rows = pl.DataFrame({"round": np.arange(len(values)), "gradient": values, **events})
        frames.append(rows.select(*(pl.lit(value).alias(name) for name, value in own.items()), "*", diverged=pl.lit(diverged)))
    return pl.concat(frames)


@given(VALUES, GOALS)
def test_a_goal_is_reached_where_its_definition_says(values, goal):
    level = 0.5 if goal.share is None else goal.share * values[0]
    met = [value < level if goal.share is None else value <= level for value in values]
    rows = [k for k in range(len(values)) if (met[k] if goal.hold == "first" else all(met[k:]))]
    assert goal.hit(np.array(values)) == (rows[0] if rows else None)


@pytest.mark.longer
@given(st.lists(VALUES, min_size=1, max_size=4), GOALS, st.booleans())
def test_the_costs_of_many_runs_are_those_of_each(runs, goal, diverged):
    found = run_costs(frame(runs, diverged), goal, t.Exchanges())
    hits = [goal.hit(np.array(values), diverged) for values in runs]
    assert found["cost"].to_list() == [np.inf if hit is None else hit for hit in hits]
    summary = costs(found)
    assert summary["reached"].item() == sum(hit is not None for hit in hits) and summary["seeds"].item() == len(runs)


def test_the_first_hit_is_that_of_a_target():
    values = {"accuracy": np.array([0.1, 0.8, 0.95, 0.9])}
    for below in (0.5, 0.1, 0.01):
        assert t.Goal("accuracy", below=below).hit(values["accuracy"]) == t.Target("accuracy", below).first_hit(values)


def test_a_setting_that_comes_nearest_is_best_where_none_arrives():
    rows = pl.concat([frame([[8.0, 4.0]], setting="far"), frame([[8.0, 2.0]], setting="near")])
    best = best_settings(costs(run_costs(rows, t.Goal("gradient", below=0.1), t.Exchanges())))
    assert best["setting"].to_list() == ["near"] and best["cost"].to_list() == [np.inf]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"metric": "gradiant", "below": 1.0}, "unknown metric 'gradiant': did you mean 'gradient'"),
        ({"metric": "gradient", "stop": True}, "leave out stop and hold"),
        ({"metric": "gradient", "hold": "stays"}, "leave out stop and hold"),
        ({"metric": "gradient", "below": 1.0, "share": 0.5}, "give either below or share"),
        ({"metric": "gradient", "share": 1.5}, "less than 1"),
        ({"metric": "gradient", "below": 1.0, "hold": "stays", "stop": True}, "known at its end only"),
    ],
)
def test_a_goal_that_means_nothing_is_refused(fields, words):
    with pytest.raises(t.UserError, match=words):
        t.Goal(**fields)


def test_a_share_of_what_is_not_above_0_is_refused():
    half = t.Goal("value", share=0.5)
    for values in ([-1.0, -0.4, -2.0], [0.0, -1.0]):
        with pytest.raises(t.UserError, match="0.5 of the first value, which is (-1|0): a share is a level only of a number"):
            half.hit(np.array(values))
    assert half.hit(np.array([0.0, 0.0])) == 0


def test_a_goal_without_a_level_is_the_best_value_or_the_last():
    rows = frame([[8.0, 0.5, 2.0], [8.0, 4.0, 3.0]])
    for hold, values in (("first", [0.5, 3.0]), ("last", [2.0, 3.0])):
        assert run_costs(rows, t.Goal("gradient", hold=hold), t.Exchanges())["cost"].to_list() == values
    assert run_costs(frame([[8.0, 0.5]], diverged=True), t.Goal("gradient", hold="last"), t.Exchanges())["cost"].item() == np.inf
    with pytest.raises(t.UserError, match="leave out below and share"):
        t.Goal("gradient", below=0.5, hold="last")


@pytest.mark.parametrize(
    ("metric", "words", "met"),
    [
        ("distance", "distance < 0.1", 0.05),
        ("test_accuracy", "test error rate < 0.1", 0.95),
        ("accuracy_10", "1 - accuracy_10 < 0.1", 0.95),
        ("accuracy_spread", "accuracy_spread < 0.1", 0.05),
        ("accuracy_error", "accuracy_error < 0.1", 0.05),
    ],
)
def test_a_level_of_an_accuracy_is_told_as_one_of_the_error_rate(metric, words, met):
    goal = t.Goal(metric, below=0.1)
    assert goal.words == words and goal.hit(np.array([0.5, met])) == 1 and goal.hit(np.array([0.5, 1 - met])) is None


def test_accuracies_are_shown_as_they_are_from_the_lower_to_the_higher():
    """They are compared by their error rates."""
    errors = {"cost": 0.3, "low": 0.25, "high": 0.4, "interval_low": 0.2, "interval_high": 0.45}
    facts = {**errors, "setting": "lr = 1", "seeds": 5, "reached": 5}
    row = row_of(facts, t.Goal("test_accuracy", hold="last"), t.Exchanges(), ("digits", "FedAvg"), wins=False)
    assert (row.cost, row.quartiles, row.interval) == ("0.7", "0.6 – 0.75", "0.55 – 0.8")
    row = row_of(facts, t.Goal("test_value", hold="last"), t.Exchanges(), ("digits", "FedAvg"), wins=False)
    assert (row.cost, row.quartiles, row.interval) == ("0.3", "0.25 – 0.4", "0.2 – 0.45")
