"""What is foretold of a run is what its ledger counts."""

import math
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from commands import config, turnout
from jax import lax
from test_report import halving

import turnout as t
from turnout.engines.compiled import CompiledAsk, discover
from turnout.engines.dataflow import evaluate, known, veiled
from turnout.engines.plan import LONGEST, PLAYED, SEEDS, Count, Plan
from turnout.engines.progress import begin, play_round
from turnout.engines.rehearsal import CHEAP
from turnout.engines.tally import to_ledger
from turnout.experiment.description import foretold
from turnout.experiment.registry import TABLES
from turnout.ledger import Ledger
from turnout.report.page import write_report
from turnout.report.plan import PLAN, Described, calls, markdown, side_by_side, worded
from turnout.samplers.gradients import GradientStratified
from turnout.seeds import Seeds
from turnout.session import bind, prepare

ROUNDS = 120
PRICES = (t.Rounds(), t.Hierarchical(), t.Selection(5.0, 2.0), t.Bytes(), t.Seconds(query=0.1))
PAIR, LOCAL = t.Nice(2), t.own.Gradient(lr=0.02, steps=2, tolerance=0.0)
KINDS, SOLVERS, ESTIMATORS = (TABLES[table] for table in ("algorithm", "solver", "estimator"))


@cache
def quadratic() -> t.Problem:
    """Five clients, two unknowns."""
    return t.Quadratic.random(5, 2, seed=1)


def icgm(estimator, **options) -> t.Algorithm:
    return KINDS["icgm"](PAIR, estimator, lam=20.0, probability=0.4, **options)


def sppm(solver, **options) -> t.Algorithm:
    return t.Sppm(PAIR, solver, **{"gamma": 0.1, "inner": 3, **options})


EACH_KIND = {
    "accfeddcd": lambda: t.AccFedDcd(PAIR, LOCAL, convexity=0.1, smoothness=10.0),
    "ce-lgd": lambda: KINDS["ce-lgd"](PAIR, lr=0.01, steps=2),
    "fedavg": lambda: t.FedAvg(PAIR, lr=0.01, steps=3),
    "fedavg-sppm": lambda: t.FedAvgSppm(PAIR, gamma=0.1, alpha=0.5, inner=2, solver=LOCAL),
    "feddcd": lambda: t.FedDcd(PAIR, LOCAL, convexity=0.1, delivery="eager"),
    "feddyn": lambda: KINDS["feddyn"](PAIR, LOCAL, gamma=0.1),
    "fedprox": lambda: t.FedProx(PAIR, lr=0.01, steps=[1, 2, 3, 4, 5], mu=0.5),
    "fedprox-sppm": lambda: t.FedProxSppm(PAIR, gamma=0.1, inner=2, solver=LOCAL),
    "fedred": lambda: KINDS["fedred"](PAIR, lam=10.0, smoothness=20.0),
    "fedvarp": lambda: t.FedVarp(PAIR, lr=0.01, steps=2, memory="clients"),
    "gd": lambda: KINDS["gd"](PAIR, lr=0.01),
    "icgm": lambda: icgm(ESTIMATORS["rg-saga"](passes=2), delegate=t.Nice(1)),
    "mbgd": lambda: t.MbGd(t.Available(PAIR, probability=0.6, memory=0.5), lr=0.01),
    "mblocalgd": lambda: t.MbLocalGd(t.Independent(size=2.0, probability=t.KVib()), lr=0.01, steps=2),
    "mimemvr": lambda: KINDS["mimemvr"](PAIR, lr=0.01, steps=2),
    "point-saga": lambda: t.PointSaga(PAIR, LOCAL, gamma=0.1),
    "saber-full": lambda: KINDS["saber-full"](PAIR, LOCAL, lam=20.0),
    "saber-partial": lambda: KINDS["saber-partial"](PAIR, LOCAL, lam=20.0, cohorts=3),
    "scaffnew": lambda: KINDS["scaffnew"](PAIR, lr=0.02, probability=0.3),
    "scaffold": lambda: t.Scaffold(PAIR, lr=0.01, steps=3, option="I"),
    "scaffold-sag": lambda: KINDS["scaffold-sag"](PAIR, lr=0.01, steps=2),
    "sppm": lambda: sppm(t.Sketch(smoothness=20.0, convexity=0.5), inner=2, first=4),
}
"""A setting of every algorithm; one that is new needs one too."""

OTHERS = {
    "lost-replies": lambda: t.FedAvg(PAIR, lr=0.01, steps=3),
    "line-search": lambda: sppm(t.Newton(smoothness=20.0, convexity=0.5, hessian="products", products=2)),
    "gradient-strata": lambda: t.FedAvg(GradientStratified(clusters=2, every=7), lr=0.01, steps=1),
}


