"""Synthetic(alpha, beta): the facts known of the published data, and the laws that it is drawn from."""

import numpy as np
import pytest

from turnout.core.errors import UserError
from turnout.data import NaturalSplit, load, synthetic
from turnout.data.dataset import digest


@pytest.fixture(scope="module")
def parts():
    return synthetic()


def counts(dataset) -> np.ndarray:
    return np.bincount(dataset.ids, minlength=100)


@pytest.mark.slow
def test_sizes_are_those_of_the_published_data(parts):
    """100 clients: 51 to 5,744 rows, median 110.5, 36,068 in all; the largest tenth holds 63 %, the largest fifth 74 %."""
    train, test = map(counts, parts)
    sizes = np.sort(train + test)[::-1]
    assert (sizes.min(), np.median(sizes), sizes.max(), sizes.sum()) == (51, 110.5, 5744, 36068)
    assert round(sizes[:10].sum() / sizes.sum(), 2) == 0.63 and round(sizes[:20].sum() / sizes.sum(), 2) == 0.74
    np.testing.assert_array_equal(train, np.floor(0.9 * (train + test)))


def test_a_client_has_few_labels(parts):
    """2.8 distinct ones of the ten on average."""
    train, test = parts
    classes = [np.union1d(train.labels[train.ids == i], test.labels[test.ids == i]).size for i in range(100)]
    assert round(np.mean(classes), 1) == 2.8


def test_features_have_the_covariance_of_the_law(parts):
    """Around its own centre, feature j of the largest client has the variance j^-1.2, and features are uncorrelated."""
    train = parts[0]
    rows = train.features[train.ids == np.argmax(counts(train))]
    scaled = (rows - rows.mean(0)) / np.arange(1, 61) ** -0.6
    # An entry of the sample covariance has a standard error of at most sqrt(2 / n).
    assert np.max(np.abs(np.cov(scaled.T) - np.eye(60))) < 5 * np.sqrt(2 / len(rows))


def test_labels_of_a_client_come_from_one_linear_model(parts):
    """The classes of a client are linearly separable: some W, b classify all its rows, test rows included, almost rightly."""
    from sklearn.linear_model import LogisticRegression

    train, test = parts
    largest = np.argmax(counts(train))
    own, unseen = train.ids == largest, test.ids == largest
    model = LogisticRegression(C=1e4, max_iter=2000).fit(train.features[own], train.labels[own])
    assert model.score(train.features[own], train.labels[own]) > 0.99
    assert model.score(test.features[unseen], test.labels[unseen]) > 0.97


@pytest.mark.slow
def test_beta_spreads_the_clients_centres():
    """Means over the 60 features of a client's centre have the variance beta^2 + 1 / 60 between clients."""
    for beta in (0.0, 2.0):
        train, _ = synthetic(0.0, beta, seed=1)
        means = np.array([train.features[train.ids == i].mean() for i in range(100)])
        expected = beta**2 + 1 / 60
        # A sample variance of 100 has a relative standard error of sqrt(2 / 99).
        assert abs(means.var(ddof=1) / expected - 1) < 4 * np.sqrt(2 / 99)


@pytest.mark.slow
def test_it_is_a_known_data_set_with_natural_clients(parts):
    for name, part in zip(("synthetic", "synthetic.t"), parts, strict=True):
        data = load(name)
        assert data.name == name and digest(data) == digest(part)
        split = NaturalSplit().split(data)
        assert split.clients == 100
        np.testing.assert_array_equal(split.sizes, counts(data))


@pytest.mark.parametrize("options", [{"alpha": -1.0}, {"beta": -0.5}, {"clients": 0}])
def test_senseless_parameters_are_refused(options):
    with pytest.raises(UserError, match="synthetic data need"):
        synthetic(**options)
