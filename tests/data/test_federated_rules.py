"""Rules that clients find by exchanges, against those that are fitted on all rows."""

import numpy as np
import pytest

import turnout as t
from turnout.core.errors import UserError
from turnout.data import FederatedRules, load

CITIES = ["north", "south", "west"]
COLUMNS = {"age": (0, 120), "income": None, "city": CITIES, "same": None}


def made(rows: int, seed: int) -> dict:
    """A table with gaps and words."""
    draws = np.random.default_rng(seed)
    gap = lambda values: [None if draws.random() < 0.2 else value for value in values]  # noqa: E731
    return {
        "age": gap(draws.uniform(0, 120, rows).tolist()),
        "income": gap(draws.normal(1e6, 10, rows).tolist()),
        "city": gap(draws.choice(CITIES, rows, p=[0.2, 0.3, 0.5]).tolist()),
        "same": [0.1] * rows,
        "label": draws.choice(["no", "yes"], rows).tolist(),
    }


TABLES = [made(rows, seed) for seed, rows in enumerate((40, 3, 25))]
WHOLE = {name: [value for table in TABLES for value in table[name]] for name in TABLES[0]}


def exchanged(clients, size, **options):
    problem = t.Remote.of(np.zeros(size), clients, weights=[len(client.rows) for client in clients])
    return t.run(t.Gd(t.Full(), lr=1.0), problem, rounds=1, engine="nodes", metrics=("value",), **options)


def found(rules, tables=TABLES, **options):
    """The traces of both exchanges, and the rules."""
    first = exchanged([rules.means(table) for table in tables], rules.size, **options)
    problems = [rules.variances(first.x, table) for table in tables]
    second = exchanged(problems, rules.features(first.x), **options)
    return first, second, rules.scaled(first.x, second.x)


@pytest.mark.tiers(longer=["True"], everything=["False"])
@pytest.mark.parametrize("indicator", [False, True])
def test_they_are_those_of_all_rows(indicator):
    first, second, rules = found(FederatedRules(COLUMNS, indicator=indicator))
    expected = load(WHOLE, missing="mean", indicator=indicator).normalized("columns")
    mine = load(WHOLE, preprocessing=rules)
    # Of a column without gaps the fitted rules have no indicator.
    kept = [k for k, name in enumerate(mine.columns) if name != "same=missing"]
    assert [mine.columns[k] for k in kept] == [*expected.columns]
    np.testing.assert_allclose(mine.features[:, kept], expected.features, rtol=0, atol=1e-8)
    assert np.ptp(mine.features[:, mine.columns.index("same")]) == 0
    fills = [rule.fill for rule in rules.columns]
    np.testing.assert_allclose(fills[0], np.mean([a for a in WHOLE["age"] if a is not None]), rtol=1e-12)
    assert fills[2] == max(CITIES, key=WHOLE["city"].count)
    for trace, size in ((first, FederatedRules(COLUMNS).size), (second, len(mine.columns))):
        totals = trace.ledger.totals()
        assert (totals["exchanges"], totals["contacts"]) == (1, 3)
        assert totals["bytes_down"] == totals["bytes_up"] == 3 * 8 * size


@pytest.mark.slow
def test_privacy_clips_and_charges_them():
    rules = FederatedRules({"age": (0, 120), "city": CITIES})
    privacy = t.Privacy(clip=1e3, noise_multiplier=1e-9, delta=1e-5, seed=0, model="local")
    plain, noised = (
        exchanged([rules.means(table) for table in TABLES], rules.size, **options) for options in ({}, {"privacy": privacy})
    )
    np.testing.assert_allclose(noised.x, plain.x, atol=1e-4)
    assert not np.array_equal(noised.x, plain.x)
    short = t.Privacy(clip=0.1, noise_multiplier=1e-9, delta=1e-5, seed=0, model="local")
    clipped = exchanged([rules.means(table) for table in TABLES], rules.size, privacy=short)
    assert np.linalg.norm(clipped.x) <= 0.1 + 1e-6
    # What no noise can make senseless is a rule.
    assert rules.scaled(plain.x, np.full(rules.features(plain.x), -1.0)).scalings[0].deviations == (0.0,) * 4


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({}, "give at least one"),
        ({"age": (3, 3)}, "column 'age' has the bounds 3 and 3: give the lower one first"),
        ({"city": []}, "column 'city' has the categories"),
        ({"city": ["a", "a"]}, "give each of them once"),
    ],
)
def test_columns_that_make_no_rules_are_said(columns, sentence):
    with pytest.raises(UserError, match=sentence):
        FederatedRules(columns)


@pytest.mark.longer
def test_of_categories_that_are_as_frequent_the_first_fills_gaps():
    tables = [{"city": ["north", None, "west"], "label": [0, 1, 0]}, {"city": ["west", "north"], "label": [0, 1]}]
    rules = FederatedRules({"city": ["west", "north"]})
    means = exchanged([rules.means(table) for table in tables], rules.size).x
    assert rules.filled(means).columns[0].fill == "north"
    whole = {name: [value for table in tables for value in table[name]] for name in tables[0]}
    assert load(whole, missing="mean").preprocessing.columns[0].fill == "north"


@pytest.mark.longer
def test_a_column_without_values_and_one_that_lacks_are_said():
    rules = FederatedRules({"age": None})
    means = exchanged([rules.means({"age": [None, None], "label": [0, 1]})], rules.size).x
    with pytest.raises(UserError, match="column 'age' lacks values in all rows"):
        rules.filled(means)
    with pytest.raises(UserError, match="lacks the column 'age'|no column 'age'"):
        rules.means({"size": [1.0], "label": [0]})
