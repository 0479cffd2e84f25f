"""How clients become strata: partitions without an empty stratum, as good as they are said to be."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import turnout as t
from tests.helpers.examples import logistic, network, quadratic
from turnout.data.dataset import Dataset
from turnout.data.splits import Split
from turnout.problems.at_optimum import at_optimum
from turnout.problems.row_formats import NarrowRows, SparseRows
from turnout.runs.setup import bind
from turnout.samplers.clustering import balanced_strata, by_labels, by_optimum, by_rows, kmeans_strata, optimal_strata
from turnout.theory.designs import variance


def spread(vectors, strata) -> float:
    """sum_j |C_j| / n^2 sum_{i in C_j} |g_i - mean of C_j|^2."""
    parts = [vectors[strata == j] for j in range(strata.max() + 1)]
    return sum(len(part) * np.sum((part - part.mean(0)) ** 2) for part in parts) / len(vectors) ** 2


def partitions(n, b):
    """Yield every partition of n clients into b strata, numbered by their first clients."""

    def grow(strata, used):
        if len(strata) == n:
            if used == b:
                yield np.array(strata)
            return
        for j in range(min(used + 1, b)):
            yield from grow([*strata, j], max(used, j + 1))

    yield from grow([0], 1)


def least_spread(vectors, b) -> float:
    """The least `spread` of all partitions, by |C_j| sum |g_i|^2 - |sum g_i|^2 for each stratum."""
    members = np.array([*partitions(len(vectors), b)])[:, None] == np.arange(b)[:, None]
    squares, sums = members @ np.sum(vectors**2, axis=1), members @ vectors
    return np.min(np.sum(members.sum(2) * squares - np.sum(sums**2, axis=2), axis=1)) / len(vectors) ** 2


def is_partition(strata, n, b) -> bool:
    return strata.shape == (n,) and set(strata.tolist()) == set(range(b))


@pytest.mark.parametrize(("n", "b"), [(1, 1), (4, 2), (5, 4), (6, 1), (6, 6), (7, 3), (8, 5), (9, 3)])
def test_the_best_strata_equal_brute_force(n, b):
    for seed in range(3):
        vectors = np.random.default_rng(seed).normal(size=(n, 2))
        strata = optimal_strata(vectors, b)
        assert is_partition(strata, n, b)
        assert spread(vectors, strata) == pytest.approx(least_spread(vectors, b), abs=1e-15)


@pytest.mark.parametrize(("n", "b"), [(11, 2), (11, 3)])
def test_the_descent_finds_the_best_strata_of_a_few_more(n, b):
    """Beyond exact search, on instances small enough for brute force."""
    for seed in range(3):
        vectors = np.random.default_rng(seed).normal(size=(n, 2))
        best = least_spread(vectors, b)
        assert best * (1 - 1e-12) <= spread(vectors, optimal_strata(vectors, b)) <= 1.02 * best


def test_no_swap_and_no_move_helps_the_descent():
    vectors = np.random.default_rng(0).standard_t(2, size=(25, 3))
    strata = optimal_strata(vectors, 4)
    least = spread(vectors, strata)
    for i in range(25):
        for k in range(i):
            swapped = strata.copy()
            swapped[[i, k]] = strata[[k, i]]
            assert spread(vectors, swapped) >= least * (1 - 1e-9)
        for j in range(4):
            moved = strata.copy()
            moved[i] = j
            assert np.bincount(moved, minlength=4).min() == 0 or spread(vectors, moved) >= least * (1 - 1e-9)


MAKERS = [kmeans_strata, balanced_strata, optimal_strata]


@pytest.mark.tiers(quick=["balanced_strata", "optimal_strata"])
@pytest.mark.parametrize("make", MAKERS)
@settings(max_examples=30)
@given(st.integers(1, 14).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n))), st.integers(0, 99), st.booleans())
def test_strata_are_a_partition_of_anything(make, shape, seed, equal):
    """Equal vectors, zeros and vectors of any size included."""
    n, b = shape
    vectors = np.zeros((n, 2)) if equal else np.random.default_rng(seed).integers(0, 3, (n, 2)) * 10.0 ** (seed - 50)
    assert is_partition(make(vectors, b), n, b)


@pytest.mark.parametrize("make", MAKERS)
def test_clusters_apart_are_found(make):
    """Three groups of five clients whose distance is far beyond their size; a second call finds the same."""
    vectors = np.repeat([[0.0, 0.0], [50.0, 0.0], [0.0, 50.0]], 5, axis=0) + np.random.default_rng(0).normal(size=(15, 2))
    order = np.random.default_rng(1).permutation(15)
    strata = make(vectors[order], 3)
    assert all(len(set(strata[order // 5 == j])) == 1 for j in range(3)) and is_partition(strata, 15, 3)
    np.testing.assert_array_equal(strata, make(vectors[order], 3))


@pytest.mark.parametrize(("n", "b"), [(12, 3), (13, 5), (40, 7)])
def test_balanced_strata_have_equal_sizes(n, b):
    vectors = np.random.default_rng(0).standard_cauchy(size=(n, 3))
    assert set(np.bincount(balanced_strata(vectors, b))) == {n // b, -(-n // b)}


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("clusters", [0, 4])
def test_too_many_strata_are_one_sentence(make, clusters):
    with pytest.raises(t.UserError, match=f"3 clients cannot form {clusters} strata"):
        make(np.zeros((3, 1)), clusters)


def classification(features) -> t.Problem:
    """Eight clients of one or two rows."""
    labels = np.array([0, 0, 0, 0, 1, 1, 1, 1, 0, 1, 0, 1, 1, 0])
    dataset = Dataset("made", features, labels)
    return t.Logistic.of(dataset, Split(np.arange(14), np.array([0, 2, 4, 6, 8, 10, 12, 13, 14])), mu=0.1)


def test_strata_by_rows_do_not_depend_on_how_rows_are_stored():
    counts = np.random.default_rng(0).integers(0, 3, (14, 5))
    dense = classification(counts.astype(float))
    narrow, thin = (
        t.Logistic((rows, dense.rows[1]), dense.offsets, dense.population, 0.1)
        for rows in (NarrowRows(counts.astype(np.int8)), SparseRows.of(sparse.csr_array(counts.astype(float))))
    )
    means = np.array([part.mean(0) for part in np.split(counts, dense.offsets[1:-1])])
    for problem in (dense, narrow, thin):
        np.testing.assert_array_equal(by_rows(problem, 3), kmeans_strata(means, 3))


def test_strata_by_labels_group_equal_label_shares():
    """Clients have only label 0, only 1, or half of each."""
    strata = by_labels(classification(np.ones((14, 2))), 3)
    groups = [{0, 1, 7}, {2, 3, 6}, {4, 5}]
    assert {frozenset(np.flatnonzero(strata == j).tolist()) for j in range(3)} == set(map(frozenset, groups))
    assert is_partition(by_labels(network(), 2), 6, 2)


def test_strata_by_rows_and_labels_need_rows_and_labels():
    assert is_partition(by_rows(quadratic(), 5), 12, 5)
    with pytest.raises(t.UserError, match="need classes, which Quadratic does not have"):
        by_labels(quadratic(), 2)
    with pytest.raises(t.UserError, match="need features and labels, which Problem does not keep"):
        by_rows(t.Problem({"a": np.zeros(3)}, np.arange(4), t.Population(count=3)), 2)
    with pytest.raises(t.UserError, match="optimum of Network is not known"):
        by_optimum(network(), 2)


@pytest.mark.tiers(longer=["logistic"])
@pytest.mark.parametrize("make", [quadratic, logistic])
def test_optimal_strata_have_the_least_variance_at_the_optimum(make):
    """Below that of NICE, of k-means by rows and of random strata; also with unequal client weights."""
    problem = make()
    gradients, population = at_optimum(problem).gradients, problem.population

    def of(sampler):
        return variance(bind(sampler, problem), population, gradients)

    generator = np.random.default_rng(0)
    others = [t.Nice(4), t.Stratified(by="rows", clusters=4)]
    others += [t.Stratified(strata=generator.permutation(np.arange(12) % 4)) for _ in range(20)]
    assert of(t.Stratified(by="optimal", clusters=4)) <= min(map(of, others)) * (1 + 1e-9)