def foretell(algorithm, rounds=ROUNDS, **options) -> Plan:
    return foretold(algorithm, quadratic(), seeds=Seeds.of(50), rounds=rounds, **options)


def near(counted: float, count: Count, rounds: int = ROUNDS) -> bool:
    """Whether a count of one run may be what was foretold: exactly where chance has no part in it, else within 5 deviations."""
    chance = 5 * count.error * math.sqrt(1 + max(SEEDS, PLAYED // rounds))
    return count.least - chance <= counted <= (math.inf if count.most is None else count.most) + chance


def ledger_of(algorithm, faults=None) -> Ledger:
    """What the compiled engine counts in a run, from a program that is quick to compile."""
    job = prepare(quadratic(), Seeds.of(3), faults, None)
    algorithm = bind(algorithm, quadratic(), ROUNDS)
    sites = discover(job, algorithm)

    def run(job):
        progress = begin(CompiledAsk, job, algorithm, sites)
        return lax.fori_loop(0, ROUNDS, lambda _, old: play_round(CompiledAsk, job, algorithm, sites, old), progress)

    progress = jax.jit(run).lower(job).compile(compiler_options=CHEAP)(job)
    assert np.all(np.isfinite(algorithm.output(progress.server)))
    return to_ledger(sites, np.asarray(progress.counts))


def check(algorithm, **options) -> Plan:
    """Check what is foretold of every call of `algorithm` against a run with other seeds."""
    plan, ledger = foretell(algorithm, **options), ledger_of(algorithm, **options)
    assert {call.site for call in plan.calls} == set(ledger.sites)
    rows = {row["path"]: row for row in ledger.rows()}
    for call in plan.calls:
        for name, count in call.counts.items():
            assert near(rows[call.site.path][name], count), (call.site.path, name, rows[call.site.path][name], count)
            assert count.most is not None or name.startswith("queries"), (call.site.path, name)
    for price in PRICES:
        assert near(price.cost(ledger.totals()), plan.cost(price)), price.label
    return plan


def test_every_algorithm_is_described():
    assert EACH_KIND.keys() == KINDS.keys()


@pytest.mark.parametrize("kind", EACH_KIND)
def test_the_ledger_of_every_algorithm_is_what_was_foretold(kind):
    algorithm = EACH_KIND[kind]()
    assert type(algorithm) is KINDS[kind]
    check(algorithm)


@pytest.mark.parametrize("name", OTHERS)
def test_the_ledger_is_what_was_foretold(name):
    check(OTHERS[name](), faults=t.Faults(0.3, "repeat") if name == "lost-replies" else None)


@pytest.mark.parametrize(("missing", "name", "mean"), [("skip", "arrivals", 0.7), ("repeat", "contacts", 1 / 0.7)])
def test_lost_replies_are_foretold(missing, name, mean):
    """With a loss of 0.3 a reply arrives with the chance 0.7, and if it is asked for until it does, after 1 / 0.7 messages."""
    plan = foretell(t.FedAvg(PAIR, lr=0.01, steps=3), faults=t.Faults(0.3, missing))
    (_, asked) = plan.calls
    count = asked.counts[name]
    assert count.error > 0 and abs(count.least - 2 * ROUNDS * mean) <= 5 * count.error


def test_expected_numbers_are_those_of_the_algorithms_own_chances():
    """A pass over five clients, two at a time, is three selections; RG-SVRG makes one with the chance p."""
    plan = foretell(icgm(ESTIMATORS["svrg"](probability=0.25)), rounds=2000)
    passes = [call for call in plan.calls if "draws_arbitrary" in call.counts and not call.site.path.startswith("start.")]
    (count,) = [call.counts["draws_arbitrary"] for call in passes]
    assert 0 < abs(count.least - 3 * 0.25 * 2000) <= 5 * count.error
    (queries,) = [call.counts["queries_slowest"] for call in plan.calls if call.site.method == "solve"]
    assert queries.least == queries.most and abs(queries.least - 2000 / 0.4) <= 5 * queries.error


def test_loops_multiply_and_the_first_round_is_not_repeated():
    """K exchanges with one cohort: one random selection, and an arbitrary one each time that it is asked again."""
    plan = foretell(sppm(t.GradientDescent(smoothness=20.0, convexity=0.5), inner=4, first=9), rounds=3 * LONGEST)
    totals, later = plan.totals(), 3 * LONGEST - 1
    assert totals["exchanges"] == Count(9 + 4 * later, 9 + 4 * later)
    assert totals["reasks"] == Count(8 + 3 * later, 8 + 3 * later)
    assert totals["draws_random"] == totals["cohorts"] == Count(later + 1, later + 1)
    assert totals["bytes_up"] == Count(2 * 16 * (9 + 4 * later), 2 * 16 * (9 + 4 * later))


def test_what_data_decide_is_bounded_and_never_guessed():
    auto = sppm(t.GradientDescent(smoothness=20.0, convexity=0.5), inner="auto", accuracy=1e-3)
    exchanges = foretell(auto, rounds=2).totals()["exchanges"]
    assert exchanges == Count(0.0, 2 * 10_000.0)
    plan = foretell(t.PointSaga(PAIR, LOCAL, gamma=0.1), rounds=2)
    assert plan.totals()["queries_slowest"] == Count(0.0, None)
    assert plan.cost(t.Seconds(query=0.1)).most is None and plan.cost(t.Seconds(query=0.0)).most is not None
    assert plan.cost(t.Rounds()) == Count(2.0, 2.0)


def test_what_is_kept_is_counted_in_vectors():
    for memory, client, server in (("clients", 1, 2), ("server", 0, 2 + 5)):
        plan = foretell(t.FedVarp(PAIR, lr=0.01, steps=1, memory=memory), rounds=0)
        assert (plan.client.vectors, plan.server.vectors) == (client, server)
        assert (plan.client.bytes, plan.server.bytes) == (16 * client, 16 * server)
        assert plan.vector_bytes == 16 and plan.totals()["exchanges"] == Count(0.0, 0.0)


def test_only_what_depends_on_the_unknown_is_unknown():
    def program(secret, given):
        return secret + given, 2 * given, veiled(given), lax.cond(secret > 0, lambda: given, lambda: -given)

    traced = jax.make_jaxpr(program)(1.0, 3.0)
    found = known(traced, [False, True])
    assert found == [False, True, False, False] and known(traced, [True, True]) == [True, True, False, True]
    assert evaluate(traced, found, [None, jnp.asarray(3.0)]) == [None, 6.0, None, None]


def test_numbers_say_how_sure_they_are():
    words = [worded(count) for count in (Count(3, 3), Count(3, 3, 0.1), Count(0, 3), Count(0, 3, 0.1), Count(0, None))]
    assert words == ["3", "≈ 3", "at most 3", "at most ≈ 3", "depends on data"]
    assert worded(Count(2, None)) == "depends on data, at least 2"


def test_a_plan_becomes_tables_json_and_a_part_of_the_report(tmp_path):
    plan = foretell(t.FedAvg(PAIR, lr=0.01, steps=3))
    assert PLAN.validate_json(PLAN.dump_json(plan)) == plan
    described = Described("a|b", plan, PRICES)
    summary = {"plan": PLAN.dump_python(plan, mode="json")}
    page = write_report(tmp_path, [halving("told", 0.5, **summary), halving("silent", 0.6)], "two runs").read_text()
    assert page.count("told: calls") == 1 and "silent: calls" not in page and "<td>random: 1</td>" in page
    rows = calls(described).rows
    assert [row[:4] for row in rows] == [["draw (random)", "–", "–", "random: 1"], ["train (random)", "1", "2", "–"]]
    assert rows[1][4:] == ["1 vector, 16 B", "1 vector, 16 B", "3"]
    grid = side_by_side([described, described])
    table = {row[0]: row[1:] for row in grid.rows}
    assert table["vectors up a round"] == ["2", "2"] and table["cost, rounds"] == [str(ROUNDS)] * 2
    lines = markdown(grid).splitlines()
    assert lines[2] == "|  | a\\|b | a\\|b |" and len(lines) == 4 + len(grid.rows)


def test_the_command_describes_several_configurations(tmp_path):
    files = [
        config(tmp_path, name, split={"kind": "iid", "clients": 12}, algorithm={"kind": "fedavg", "lr": 0.3, "steps": steps})
        for name, steps in (("a", 1), ("b", 7))
    ]
    code, out, errors = turnout("describe", *files, "--markdown")
    assert (code, errors) == (0, "")
    table = dict(line.strip("| ").split(" | ", 1) for line in out.splitlines() if line.count(" | ") == 2)
    assert table["queries of the slowest clients a round"] == "1 | 7" and table["cost, rounds"] == "6 | 6"
    code, out, errors = turnout("describe", config(tmp_path, "c", sampler={"kind": "nice", "size": 13}))
    assert code == 2 and "wants 13 clients, but there are 12" in errors
