"""Which calls want only a sum of replies, and runs whose server gets nothing but sums."""

import json
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import turnout as t
from tests.engines.test_cost_estimate import CASES
from tests.helpers.commands import config, turnout
from tests.helpers.cost_estimates import LOCAL, PAIR, foretell, icgm, quadratic
from tests.helpers.examples import SOLVERS, logistic, sppm
from tests.helpers.federations import four
from turnout.engines.messaging import SummedReplies
from turnout.engines.node import Node
from turnout.engines.reply_usage import survey, why_not_one_sum
from turnout.io.serialization import decode
from turnout.runs.setup import bind, prepare

SUMS = {"fedavg", "fedavg-sppm", "feddyn", "fedprox", "fedprox-sppm", "gd"}
SUMS |= {"fedlamb", "fedopt", "fedspeed", "mime", "mimelite"}
SUMS |= {"mbgd", "mimemvr", "point-saga", "saber-partial", "scaffold", "scaffold-sag"}
SUMS |= {"fedprox-own-steps", "mbgd-available", "mblocalgd", "sppm", "sppm-scaffnew"}
SUMS |= {"acc-s-dane", "catalyzed-svrp", "diloco", "fedac", "fedcm", "fedexp", "fedexprox", "fedlin", "fedsam", "s-dane", "svrp"}
SUMS |= {"adacomm", "amplified-fedavg", "amplified-scaffold", "easgd", "fedgloss", "fedmuon", "fedsophia", "streaming-diloco"}
SUMS |= {"aide", "apfl", "dane", "ditto", "fedpage", "flix", "gradskip-plus", "pfedme", "q-fedavg"}
"""Those of `CASES` whose server takes one sum of the replies to each call; in "mblocalgd-k-vib" a sampler learns, and in
"sppm-sketch" the solver looks at each client's curvature."""

OTHERS = {f"sppm-{name}": lambda solver=SOLVERS[name]: sppm(solver, PAIR) for name in ("bfgs", "newton", "localgd")}


def uses_of(algorithm) -> dict[str, frozenset[str]]:
    job = prepare(quadratic(), t.Seeds.of(0), None, None)
    return dict(survey(job, bind(algorithm, quadratic())).used)


def suffices(algorithm) -> bool:
    return all(why_not_one_sum(uses) is None for uses in uses_of(algorithm).values())


@pytest.mark.slow
def test_known_answers():
    found = {name: suffices(make()) for name, make in CASES.items()}
    assert {name for name, only in found.items() if only} == SUMS
    assert all(suffices(make()) for make in OTHERS.values())


@pytest.mark.tiers(everything=["icgm"])
@pytest.mark.parametrize("name", ["fedavg", "icgm", "mblocalgd-k-vib"])
def test_the_plan_says_the_same(name):
    plan, uses = foretell(CASES[name](), rounds=1), uses_of(CASES[name]())
    assert {call.site.path: {*call.uses} for call in plan.calls if call.uses} == {path: u for path, u in uses.items() if u}
    assert plan.sums_only == (name in SUMS)


def reads(algorithm) -> set[str]:
    """What is made of the replies to all calls."""
    return set().union(*uses_of(algorithm).values())


@pytest.mark.longer
def test_what_is_made_of_replies():
    assert reads(t.FedAvg(PAIR, lr=0.1)) == {"share", "mean"}
    assert reads(t.MbGd(PAIR, lr=0.1)) == {"weight"}
    assert reads(t.FedVarp(PAIR, lr=0.1, memory="clients")) == {"share", "weight"}
    assert "each" in reads(t.FedDcd(PAIR, LOCAL, convexity=0.1)) and "each" in reads(t.FedVarp(PAIR, lr=0.1))
    assert {"share", "alone"} <= reads(icgm(t.Exact())) & reads(icgm(t.Exact(), delegate=t.Nice(1)))
    assert reads(t.FedAvg(t.Nice(1), lr=0.1)) == {"alone", "share", "mean"}


def test_a_sampler_that_is_told_of_each_reply_needs_more_than_sums():
    for probability in (t.KVib(), t.Optimal(), t.Optimal(free=True)):
        assert not suffices(t.MbGd(t.Independent(size=2.0, probability=probability), lr=0.1))
    for sampler in (t.PowerOfChoice(2, 3), t.Afl(2)):
        assert not suffices(t.FedAvg(sampler, lr=0.1))


