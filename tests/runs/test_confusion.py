"""Which classes a model takes for which, against NumPy and scikit-learn."""

import json

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import confusion_matrix

import turnout as t
from tests.helpers.commands import config, turnout
from turnout.data import Csv, Dataset, IidSplit, load

ALGORITHM = t.FedAvg(t.Nice(2), lr=0.3)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """The files of a table with three classes, whose names are nasty, and of a test set with columns in another order."""
    folder, draws = tmp_path_factory.mktemp("table"), np.random.default_rng(0)
    for name, rows in (("train", 120), ("test", 50)):
        a, b = draws.normal(size=(2, rows))
        kind = np.where(a + draws.normal(0, 0.5, rows) > 0.2, np.where(b > 0, "actual", "<b>bold</b>"), "none of them at all")
        frame = pl.DataFrame({"a": a, "b": b, "kind": kind})
        (frame.select("b", "kind", "a") if name == "test" else frame).write_csv(folder / f"{name}.csv")
    return folder


@pytest.fixture(scope="module")
def problems(table):
    train = Csv(str(table / "train.csv"), label="kind").load()
    test = load(table / "test.csv", label="kind", like=train)
    split = IidSplit(clients=4, seed=0)
    return (
        t.Multinomial.of(train, split.split(train), mu=0.01),
        t.Multinomial.of(test, IidSplit(clients=1, seed=0).split(test), mu=0.01),
        train,
        test,
    )


@pytest.mark.tiers(quick=[], longer=["test-compiled", "test-nodes"])
@pytest.mark.parametrize("engine", ["compiled", "nodes"])
@pytest.mark.parametrize("of", ["clients", "test"])
def test_it_is_that_of_scikit_learn(problems, engine, of):
    problem, test, *data = problems
    options = {"test": test} if of == "test" else {}
    trace = t.run(ALGORITHM, problem, rounds=5, engine=engine, metrics=("accuracy",), **options)
    rows = data[1] if of == "test" else data[0]
    names = [str(name) for name in problem.schema.labels]
    scores = rows.features @ trace.x["weight"] + trace.x.get("bias", 0)
    expected = confusion_matrix(rows.labels, np.asarray(names)[np.argmax(scores, axis=1)], labels=names)
    frame = trace.confusion
    assert frame.columns == ["actual (no class)", *names] and frame["actual (no class)"].to_list() == names
    np.testing.assert_array_equal(frame.drop("actual (no class)").to_numpy(), expected)
    if of == "clients":
        # The clients have 30 rows each.
        assert np.trace(expected) / expected.sum() == pytest.approx(trace.metrics["accuracy"], rel=1e-12)


@pytest.mark.longer
def test_rows_that_are_taken_for_no_class_have_a_column():
    features = np.array([[1.0], [0.0], [-1.0], [2.0]])
    rows = t.Logistic((features, np.array([1.0, 1.0, -1.0, -1.0])), np.array([0, 2, 4]), t.Population(count=2), mu=0.1)
    trace = t.run(t.Gd(t.Full(), lr=0.1), rows, rounds=0, start=np.ones(1), metrics=("accuracy",))
    assert trace.confusion.rows() == [("-1.0", 1, 1, 0), ("1.0", 0, 1, 1)] and trace.metrics["accuracy"] == 0.5
    assert trace.confusion.columns == ["actual", "-1.0", "1.0", "none of them"]


@pytest.mark.longer
def test_what_has_no_classes_has_no_table():
    quadratic = t.Quadratic.random(3, 2)
    with pytest.raises(t.UserError, match="Quadratic has no confusion table, which needs rows"):
        t.run(t.Gd(t.Full(), lr=0.1), quadratic, rounds=1).confusion  # noqa: B018
    remote = t.Remote.of(np.zeros(2), [quadratic.client(i) for i in range(3)])
    with pytest.raises(t.UserError, match="Remote has no confusion table"):
        t.run(t.Gd(t.Full(), lr=0.1), remote, rounds=1, engine="nodes").confusion  # noqa: B018


@pytest.mark.slow
def test_the_summary_and_the_report_have_it(table, tmp_path):
    problem = {
        "kind": "multinomial",
        "mu": 0.01,
        "data": {"kind": "csv", "path": str(table / "train.csv"), "label": "kind"},
        "test": {"kind": "csv", "path": str(table / "test.csv"), "label": "kind"},
    }
    run = {"rounds": 5, "metrics": ["value", "test_accuracy"]}
    split, path = {"kind": "iid", "clients": 12}, tmp_path / "out"
    assert (
        turnout(
            "run",
            config(tmp_path, problem=problem, split=split, run=run, target={"metric": "value", "below": 0.1}),
            "--out",
            path,
        )[0]
        == 0
    )
    summary = json.loads((path / "summary.json").read_text())
    shown = summary["confusion"]
    counts = np.array([*shown["counts"].values()])
    assert shown["of"] == "test rows" and shown["predicted"] == [*shown["counts"]] and counts.sum() == 50
    assert np.trace(counts) / 50 == pytest.approx(summary["metrics"]["test_accuracy"], rel=1e-12)
    page = (path / "report.html").read_text()
    assert "Classes of the test rows" in page and "taken for &lt;b&gt;bold&lt;/b&gt;" in page and "<b>bold" not in page


@pytest.mark.longer
def test_metrics_of_ones_own_see_test_rows_as_the_model_does(problems):
    """The columns of the test problem are in another order."""
    problem, _, train, test = problems
    turned = t.Multinomial.of(
        Dataset("turned", test.features[:, ::-1], test.labels, columns=test.columns[::-1], known_classes=train.classes),
        IidSplit(clients=1, seed=0).split(test),
        mu=0.01,
    )
    right = t.Metric("right", lambda x, a, b: np.mean(np.argmax(a @ x["weight"] + x.get("bias", 0), axis=1) == b), of="test")
    trace = t.run(ALGORITHM, problem, rounds=3, test=turned, metrics=("test_accuracy", right))
    assert trace.frame["right"].to_list() == pytest.approx(trace.frame["test_accuracy"].to_list(), abs=1e-12)
