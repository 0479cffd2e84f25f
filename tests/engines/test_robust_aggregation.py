"""Robust means in the place of sums of replies, in every engine, and bounds of the norms of replies."""

import json
from functools import partial

import jax
import numpy as np
import pytest

import turnout as t
from tests.core.test_robust_means import median, trimmed
from tests.helpers.commands import config, turnout
from tests.helpers.examples import SOLVERS, sppm
from tests.helpers.federations import ENGINES, SHARES, four, play
from turnout.core.replies import Replies
from turnout.engines.exchange.robust import robust
from turnout.experiment.config import Reader, read

MEANS = [t.CoordinateMedian(), t.TrimmedMean(0.25), t.GeometricMedian(), t.CentredClipping(0.5), t.Krum(0)]
every_mean = pytest.mark.parametrize("mean", MEANS, ids=lambda mean: type(mean).__name__)
ALGORITHMS = {
    "fedavg": t.FedAvg(t.Nice(3), lr=0.1, steps=2),
    "scaffold": t.Scaffold(t.Nice(3), lr=0.1, steps=2),
    "mbgd": t.MbGd(t.Independent(size=3.0, capacity=4), lr=0.1),
    "sppm": sppm(SOLVERS["gd"], t.Nice(3)),
}


def gradients(problem) -> np.ndarray:
    """The clients' gradients at zero."""
    clients = [problem.client(i) for i in range(problem.clients)]
    return np.stack([jax.grad(lambda x, own=own: own.losses(x, own.rows).mean())(np.zeros(3)) for own in clients])


@pytest.mark.tiers(quick=[], slow=["mean0-scaffold", "mean3-scaffold", "mean5-mbgd"])
@pytest.mark.parametrize(
    ("mean", "name"),
    [
        *((mean, "scaffold") for mean in MEANS),
        *((MEANS[1], name) for name in ("mbgd", "sppm")),
        *(pytest.param(MEANS[1], name, marks=pytest.mark.slow) for name in ("fedavg", "scaffold")),
    ],
)
def test_the_engines_agree(mean, name):
    run = partial(play, ALGORITHMS[name], four(), 4, aggregation=mean)
    compiled, nodes = (run(engine=engine).trace for engine in ("compiled", "nodes"))
    np.testing.assert_allclose(nodes.x, compiled.x, rtol=1e-9, atol=1e-12)
    assert nodes.ledger.totals() == compiled.ledger.totals()


@pytest.mark.tiers(quick=[], slow=["sppm"])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_trimmed_mean_that_cuts_nothing_is_the_mean(name):
    plain, cut = (play(ALGORITHMS[name], four(), 4, aggregation=how).trace for how in ("plain", t.TrimmedMean(0.0)))
    np.testing.assert_allclose(cut.x, plain.x, rtol=1e-9, atol=1e-12)
    assert cut.ledger.totals() == plain.ledger.totals()


def replies_of(sampler, seed=0):
    problem = four()
    sampler = sampler.fit(problem)
    cohort = sampler.draw(sampler.start(problem.population), jax.random.key(seed), problem.population)
    values = np.random.default_rng(1).normal(size=(cohort.places, 3))
    return Replies(jax.numpy.asarray(values), cohort, cohort.active & (cohort.ids != 2))


@pytest.mark.tiers(quick=[], longer=["sampler1"])
@pytest.mark.parametrize("sampler", [t.Full(), t.Nice(3), t.Independent(probability=[0.9, 0.5, 0.25, 1.0], capacity=4)])
def test_sums_are_their_weight_times_the_robust_mean_with_these_weights(sampler):
    """lambda_i for `total` and `mean`, lambda_i / p_i for `average`; clients that did not answer have none."""
    replies = replies_of(sampler)
    cohort, there = replies.cohort, np.asarray(replies.answered)
    values, ids, p = (np.asarray(part)[there] for part in (replies.held, cohort.ids, cohort.probability))
    centres = {t.CoordinateMedian(): median, t.TrimmedMean(0.3): lambda r, w: trimmed(r, w, 0.3)}
    for mean, centre in centres.items():
        found = robust(replies, mean)
        share, weight = SHARES[ids], SHARES[ids] / p
        np.testing.assert_allclose(found.mean(), centre(values, share / share.sum()), atol=1e-4)
        np.testing.assert_allclose(found.total(), share.sum() * centre(values, share / share.sum()), atol=1e-4)
        np.testing.assert_allclose(found.average(), weight.sum() * centre(values, weight / weight.sum()), atol=1e-4)


@pytest.mark.tiers(quick=["CentredClipping"], longer=["CoordinateMedian", "TrimmedMean", "GeometricMedian"])
@every_mean
def test_no_replies_are_no_step(mean):
    replies = replies_of(t.Nice(3))
    nobody = robust(Replies(replies.held, replies.cohort, replies.answered & False), mean)
    assert not np.any(nobody.mean()) and not np.any(nobody.average())


REFUSED = {
    "single replies": t.FedDcd(t.Nice(3), t.client_solvers.Gradient(steps=3)),
    "a learning sampler": t.MbLocalGd(t.Independent(size=2.0, probability=t.KVib(rounds=2)), lr=0.1),
    "one client": t.MbGd(t.Nice(1), lr=0.1),
}


