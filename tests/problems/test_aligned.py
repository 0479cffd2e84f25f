"""Problems to test with: their labels and columns mean what those of the training problem mean."""

import numpy as np
import pytest
from hypothesis import strategies as st

import turnout as t
from tests.helpers.borders import border
from turnout.core.errors import Caution, UserError
from turnout.data import Dataset, IidSplit, load
from turnout.data.splits import Split
from turnout.problems.aligned import aligned

KINDS = {
    "logistic": lambda *parts: t.Logistic.of(*parts, mu=0.1),
    "multinomial": t.Multinomial.of,
    "network": lambda *parts: t.Network.of(*parts, hidden=2),
}


def whole(data: Dataset) -> tuple[Dataset, Split]:
    """Return the data with one client, which has all rows in their order."""
    return data, Split.of([np.arange(data.rows)], data.rows)


def meaning(problem) -> tuple[list, list]:
    """Return the labels that the rows' numbers stand for, and the rows' features by name."""
    features, codes = problem.rows
    labels = [problem.schema.labels[k] for k in np.searchsorted(problem.codes, codes)]
    return labels, [dict(zip(problem.schema.columns, row, strict=True)) for row in features.tolist()]


@border(
    kind=st.sampled_from([*KINDS]),
    labels=st.lists(st.integers(-(2**40), 2**40), min_size=2, max_size=5, unique=True),
    names=st.lists(st.text(max_size=3), min_size=1, max_size=4, unique=True),
    seed=st.integers(0, 2**32),
    further=st.booleans(),
)
def test_labels_and_columns_keep_their_meaning_or_are_refused(kind, labels, names, seed, further):
    """The test set has some of the labels, or one that training lacks, and the columns in another order."""
    rng, labels = np.random.default_rng(seed), labels[:2] if kind == "logistic" else labels
    train = Dataset("train", rng.integers(0, 9, (8, len(names))), np.resize(labels, 8), columns=tuple(names))
    order = rng.permutation(len(names))
    taken = rng.choice(labels, 5) if kind != "logistic" else np.resize(labels, 5)
    taken = np.append(taken, max(labels) + 1 if further and kind != "logistic" else taken[0])
    test = Dataset("test", rng.integers(0, 9, (6, len(names))), taken, columns=tuple(names[k] for k in order))
    problem, part = KINDS[kind](*whole(train)), KINDS[kind](*whole(test))
    if taken[-1] in labels:
        found = aligned(part, problem, "test")
        assert meaning(found) == meaning(part)
        assert found.schema == problem.schema
        np.testing.assert_array_equal(found.rows[0], KINDS[kind](*whole(test.like(train))).rows[0])
        np.testing.assert_array_equal(found.rows[1], KINDS[kind](*whole(test.like(train))).rows[1])
    else:
        for attempt in (lambda: aligned(part, problem, "test"), lambda: test.like(train)):
            with pytest.raises(UserError, match=f"has the label {taken[-1]}, which .* lacks"):
                attempt()


@pytest.mark.tiers(quick=[], slow=["held_out"])
@pytest.mark.parametrize("what", ["test", "held_out"])
def test_a_run_tests_by_labels(what):
    """A model that is right on every row has an accuracy of 1, whichever classes the rows have."""
    kinds, labels = np.arange(12) % 3, np.array([10, 20, 30])
    train = Dataset("train", np.eye(3)[kinds], labels[kinds])
    problem = t.Multinomial.of(train, IidSplit(clients=3).split(train))
    for classes in ([0, 1, 2], [1, 2], [2]):
        test = Dataset("test", np.eye(3)[classes], labels[classes])
        part = t.Multinomial.of(*whole(test))
        trace = t.run(t.Gd(t.Full(), lr=5.0), problem, rounds=5, metrics=(f"{what}_accuracy",), **{what: part})
        assert trace.metrics[f"{what}_accuracy"] == 1.0
    wrong = t.Multinomial.of(*whole(Dataset("test", np.eye(3), np.array([10, 20, 40]))))
    with pytest.raises(UserError, match=f"the {what.replace('_', ' ')} problem has the label 40, which the problem lacks"):
        t.run(t.Gd(t.Full(), lr=5.0), problem, rounds=5, **{what: wrong})


