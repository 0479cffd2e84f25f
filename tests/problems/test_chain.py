"""The chain: its constants and its minimiser, and that no method finds coordinates sooner than Theorem 7.1 allows."""

import jax.numpy as jnp
import numpy as np
import pytest
import tomli_w

import turnout as t
from tests.helpers.commands import stored_split
from turnout.experiment.config import Reader, read
from turnout.experiment.run import start
from turnout.problems import Chain
from turnout.problems.optimum import solve
from turnout.report.downsample import points
from turnout.report.loaded_run import Result
from turnout.theory.feddcd import lower_bound, lower_distance, lower_rate

CLIENTS, LENGTH, MU, SMOOTHNESS, SIZE = 5, 40, 0.02, 4.0, 2


@pytest.fixture(scope="module")
def chain():
    return Chain.of(CLIENTS, LENGTH, MU, SMOOTHNESS)


@pytest.fixture(scope="module")
def forms():
    """A_i and b_i of f_i(x) = x^T A_i x / 2 - <b_i, x>, written out from the links, in 40 coordinates."""
    stiffness, matrices = (SMOOTHNESS - CLIENTS * MU) / 8, np.stack([MU * np.eye(LENGTH)] * CLIENTS)
    for j in range(LENGTH + 1):
        step = np.zeros(LENGTH + 2)
        step[j : j + 2] = [1, -1]
        matrices[j % CLIENTS] += 2 * stiffness * np.outer(step, step)[1:-1, 1:-1]
    vectors = np.zeros((CLIENTS, LENGTH))
    vectors[0, 0] = 2 * stiffness
    return matrices, vectors


def test_values_and_constants_are_those_of_the_quadratic_forms(chain, forms):
    matrices, vectors = forms
    x = np.random.default_rng(0).normal(size=LENGTH)
    constant = (SMOOTHNESS - CLIENTS * MU) / 8 * np.eye(CLIENTS)[0]
    expected = constant + np.einsum("i,nij,j->n", x, matrices, x) / 2 - vectors @ x
    values = chain.losses(jnp.asarray(x), jnp.asarray(chain.rows)) + chain.regulariser(jnp.asarray(x))
    np.testing.assert_allclose(values, expected, rtol=1e-12)
    eigenvalues = np.linalg.eigvalsh(matrices)
    np.testing.assert_allclose(chain.constants().convexity, eigenvalues[:, 0], rtol=1e-10)
    np.testing.assert_allclose(chain.constants().smoothness, eigenvalues[:, -1], rtol=1e-10)
    assert np.all(eigenvalues[:, 0] >= MU - 1e-12) and np.all(eigenvalues[:, -1] <= SMOOTHNESS)


def test_the_minimiser_is_known(chain, forms):
    matrices, vectors = forms
    np.testing.assert_allclose(chain.minimiser(), np.linalg.solve(matrices.sum(0), vectors.sum(0)), atol=1e-12)
    np.testing.assert_allclose(solve(chain).x, chain.minimiser(), atol=1e-10)


def cohorts(rounds, seed):
    generator = np.random.default_rng(seed)
    return [generator.choice(CLIENTS, SIZE, replace=False) for _ in range(rounds)]


def feddcd(forms, drawn):
    """The means of the cohorts' models in Algorithm 1 with exact solves and steps of MU."""
    matrices, vectors = forms
    inverses, duals = np.linalg.inv(matrices), np.zeros((CLIENTS, LENGTH))
    for cohort in drawn:
        models = np.einsum("mij,mj->mi", inverses[cohort], duals[cohort] + vectors[cohort])
        duals[cohort] -= MU * (models - models.mean(axis=0))
        yield models.mean(axis=0)


def gradients(forms, drawn):
    """Gradient descent with the gradients of the cohorts."""
    matrices, vectors = forms
    x = np.zeros(LENGTH)
    for cohort in drawn:
        x = x - 0.4 * np.mean(matrices[cohort] @ x - vectors[cohort], axis=0)
        yield x


@pytest.mark.parametrize("method", [feddcd, gradients])
def test_a_coordinate_is_found_only_by_the_holder_of_its_link(forms, method):
    for seed in range(5):
        drawn, nonzero = cohorts(40, seed), 0
        for cohort, x in zip(drawn, method(forms, drawn), strict=True):
            nonzero += nonzero % CLIENTS in cohort
            assert not np.any(x[nonzero:])
        assert nonzero > 3


@pytest.mark.longer
def test_a_run_of_the_engine_finds_no_more(chain):
    """With one coordinate at most an exchange, the last ones are still zero."""
    x = t.run(t.MbGd(t.Nice(SIZE), lr=0.4), chain, rounds=12, metrics=("distance",)).columns["distance"]
    assert np.all(x >= [np.sum(chain.minimiser()[k:] ** 2) * (1 - 1e-9) for k in range(13)])


@pytest.mark.parametrize("method", [feddcd, gradients])
def test_the_lower_bound_holds(chain, forms, method):
    """The mean of f(x_t) - f(x*) over 60 seeds is above the bound, less three standard errors."""
    matrices, best = forms[0].mean(axis=0), chain.minimiser()
    gaps = [[(x - best) @ matrices @ (x - best) / 2 for x in method(forms, cohorts(40, seed))] for seed in range(60)]
    bound = lower_bound(np.arange(1, 41), SIZE, CLIENTS, MU, best)
    mean, error = np.mean(gaps, axis=0), np.std(gaps, axis=0) / np.sqrt(60)
    assert np.all(mean + 3 * error >= bound)