@pytest.mark.tiers(
    quick=[],
    longer=["accfeddcd", "fedavg", "feddcd", "fedred", "icgm", "locodl", "mimelite", "scaffold", "tamuna", "mbgd-available"],
    slow=["diloco", "mimemvr", "point-saga", "saber-partial", "svrp", "sppm-bfgs", "sppm-newton"],
)
@pytest.mark.parametrize("name", [*CASES, *OTHERS])
def test_a_server_that_gets_only_sums_plays_the_same_run_or_refuses(name):
    algorithm, problem = {**CASES, **OTHERS}[name](), quadratic()
    if not suffices(algorithm):
        with pytest.raises(t.UserError, match="needs more than sums of replies: of its call .* or aggregation = 'plain'"):
            t.run(algorithm, problem, rounds=2, engine="nodes", aggregation="sum")
        return
    options = {"rounds": 3, "seed": 4, "engine": "nodes"}
    plain, summed = (t.run(algorithm, problem, aggregation=how, **options) for how in ("plain", "sum"))
    for one, other in zip(jax.tree.leaves(plain.x), jax.tree.leaves(summed.x), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)
    np.testing.assert_array_equal(plain.columns["counts"], summed.columns["counts"])
    assert plain.sites == summed.sites


UNEQUAL = {"scaffold": lambda s: t.Scaffold(s, lr=0.05, steps=2), "mblocalgd": lambda s: t.MbLocalGd(s, lr=0.05)}


@pytest.mark.tiers(quick=[], slow=["scaffold-skip"])
@pytest.mark.parametrize(("name", "missing"), [*product(UNEQUAL, ["skip", "repeat"])])
def test_lost_replies_and_clients_of_unequal_weight(name, missing):
    algorithm, faults = UNEQUAL[name](t.Independent(size=4.0, probability=t.BySize())), t.Faults(0.3, missing)
    options = {"rounds": 4, "seed": 2, "faults": faults, "engine": "nodes"}
    plain, summed = (t.run(algorithm, logistic(), aggregation=how, **options) for how in ("plain", "sum"))
    np.testing.assert_allclose(plain.x, summed.x, rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(plain.columns["counts"], summed.columns["counts"])


@t.record
class Curious(t.Algorithm):
    """Looks at single replies only where its trace did not show it."""

    sampler: t.Sampler
    look: str = t.static()

    def round(self, ask, x):
        replies = ask(self.sampler, self.echo, x)
        if isinstance(replies, SummedReplies):
            looks = {
                "values": lambda: replies.values,
                "each": lambda: replies.each(jnp.sum),
                "map": lambda: replies.map(lambda _, r: r),
                "other": replies.average,
            }
            looks[self.look]()
        return x + replies.mean()

    @t.on_client
    def echo(self, client, x):
        return t.Done(0 * x)


LOOKS = [("values", "only sums"), ("each", "only sums"), ("map", "only sums"), ("other", "none by weight")]


@pytest.mark.tiers(longer=["values-only sums"])
@pytest.mark.parametrize(("look", "words"), LOOKS)
def test_a_server_of_sums_cannot_look_at_single_replies(look, words):
    with pytest.raises(t.UserError, match=words):
        t.run(Curious(PAIR, look), quadratic(), rounds=1, engine="nodes", aggregation="sum")


@pytest.mark.longer
def test_what_a_client_sends_is_weighed_already(monkeypatch):
    sent, answer = [], Node.answer

    def listen(self, header, *body):
        reply = answer(self, header, *body)
        sent.append((self.number, json.loads(header), decode(reply, self.start)[0]))
        return reply

    monkeypatch.setattr(Node, "answer", listen)
    algorithm, options = t.MbGd(t.Full(), lr=0.1), {"rounds": 1, "engine": "nodes"}
    t.run(algorithm, four(), **options)
    plain = {number: reply for number, _, reply in sent}
    sent.clear()
    t.run(algorithm, four(), aggregation="sum", **options)
    for number, asked, reply in sent:
        assert asked["weight"] == pytest.approx(four().population.shares[number])
        np.testing.assert_allclose(reply, asked["weight"] * plain[number], rtol=1e-12)


@pytest.mark.longer
def test_refusals_say_what_to_do(tmp_path):
    with pytest.raises(t.UserError, match="compiled engine sends nothing: set engine = 'nodes'"):
        t.run(t.FedAvg(PAIR, lr=0.1), quadratic(), rounds=1, aggregation="sum")
    with pytest.raises(t.UserError, match="metric 'variance' needs each"):
        t.run(t.FedAvg(PAIR, lr=0.1), quadratic(), rounds=1, engine="nodes", aggregation="sum", metrics=("variance",))
    split = {"kind": "iid", "clients": 12}
    run = {"rounds": 2, "engine": "nodes", "aggregation": "sum"}
    code, _, errors = turnout("run", config(tmp_path, split=split, run=run), "--out", tmp_path / "out")
    assert (code, errors) == (0, "") and '"aggregation": "sum"' in (tmp_path / "out" / "summary.json").read_text()
