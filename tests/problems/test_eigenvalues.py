"""The largest eigenvalues of the clients' Gram matrices, which are kept from one process to the next."""

import numpy as np
import pytest
from scipy.sparse import csr_array

import turnout as t
from turnout.data import Dataset, IidSplit
from turnout.problems import eigenvalues


def of(features) -> t.Problem:
    data = Dataset("mine", features, np.arange(20) % 2)
    return t.Logistic.of(data, IidSplit(clients=4).split(data), mu=0.1)


@pytest.mark.parametrize("form", [np.asarray, csr_array], ids=["dense", "sparse"])
def test_they_are_kept_for_the_same_rows_alone(form, monkeypatch, tmp_path):
    monkeypatch.setenv("TURNOUT_CACHE", str(tmp_path))
    features = np.random.default_rng(0).normal(size=(20, 3))
    problem = of(form(features))
    parts = [np.asarray(problem.rows[0])[a:b] for a, b in zip(problem.offsets, problem.offsets[1:], strict=False)]
    wanted = [np.linalg.eigvalsh(part.T @ part / len(part))[-1] for part in parts]
    first = eigenvalues.top_eigenvalues(problem)
    np.testing.assert_allclose(first, wanted, rtol=1e-12)

    def computed(problem, intercept):
        raise AssertionError("computed again")

    monkeypatch.setattr(eigenvalues, "_top_eigenvalues", computed)
    np.testing.assert_array_equal(eigenvalues.top_eigenvalues(of(form(features))), first)
    other = features + (np.arange(60).reshape(20, 3) == 0)
    for rows, intercept in ((features, True), (other, False)):
        with pytest.raises(AssertionError, match="computed again"):
            eigenvalues.top_eigenvalues(of(form(rows)), intercept)