@pytest.mark.parametrize("name", REFUSED)
@ENGINES
def test_an_algorithm_that_does_more_than_average_is_refused(name, engine):
    with pytest.raises(t.UserError, match="does more than average replies: of its call .* or aggregation = 'plain'"):
        t.run(REFUSED[name], four(), rounds=2, engine=engine, aggregation=t.CoordinateMedian())


def test_what_a_robust_mean_does_not_go_with():
    privacy, algorithm = t.Privacy(clip=1.0, noise_multiplier=1.0, delta=1e-5, seed=0), ALGORITHMS["fedavg"]
    with pytest.raises(t.UserError, match="adds noise to sums, but a robust mean is none: take model = 'local'"):
        t.run(algorithm, four(), rounds=1, aggregation=t.CoordinateMedian(), privacy=privacy)
    with pytest.raises(t.UserError, match="needs each client's reply, which aggregation and"):
        t.run(algorithm, four(), rounds=1, aggregation=t.CoordinateMedian(), metrics=("variance",))


NAMED = {
    '"median"': t.CoordinateMedian(),
    '{ kind = "trimmed-mean", share = 0.2 }': t.TrimmedMean(0.2),
    '"geometric-median"': t.GeometricMedian(),
    '{ kind = "centred-clipping", radius = 2.0 }': t.CentredClipping(2.0),
    '{ kind = "krum", byzantine = 1 }': t.Krum(1),
    '"plain"': "plain",
    '"sum"': "sum",
}


@pytest.mark.parametrize("text", NAMED)
def test_a_configuration_names_a_robust_mean(text, tmp_path):
    tables = '[problem]\nkind = "log-sum"\n[sampler]\nkind = "full"\n[algorithm]\nkind = "gd"\nlr = 0.1\n'
    lines = f"{tables}[run]\naggregation = {text}\n"
    for content in (lines, ""):
        (tmp_path / "file.toml").write_text(content or experiment.to_toml())
        experiment = read(tmp_path / "file.toml")
        assert experiment.run.aggregation == NAMED[text]


@pytest.mark.parametrize("given", ["mean", {"kind": "mean"}, {"kind": "trimmed-mean", "share": 0.5}, {"kind": "trimmed-mean"}, 3])
def test_a_wrong_robust_mean_is_an_error_that_names_the_key(given):
    tables = {"problem": {"kind": "log-sum"}, "sampler": {"kind": "full"}, "algorithm": {"kind": "gd", "lr": 0.1}}
    with pytest.raises(t.UserError, match="run.aggregation"):
        Reader("file.toml", "", tables | {"run": {"aggregation": given}}).experiment("file")


@pytest.mark.slow
def test_the_command_runs_it_and_the_summary_says_so(tmp_path):
    run = {"rounds": 2, "aggregation": {"kind": "trimmed-mean", "share": 0.2}}
    code, _, errors = turnout("run", config(tmp_path, run=run), "--out", tmp_path / "out")
    assert (code, errors) == (0, "")
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["aggregation"] == run["aggregation"]


@pytest.mark.tiers(quick=[], longer=["compiled"])
@ENGINES
def test_replies_above_the_norm_are_refused(engine):
    """Gradient descent from zero with the gradients of the clients whose norm is accepted."""
    problem, found = four(), gradients(four())
    lengths = np.linalg.norm(found, axis=1)
    bound, short = np.sort(lengths)[1:3].mean(), lengths <= np.sort(lengths)[1:3].mean()
    algorithm, faults = t.MbGd(t.Full(), lr=1.0), t.Faults(norm=bound, missing="skip")
    start = np.zeros(3)
    trace = t.run(algorithm, problem, rounds=1, engine=engine, faults=faults, start=start)
    np.testing.assert_allclose(trace.x, -(SHARES * short) @ found, rtol=1e-9)
    events = trace.ledger.totals()
    assert (events["arrivals"], events["queries_total"]) == (2, 4)
    with pytest.raises(t.UserError, match=r"2 replies were lost by round 1, or longer than \[faults\] norm"):
        t.run(algorithm, problem, rounds=1, engine=engine, faults=t.Faults(norm=bound), start=start)


@pytest.mark.tiers(quick=[], longer=["compiled"])
@ENGINES
def test_replies_above_the_norm_are_clipped(engine):
    found, bound = gradients(four()), 0.7
    clipped = found * np.minimum(1, bound / np.linalg.norm(found, axis=1))[:, None]
    trace = t.run(t.MbGd(t.Full(), lr=1.0), four(), rounds=1, engine=engine, faults=t.Faults(clip=bound), start=np.zeros(3))
    np.testing.assert_allclose(trace.x, -SHARES @ clipped, rtol=1e-9)


def test_a_reply_above_the_norm_is_not_asked_for_again():
    with pytest.raises(t.UserError, match="a reply above the norm stays so"):
        t.Faults(norm=1.0, missing="repeat")


def test_a_norm_that_the_server_does_not_see_is_not_bounded():
    with pytest.raises(t.UserError, match="bound each reply, which aggregation = 'sum' hides"):
        play(ALGORITHMS["fedavg"], four(), 1, engine="nodes", aggregation="sum", faults=t.Faults(clip=1.0))


@pytest.mark.longer
def test_a_bound_that_no_reply_reaches_changes_nothing():
    plain, bounded = (play(ALGORITHMS["scaffold"], four(), 4, faults=faults).trace for faults in (None, t.Faults(norm=1e9)))
    np.testing.assert_array_equal(bounded.x, plain.x)
    assert bounded.ledger.totals() == plain.ledger.totals()