@pytest.mark.longer
def test_the_bound_is_the_mean_over_the_links_that_cohorts_hold(chain):
    """Drawing cohorts gives the law of how many coordinates are found, and so the bound of the best method."""
    best, at = chain.minimiser(), 12
    missing = np.append(np.cumsum(best[::-1] ** 2)[::-1], 0)
    left = []
    for seed in range(4000):
        nonzero = 0
        for cohort in cohorts(at, seed):
            nonzero += nonzero % CLIENTS in cohort
        left.append(missing[nonzero])
    bound = lower_bound(np.array([0, at]), SIZE, CLIENTS, MU, best)
    assert bound[0] == pytest.approx(MU / 2 * best @ best)
    assert MU / 2 * np.mean(left) == pytest.approx(bound[1], abs=4 * MU / 2 * np.std(left) / np.sqrt(4000))


def test_a_long_chain_falls_by_the_rate_of_the_theorem():
    long = Chain.of(CLIENTS, 400, MU, SMOOTHNESS).minimiser()
    bound = lower_bound(np.arange(60), SIZE, CLIENTS, MU, long)
    rate = lower_rate(SIZE, CLIENTS, MU, SMOOTHNESS)
    np.testing.assert_allclose(bound[1:] / bound[:-1], rate, rtol=1e-9)


def test_wrong_chains_are_one_sentence():
    with pytest.raises(t.UserError, match="needs 0 < clients \\* mu < smoothness, but mu is 1"):
        Chain.of(5, 40, 1.0, 4.0)
    with pytest.raises(t.UserError, match="links for 2 to 4 clients, but there are 5"):
        Chain.of(5, 3, 0.1, 4.0)
    with pytest.raises(t.UserError, match="1 to 5 clients, but size is 6"):
        lower_rate(6, 5, 0.1, 4.0)
    with pytest.raises(t.UserError, match="Theorem 7.1 is about"):
        lower_rate(2, 5, 1.0, 4.0)


CONFIGURED = {
    "problem": {"kind": "chain", "clients": CLIENTS, "length": LENGTH, "mu": MU, "smoothness": SMOOTHNESS},
    "sampler": {"kind": "nice", "size": SIZE},
    "algorithm": {"kind": "feddcd", "solver": "newton-cg"},
    "run": {"rounds": 60, "metrics": ["gap", "distance"]},
}


def played(place, **tables) -> Result:
    """The run of the configured chain, with some tables replaced, as its folder holds it."""
    path = place / "made.toml"
    path.write_text(tomli_w.dumps({**CONFIGURED, **tables}))
    start(read(path), place / "out", None, lambda session: None, "turnout run")
    return Result.read(place / "out")


@pytest.mark.longer
def test_a_configured_chain_is_drawn_between_its_bounds(tmp_path, chain):
    result = played(tmp_path)
    lower = {"distance": 2 / MU, "gap": 1.0}
    drawn = {metric: points(result, metric, result.prices, log=True) for metric in lower}
    for metric, factor in lower.items():
        rows = [row for row in drawn[metric].rows if "lower" in row]
        expected = factor * lower_bound(np.array([row["round"] for row in rows]), SIZE, CLIENTS, MU, chain.minimiser())
        np.testing.assert_allclose([row["lower"] for row in rows], expected, rtol=1e-6)
        assert 1 < len(rows) < 61 and min(expected) >= min(result.trace[metric]) / 100
        assert any("Theorem 7.1" in note for note in drawn[metric].notes)
    rows = drawn["distance"].rows
    assert all(row.get("lower", 0) <= row["bound"] and row["metric"] <= row["bound"] for row in rows)
    np.testing.assert_allclose(result.trace["distance"][0], np.sum(chain.minimiser() ** 2), rtol=1e-9)


@pytest.mark.slow
def test_links_are_dealt_out_and_a_configuration_reads_back(tmp_path):
    played(tmp_path, run={"rounds": 1})
    split = stored_split(tmp_path / "out")
    for i in range(CLIENTS):
        links = split["indices"][split["offsets"][i] : split["offsets"][i + 1]]
        assert links.tolist() == list(range(i, LENGTH + 1, CLIENTS))
    again = read(tmp_path / "out" / "config.toml")
    assert again.split is None and again.to_toml() == (tmp_path / "out" / "config.toml").read_text()


@pytest.mark.tiers(quick=["mbgd-"])
@pytest.mark.parametrize(
    ("algorithm", "exchanges"),
    [
        ({"kind": "mbgd", "lr": 0.4}, 1),
        ({"kind": "accfeddcd", "solver": "newton-cg"}, 2),
        ({"kind": "sppm", "gamma": 1.0, "solver": "bfgs"}, None),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else "",
)
def test_the_bound_counts_fresh_cohorts(tmp_path, chain, algorithm, exchanges):
    """Several exchanges with one cohort may find several coordinates, of which the theorem knows nothing."""
    result = played(tmp_path, algorithm=algorithm, run={"rounds": 2, "metrics": ["distance"]})
    if exchanges is None:
        assert result.lower is None
    else:
        expected = lower_distance(np.arange(3) * exchanges, SIZE, CLIENTS, chain.minimiser())
        np.testing.assert_allclose(result.lower.at(np.arange(3)), expected)


def test_what_has_no_rows_has_no_split():
    for tables, words in (
        ({**CONFIGURED, "split": {"kind": "iid", "clients": 5}}, "split: problem kind 'chain' has no rows to split: leave"),
        ({**CONFIGURED, "problem": {"kind": "ridge", "data": "a9a"}}, r"table \[split\] is missing"),
    ):
        with pytest.raises(t.UserError, match=words):
            Reader("made.toml", tomli_w.dumps(tables), tables).experiment("made")
