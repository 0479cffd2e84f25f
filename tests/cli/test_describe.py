"""What `turnout describe` foretells: expected numbers, bounds where data decide, and how they are shown."""

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import turnout as t
from tests.helpers.commands import config, turnout
from tests.helpers.cost_estimates import LOCAL, PAIR, ROUNDS, check, foretell, icgm, sppm
from turnout.engines.cost_estimate.estimate import LONGEST, Count
from turnout.engines.cost_estimate.partial_eval import as_unknown, evaluate, known
from turnout.report.plan import PLAN, NamedPlan, calls, format_count, markdown, side_by_side
from turnout.samplers.gradient_strata import GradientStratified

OTHERS = {
    "lost-replies": lambda: t.FedAvg(PAIR, lr=0.01, steps=3),
    "line-search": lambda: sppm(t.solvers.Newton(smoothness=20.0, convexity=0.5, hessian="products", products=2)),
    "gradient-strata": lambda: t.FedAvg(GradientStratified(clusters=2, every=7), lr=0.01, steps=1),
}


@pytest.mark.tiers(quick=[], longer=["gradient-strata"])
@pytest.mark.parametrize("name", OTHERS)
def test_the_ledger_is_what_was_foretold(name):
    check(OTHERS[name](), faults=t.Faults(0.3, "repeat") if name == "lost-replies" else None)


@pytest.mark.longer
@pytest.mark.parametrize(("missing", "name", "mean"), [("skip", "arrivals", 0.7), ("repeat", "contacts", 1 / 0.7)])
def test_lost_replies_are_foretold(missing, name, mean):
    """With a loss of 0.3 a reply arrives with the chance 0.7, and if it is asked for until it does, after 1 / 0.7 messages."""
    plan = foretell(t.FedAvg(PAIR, lr=0.01, steps=3), faults=t.Faults(0.3, missing))
    (_, asked) = plan.calls
    count = asked.counts[name]
    assert count.error > 0 and abs(count.least - 2 * ROUNDS * mean) <= 5 * count.error


@pytest.mark.longer
def test_expected_numbers_are_those_of_the_algorithms_own_chances():
    """A pass over five clients, two at a time, is three selections; RG-SVRG makes one with the chance p."""
    plan = foretell(icgm(t.Svrg(probability=0.25)), rounds=2000)
    passes = [call for call in plan.calls if "draws_arbitrary" in call.counts and not call.site.path.startswith("start.")]
    (count,) = [call.counts["draws_arbitrary"] for call in passes]
    assert 0 < abs(count.least - 3 * 0.25 * 2000) <= 5 * count.error
    (queries,) = [call.counts["queries_slowest"] for call in plan.calls if call.site.method == "solve"]
    assert queries.least == queries.most and abs(queries.least - 2000 / 0.4) <= 5 * queries.error


def test_loops_multiply_and_the_first_round_is_not_repeated():
    """K exchanges with one cohort: one random selection, and an arbitrary one each time that it is asked again."""
    plan = foretell(sppm(t.solvers.GradientDescent(smoothness=20.0, convexity=0.5), inner=4, first=9), rounds=3 * LONGEST)
    totals, later = plan.totals(), 3 * LONGEST - 1
    assert totals["exchanges"] == Count(9 + 4 * later, 9 + 4 * later)
    assert totals["reasks"] == Count(8 + 3 * later, 8 + 3 * later)
    assert totals["draws_random"] == totals["cohorts"] == Count(later + 1, later + 1)
    assert totals["bytes_up"] == Count(2 * 16 * (9 + 4 * later), 2 * 16 * (9 + 4 * later))


def test_what_data_decide_is_bounded_and_never_guessed():
    auto = sppm(t.solvers.GradientDescent(smoothness=20.0, convexity=0.5), inner="auto", accuracy=1e-3)
    exchanges = foretell(auto, rounds=2).totals()["exchanges"]
    assert exchanges == Count(0.0, 2 * 10_000.0)
    plan = foretell(t.PointSaga(PAIR, LOCAL, gamma=0.1), rounds=2)
    assert plan.totals()["queries_slowest"] == Count(0.0, None)
    assert plan.cost(t.Seconds(query=0.1)).most is None and plan.cost(t.Seconds(query=0.0)).most is not None
    assert plan.cost(t.Exchanges()) == Count(2.0, 2.0)


def test_what_is_kept_is_counted_in_vectors():
    for memory, client, server in (("clients", 1, 2), ("server", 0, 2 + 5)):
        plan = foretell(t.FedVarp(PAIR, lr=0.01, steps=1, memory=memory), rounds=0)
        assert (plan.client.vectors, plan.server.vectors) == (client, server)
        assert (plan.client.bytes, plan.server.bytes) == (16 * client, 16 * server)
        assert plan.vector_bytes == 16 and plan.totals()["exchanges"] == Count(0.0, 0.0)


def test_only_what_depends_on_the_unknown_is_unknown():
    def program(secret, given):
        return secret + given, 2 * given, as_unknown(given), lax.cond(secret > 0, lambda: given, lambda: -given)

    traced = jax.make_jaxpr(program)(1.0, 3.0)
    found = known(traced, [False, True])
    assert found == [False, True, False, False] and known(traced, [True, True]) == [True, True, False, True]
    assert evaluate(traced, found, [None, jnp.asarray(3.0)]) == [None, 6.0, None, None]


def test_numbers_say_how_sure_they_are():
    words = [format_count(count) for count in (Count(3, 3), Count(3, 3, 0.1), Count(0, 3), Count(0, 3, 0.1), Count(0, None))]
    assert words == ["3", "≈ 3", "at most 3", "at most ≈ 3", "depends on data"]
    assert format_count(Count(2, None)) == "depends on data, at least 2"


def test_a_plan_becomes_tables_and_json():
    plan = foretell(t.FedAvg(PAIR, lr=0.01, steps=3))
    assert PLAN.validate_json(PLAN.dump_json(plan)) == plan
    described = NamedPlan("a|b", plan, (t.Exchanges(),))
    rows = calls(described).rows
    assert [row[:4] for row in rows] == [["draw (random)", "–", "–", "random: 1"], ["train (random)", "1", "2", "–"]]
    assert rows[1][4:] == ["1 vector, 16 B", "1 vector, 16 B", "a sum", "3"]
    grid = side_by_side([described, described])
    table = {row[0]: row[1:] for row in grid.rows}
    assert table["vectors up a round"] == ["2", "2"] and table["cost, exchanges"] == [str(ROUNDS)] * 2
    lines = markdown(grid).splitlines()
    assert lines[2] == "|  | a\\|b | a\\|b |" and len(lines) == 4 + len(grid.rows)


def test_the_command_describes_several_configurations(tmp_path):
    split = {"kind": "iid", "clients": 12}
    files = [
        config(tmp_path, name, split=split, algorithm={"kind": "fedavg", "lr": 0.3, "steps": steps})
        for name, steps in (("a", 1), ("b", 7))
    ]
    code, out, errors = turnout("describe", *files, "--markdown")
    assert (code, errors) == (0, "")
    table = dict(line.strip("| ").split(" | ", 1) for line in out.splitlines() if line.count(" | ") == 2)
    assert table["queries of the slowest clients a round"] == "1 | 7" and table["cost, exchanges"] == "6 | 6"
    code, out, errors = turnout("describe", config(tmp_path, "c", split=split, sampler={"kind": "nice", "size": 13}))
    assert code == 2 and "wants 13 clients, but there are 12" in errors
