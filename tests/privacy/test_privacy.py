"""Clipping, noise and what is told of epsilon."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import turnout as t
from tests.helpers.commands import config, turnout
from tests.helpers.cost_estimates import LOCAL
from tests.helpers.examples import logistic
from tests.helpers.federations import SHARES, four
from tests.helpers.gradients import client_gradient
from tests.problems.test_oracles import numpy_client, owned
from turnout.core.seeds import Seeds
from turnout.experiment.privacy_accounting import REPLACED, ZERO, privacy_spent
from turnout.privacy.accounting import Release, epsilon_of
from turnout.runs.session import Session
from turnout.runs.sweep import Cell

MANY = 40_000
NEAR = 5 * np.sqrt(2 / MANY)
"""Five relative standard deviations of a variance estimated from so many numbers."""

pytest.importorskip("dp_accounting", reason="dp-accounting is not installed: pip install 'turnout[privacy]'")


def privacy(**options) -> t.Privacy:
    return t.Privacy(**{"clip": 0.5, "noise_multiplier": 2.0, "delta": 1e-5, "seed": 7, **options})


def equal(n: int = 6) -> t.Problem:
    """Clients of equal weight."""
    return t.Quadratic.random(n, 3, seed=5)


def play(algorithm, problem, rounds, **options) -> Session:
    return Session(algorithm, problem, seeds=Seeds.of(1), rounds=rounds, **options).run()


@t.record
class Silent(t.Algorithm):
    """Clients reply with zeros, and the server keeps what it gets as `sum` of them."""

    sampler: t.Sampler
    sum: str = t.static(default="total")

    def start(self, ask, x):
        return x, jnp.zeros(MANY), jnp.zeros(MANY)

    def output(self, server):
        return server[0]

    def round(self, ask, server):
        replies = ask(self.sampler, self.nothing, server[1])
        return server[0], getattr(replies, self.sum)(), getattr(replies, self.sum)()

    @t.on_client
    def nothing(self, client, x):
        return t.Done(0 * x)


@pytest.mark.tiers(quick=[], longer=["nodes"])
@pytest.mark.parametrize("engine", ["compiled", "nodes"])
def test_each_reply_is_clipped_to_the_norm(engine):
    """One round of gradient descent, where some gradients are longer than the bound and some are not."""
    slopes = np.stack([client_gradient(four(), i, np.zeros(3)) for i in range(4)])
    norms = np.linalg.norm(slopes, axis=1)
    clip = np.median(norms)
    bounded = slopes * np.minimum(1, clip / norms)[:, None]
    for model in ("central", "local"):
        almost_none = privacy(clip=clip, noise_multiplier=1e-14, model=model)
        session = play(t.MbGd(t.Full(), lr=0.1), four(), 1, engine=engine, privacy=almost_none)
        np.testing.assert_allclose(session.trace.x, -0.1 * SHARES @ bounded, rtol=1e-10)


WEIGHTS = {"total": SHARES, "mean": SHARES, "average": SHARES}


@pytest.mark.tiers(quick=[], slow=["mean"])
@pytest.mark.parametrize("sum", WEIGHTS)
def test_the_noise_has_the_deviation_that_it_should_have(sum):
    """Centrally z clip max_i w_i, of all clients; locally z clip at each client, which adds up in squares."""
    for model, size in (("central", np.max(WEIGHTS[sum])), ("local", np.linalg.norm(WEIGHTS[sum]))):
        _, noise, again = play(Silent(t.Full(), sum), four(), 1, privacy=privacy(model=model)).progress.server
        np.testing.assert_array_equal(noise, again)
        assert np.var(noise) == pytest.approx((2.0 * 0.5 * size) ** 2, rel=NEAR)
        assert abs(np.mean(noise)) < 5 * np.std(noise) / np.sqrt(MANY)


@pytest.mark.slow
def test_noise_of_a_drawn_cohort_is_scaled_to_the_largest_weight_of_all():
    """lambda_i / p_i with unequal p_i, whoever was drawn, and if nobody was."""
    p = np.array([0.9, 0.5, 0.01, 0.4])
    sampler = t.Independent(probability=p.tolist())
    _, noise, _ = play(Silent(sampler, "average"), four(), 1, privacy=privacy()).progress.server
    assert np.std(noise) == pytest.approx(2.0 * 0.5 * np.max(SHARES / p), rel=NEAR)
    nobody = t.Independent(probability=1e-12, capacity=2)
    _, noise, _ = play(Silent(nobody, "total"), four(), 1, privacy=privacy()).progress.server
    assert np.std(noise) == pytest.approx(2.0 * 0.5 * 0.4, rel=NEAR)


@pytest.mark.tiers(everything=["central"])
@pytest.mark.parametrize("model", ["central", "local"])
def test_noise_is_new_in_each_exchange(model):
    sums = [play(Silent(t.Full()), four(), rounds, privacy=privacy(model=model)).progress.server[1] for rounds in (1, 2)]
    assert abs(np.corrcoef(*sums)[0, 1]) < 5 / np.sqrt(MANY)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["central", "local"])
def test_engines_play_the_same_private_run(model):
    algorithm = t.Scaffold(t.Nice(3), lr=0.05, steps=2)
    plain, nodes = (play(algorithm, equal(), 3, engine=engine, privacy=privacy(model=model)) for engine in ("compiled", "nodes"))
    summed = play(algorithm, equal(), 3, engine="nodes", aggregation="sum", privacy=privacy(model=model))
    np.testing.assert_allclose(plain.trace.x, nodes.trace.x, rtol=1e-10)
    np.testing.assert_allclose(plain.trace.x, summed.trace.x, rtol=1e-10)
    other = play(algorithm, equal(), 3, privacy=privacy(model=model, seed=None))
    assert not np.allclose(plain.trace.x, other.trace.x)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["central", "local"])
def test_clients_of_their_own_protect_their_replies_too(model):
    """Clients in NumPy, with all replies and with their sums, play the compiled run."""
    problem, algorithm = logistic(), t.Scaffold(t.Independent(size=3.0), lr=0.05, steps=2)
    other = owned(numpy_client, problem, problem.start(jax.random.key(0)))
    compiled = play(algorithm, problem, 2, privacy=privacy(clip=0.02, model=model))
    for aggregation in ("plain", "sum"):
        nodes = play(algorithm, other, 2, engine="nodes", aggregation=aggregation, privacy=privacy(clip=0.02, model=model))
        np.testing.assert_allclose(compiled.trace.x, nodes.trace.x, rtol=1e-10, atol=1e-12)


@pytest.mark.slow
def test_what_would_not_be_private_is_refused():
    algorithm = t.FedDcd(t.Nice(3), LOCAL, convexity=0.1)
    with pytest.raises(t.UserError, match="'solve' .random. the server looks at each reply; .* model = 'local'"):
        play(algorithm, equal(), 1, privacy=privacy())
    assert np.all(np.isfinite(play(algorithm, equal(), 2, privacy=privacy(model="local")).trace.x))
    with pytest.raises(t.UserError, match="metric 'variance' needs each"):
        play(t.FedAvg(t.Nice(3), lr=0.1), equal(), 1, privacy=privacy(), metrics=("variance",))
    with pytest.raises(t.UserError, match="does not go with a sweep"):
        play(t.FedAvg(t.Nice(3), lr=0.1), equal(), 1, privacy=privacy(), cells=[Cell({}, 0)])
    free = t.Independent(size=2.0, probability=t.Optimal(free=True))
    with pytest.raises(t.UserError, match="asks them for free"):
        play(t.MbGd(free, lr=0.1), equal(), 1, privacy=privacy(model="local"))


SKIPPED = {"faults": t.Faults(loss=0.3, missing="skip")}
SPENT = {
    "everyone": (t.MbGd(t.Full(), lr=0.01), {}, {}, {Release(2.0): 5}, ZERO),
    "coins": (t.MbGd(t.Independent(size=2.0), lr=0.01), {}, {}, {Release(2.0, 2 / 6): 5}, ZERO),
    "coins and lost replies": (t.MbGd(t.Independent(size=2.0), lr=0.01), {}, SKIPPED, {Release(2.0, 2 / 6): 5}, ZERO),
    "unequal coins": (
        t.MbGd(t.Independent(probability=[0.1, 0.2, 0.3, 0.4, 0.1, 0.2]), lr=0.01),
        {},
        {},
        {Release(2.0, 0.4): 5},
        ZERO,
    ),
    "a random denominator": (t.FedAvg(t.Independent(size=4.0), lr=0.01), {}, {}, {Release(2.0): 5}, ZERO),
    "a fixed size": (t.FedAvg(t.Nice(2), lr=0.01), {}, {}, {Release(1.0, (6, 2)): 5}, REPLACED),
    "a fixed size, repeated": (
        t.FedAvg(t.Nice(2), lr=0.01),
        {},
        {"faults": t.Faults(loss=0.3, missing="repeat")},
        {Release(1.0, (6, 2)): 5},
        REPLACED,
    ),
    "a fixed size, lost replies in the denominator": (t.FedAvg(t.Nice(2), lr=0.01), {}, SKIPPED, {Release(2.0): 5}, ZERO),
    "a fixed size, lost replies are zeros": (t.MbGd(t.Nice(2), lr=0.01), {}, SKIPPED, {Release(1.0, (6, 2)): 5}, REPLACED),
    "the cohort is looked at": (t.PointSaga(t.Nice(2), LOCAL, gamma=0.1), {}, {}, {Release(2.0): 5}, ZERO),
    "a cohort asked again": (
        t.Sppm(t.Nice(2), t.solvers.GradientDescent(smoothness=20.0, convexity=0.0), gamma=0.1, inner=2),
        {},
        {},
        {Release(2.0): 10},
        ZERO,
    ),
    "another design": (t.MbGd(t.Stratified(strata=[0, 0, 0, 1, 1, 1]), lr=0.01), {}, {}, {Release(2.0): 5}, ZERO),
    "local": (t.FedAvg(t.Nice(2), lr=0.01), {"model": "local"}, {}, {Release(1.0): 5}, REPLACED),
}


@pytest.mark.tiers(
    quick=[],
    longer=["everyone"],
    slow=["coins and lost replies", "unequal coins", "a random denominator", "a fixed size, lost replies are zeros"],
)
@pytest.mark.parametrize("name", SPENT)
def test_what_is_spent_is_what_was_released(name):
    algorithm, options, faults, releases, neighbours = SPENT[name]
    session = play(algorithm, equal(), 5, privacy=privacy(**options), **faults)
    facts, total = privacy_spent(privacy(**options), session), session.trace.ledger.totals()["exchanges"]
    releases = {release: total if count == 5 and release.sampled is None else count for release, count in releases.items()}
    assert facts["epsilon"] == epsilon_of(releases, 1e-5)
    assert facts["amplified"] == sum(count for release, count in releases.items() if release.sampled is not None)
    assert (facts["neighbours"], facts["releases"]) == (neighbours, sum(releases.values()))
    known = Release(next(iter(releases)).multiplier)
    assert facts["epsilon_with_known_cohorts"] == epsilon_of({known: facts["releases"]}, 1e-5)


def test_a_refusal_for_its_norm_would_tell_of_the_data():
    with pytest.raises(t.UserError, match="norm = 0.1 is below .privacy. clip = 0.5, so that refusals would tell"):
        play(t.FedAvg(t.Nice(3), lr=0.1), equal(), 1, privacy=privacy(), faults=t.Faults(missing="skip", norm=0.1))


@pytest.mark.slow
def test_cohorts_are_secret_where_the_noise_is():
    """Without a seed of the noise, the seeds of the run do not tell who is asked; a run that goes on has the same cohorts."""

    def session(**options) -> Session:
        algorithm = t.MbGd(t.Independent(size=10.0), lr=0.01)
        return Session(algorithm, equal(20), seeds=Seeds.of(1), rounds=12, privacy=privacy(**options))

    def asked(session: Session) -> list[int]:
        return session.run().trace.frame["contacts"].to_list()

    known, again = asked(session()), asked(session())
    assert known == again == asked(session(seed=None, model="local"))
    hidden = session(seed=None)
    facts = privacy_spent(privacy(seed=None), hidden)
    assert facts["secret_cohorts"] and not privacy_spent(privacy(), session())["secret_cohorts"]
    resumed = session(seed=None)
    resumed.restore(hidden.snapshot())
    assert known != asked(hidden) == asked(resumed)


@pytest.mark.slow
def test_metrics_that_clients_reply_with_are_protected_and_counted_too():
    """One evaluation before and after each of three rounds; the noise hides a value of a few units."""
    problem = logistic()
    remote = owned(numpy_client, problem, problem.start(jax.random.key(0)))
    local = privacy(model="local", clip=1.0, noise_multiplier=1e3)
    session = play(t.MbGd(t.Full(), lr=1e-9), remote, 3, engine="nodes", privacy=local, metrics=("value",))
    exact = play(t.MbGd(t.Full(), lr=1e-9), remote, 3, engine="nodes", metrics=("value",)).trace.columns["value"]
    facts, told = privacy_spent(local, session), session.trace.columns["value"]
    assert facts["releases"] == 3 + 4 and facts["epsilon"] == epsilon_of({Release(500.0): 7}, 1e-5)
    assert np.std(told) > 50 and len({*told}) == 4 and np.std(exact) < 1


@pytest.mark.longer
def test_unequal_weights_make_a_fixed_size_earn_nothing():
    facts = privacy_spent(privacy(), play(t.FedAvg(t.Nice(2), lr=0.01), four(), 3, privacy=privacy()))
    assert facts["amplified"] == 0 and facts["epsilon"] == epsilon_of({Release(2.0): 3}, 1e-5)


@pytest.mark.slow
def test_a_configured_run_tells_what_it_spent(tmp_path):
    table = {"clip": 0.5, "noise_multiplier": 2.0, "delta": 1e-5}
    split = {"kind": "iid", "clients": 12}
    code, _, errors = turnout("run", config(tmp_path, split=split, privacy=table), "--out", tmp_path / "out")
    assert (code, errors) == (0, "")
    facts = json.loads((tmp_path / "out" / "summary.json").read_text())["privacy"]
    assert facts["epsilon"] == epsilon_of({Release(1.0, (12, 4)): 6}, 1e-5) and facts["delta"] == 1e-5
    assert "epsilon" in (tmp_path / "out" / "report.html").read_text()