@pytest.mark.longer
def test_rows_of_one_class_test_a_binary_model():
    train = load({"a": [-1.0, 1.0], "b": [0.0, 0.0], "label": [7, 9]})
    problem = t.Logistic.of(*whole(train), mu=0.1)
    ones = load({"b": [0.0, 0.0], "a": [2.0, 3.0], "label": [9, 9]})
    with pytest.raises(UserError, match=r"needs two classes, but data has 1: .*data\.like\(train\)"):
        t.Logistic.of(*whole(ones), mu=0.1)
    test = t.Logistic.of(*whole(ones.like(train)), mu=0.1)
    trace = t.run(t.Gd(t.Full(), lr=1.0), problem, rounds=3, test=test, metrics=("test_accuracy",))
    assert trace.metrics["test_accuracy"] == 1.0


@pytest.mark.parametrize(
    ("names", "sentence"),
    [("xyz", "test has the column 'z', which train lacks"), ("x", "test lacks the column 'y', which train has")],
)
def test_a_missing_or_further_column_is_named(names, sentence):
    train = Dataset("train", np.eye(2), np.arange(2), columns=("x", "y"))
    test = Dataset("test", np.ones((2, len(names))), np.arange(2), columns=tuple(names))
    with pytest.raises(UserError, match=sentence):
        test.like(train)
    with pytest.raises(UserError, match=sentence.replace("train", "the problem").replace("test ", "the test problem ")):
        aligned(t.Multinomial.of(*whole(test)), t.Multinomial.of(*whole(train)), "test")


@pytest.mark.parametrize("sparse", [False, True])
def test_features_without_names_go_by_their_numbers_and_that_is_told(sparse):
    from scipy.sparse import csr_array

    rows = np.arange(6.0).reshape(2, 3)
    test = Dataset("test", csr_array(rows) if sparse else rows, np.arange(2))
    for width, sentence in ((2, "features 3 to 3 are left out"), (5, "the others are taken to be 0")):
        train = Dataset("train", np.ones((2, width)), np.arange(2))
        with pytest.warns(Caution, match=f"test has 3 features and train has {width}, which go by their numbers: {sentence}"):
            found = test.like(train).features
        wanted = np.pad(rows[:, :width], ((0, 0), (0, max(0, width - 3))))
        np.testing.assert_array_equal(found.toarray() if sparse else found, wanted)
    with pytest.raises(UserError, match=r"the test problem has features of shape \(3,\), and the problem of \(5,\)"):
        aligned(t.Multinomial.of(*whole(test)), t.Multinomial.of(*whole(train)), "test")


def test_columns_of_sparse_rows_are_put_in_order():
    from scipy.sparse import random_array

    rows = random_array((6, 400), density=0.01, format="csr", random_state=np.random.default_rng(0))
    names = tuple(f"word {k}" for k in range(400))
    train = Dataset("train", rows, np.arange(6) % 2, columns=names)
    test = Dataset("test", rows[:, ::-1], np.arange(6) % 2, columns=names[::-1])
    problem = t.Logistic.of(*whole(train), mu=0.1)
    found = aligned(t.Logistic.of(*whole(test), mu=0.1), problem, "test")
    np.testing.assert_array_equal(found.rows[0].to_scipy().toarray(), rows.toarray())
    np.testing.assert_array_equal(test.like(train).features.toarray(), rows.toarray())


def test_clients_of_other_classes_are_refused():
    def client(labels):
        data = Dataset("own", np.eye(2), np.array(labels))
        return t.Multinomial.of(*whole(data))

    problem = t.Remote.of({"weight": np.zeros((2, 2)), "bias": np.zeros(2)}, [client([0, 1]), client([0, 2])])
    with pytest.raises(UserError, match="client 1 has other classes or features than client 0"):
        t.run(t.Gd(t.Full(), lr=1.0), problem, rounds=1, engine="nodes", metrics=("value",))
