"""Reproductions that compare samplers: the case study, what is played, the arithmetic of the tables, and the verdict."""

import json
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import polars as pl
import pytest

from tests.helpers.commands import turnout
from turnout.core.errors import UserError
from turnout.core.seeds import Seeds
from turnout.experiment.build import build
from turnout.reproduce.sampling import case, words
from turnout.reproduce.sampling.page import costs, tables
from turnout.reproduce.sampling.paper import read_paper
from turnout.reproduce.sampling.play import Task, memory, sessions, told
from turnout.reproduce.sampling.reproduction import plan_of
from turnout.reproduce.sampling.run import Plan, Player
from turnout.reproduce.sampling.tables import Numbers, fitted, means, runs
from turnout.runs.session import Session

ROUNDS = 4


@pytest.fixture(scope="module")
def paper():
    return read_paper("k-vib")


def small(contender, sizes=(5, 10)):
    """The contender with few rounds of one whole local step each, all of them looked at."""
    run = replace(contender.experiment.run, rounds=ROUNDS, every=1)
    algorithm = replace(contender.experiment.algorithm, steps=1, batch=None, epochs=None)
    return replace(contender, sizes=list(sizes), experiment=replace(contender.experiment, run=run, algorithm=algorithm))


@pytest.fixture(scope="module")
def tiny(paper):
    """The paper with one sampler, few rounds and two sizes."""
    contenders = {"k-vib": small(paper.own)}
    return replace(paper, sizes=[5, 10], late=2, equal=["k-vib"], contenders=contenders, figures={})


def test_example_3_2_has_the_probabilities_and_lengths_of_the_paper():
    np.testing.assert_allclose(np.linalg.norm(case.VECTORS, axis=1), [1, 3, 6])
    alone = case.independent(case.INDEPENDENT, case.VECTORS)
    assert sum(case.INDEPENDENT) == case.BUDGET and sum(case.REPLACEMENT) == 1
    assert sum(each.probability for each in alone) == 1
    assert case.of_size(alone, 3) == Fraction(3, 16) == case.of_size(alone, 1)
    assert case.of_size(alone, 2) == Fraction(10, 16)


def test_both_ways_to_draw_are_unbiased_and_have_the_variance_of_their_formulas():
    total, norms = case.VECTORS.sum(axis=0), np.array([1.0, 3.0, 6.0])
    alone = case.independent(case.INDEPENDENT, case.VECTORS)
    again = case.replacement(case.REPLACEMENT, case.BUDGET, case.VECTORS)
    p, q = (np.array(list(map(float, chances))) for chances in (case.INDEPENDENT, case.REPLACEMENT))
    assert sum(each.probability for each in again) == 1
    np.testing.assert_allclose(case.mean(alone), total)
    np.testing.assert_allclose(case.mean(again), total)
    assert case.variance(alone) == pytest.approx(np.sum((1 - p) / p * norms**2)) == pytest.approx(6)
    assert case.variance(again) == pytest.approx((np.sum(norms**2 / q) - total @ total) / case.BUDGET)
    assert case.variance(alone) < case.variance(again)


def test_three_draws_that_take_everyone_are_off_by_what_the_paper_calls_a_square():
    whole = case.everyone(case.REPLACEMENT, case.VECTORS)
    each = {estimate.drawn: estimate.value for estimate in case.replacement(case.REPLACEMENT, 3, case.VECTORS)}
    np.testing.assert_allclose(whole, each[(0, 1, 2)])
    assert np.linalg.norm(whole - case.VECTORS.sum(axis=0)) == pytest.approx(0.6, abs=0.005)
    assert whole[0] == pytest.approx(6.4, abs=0.05)


def test_every_sampler_of_the_paper_is_known_and_every_figure_shows_samplers_at_sizes_that_they_play(paper):
    assert set(paper.equal) <= set(paper.contenders) and paper.own.name == "k-vib"
    for figure in paper.figures.values():
        for panel in figure.panels:
            for name in panel.samplers:
                assert panel.size is None or panel.size in paper.contenders[name].sizes
    replacement = [name for name, each in paper.contenders.items() if "draws" in each.law]
    assert set(replacement) == {"uniform-replacement", "vrb", "mabs", "avare", "osmd", "a-osmd"}


@pytest.mark.slow
def test_a_task_leaves_every_round_of_every_cell_and_is_played_once(tiny, tmp_path):
    plan = Plan(tiny, [], True, 2)
    assert [task.stem for task in plan.tasks()] == ["k-vib-size", "k-vib-uniform", "k-vib-size-plain"]
    first, second = (Player(plan, tmp_path, lambda *_: None) for _ in range(2))
    first.play(plan.tasks()[:1])
    second.play(plan.tasks()[:1])
    assert (first.results.reused, second.results.reused) == (0, 1)
    rounds, totals = first.results.rounds, first.results.totals
    assert rounds.equals(second.results.rounds)
    assert rounds.group_by("sampler", "size", "seed").len()["len"].to_list() == [ROUNDS] * 4
    assert rounds["variance"].is_finite().all() and (rounds["variance"] > 0).all()
    assert runs(rounds, 2).height == 4
    (row,) = costs(tiny, totals, ROUNDS)
    contacts = totals.filter(size=10)["contacts"].to_numpy().mean()
    assert row[0] == "K-Vib" and float(row[4]) == pytest.approx(contacts / ROUNDS, abs=0.05)


@pytest.mark.slow
def test_what_is_remembered_is_counted_at_either_side_and_a_size_that_fixes_a_shape_has_a_program(paper):
    built = build(paper.own.experiment, None)
    for name, programs, scalars, vectors in (("uniform-fixed", 2, 0, (0, 0)), ("residual", 1, 204, (2, 100))):
        played = list(sessions(Task(small(paper.contenders[name]), [0]), built))
        found = memory(played[0][1])
        assert (len(played), found["scalars"]) == (programs, scalars)
        assert (found["server_vectors"], found["client_vectors"]) == vectors
        assert [cell.settings["sampler.size"] for cells, _ in played for cell in cells] == [5, 10]


@pytest.mark.slow
def test_rivals_are_told_how_large_everyones_first_feedback_is(paper):
    built = build(paper.own.experiment, None)
    n, own = built.problem.population.count, small(paper.own)
    session = Session(
        replace(own.experiment.algorithm, sampler=replace(own.sampler, size=n)),
        built.problem,
        seeds=Seeds.of(0),
        rounds=1,
        every=1,
        metrics=("value",),
    )
    session.run()
    # Everyone takes part, so that K-Vib's omega_i is pi_i^2.
    squares = np.asarray(session.progress.samplers[0].omega, float)
    for name, power in (("k-vib-told", 1), ("mabs", 4), ("osmd", 2), ("a-osmd", 2)):
        assert paper.contenders[name].told
        expected = np.mean(squares ** (power / 2)) ** (1 / power)
        assert told(small(paper.contenders[name]), built).probability.bound == pytest.approx(expected, rel=1e-5)
    assert words.advantage(paper).startswith("K-Vib, told G, Mabs, OSMD and A-OSMD are told")


def made(values: dict[tuple, tuple], rounds: int = 4) -> pl.DataFrame:
    """Hand-made rounds of two seeds: for each sampler, weights and size the variance of a round and the regret that it adds."""
    rows = [
        {
            "sampler": name, "weights": weights, "size": size, "seed": seed, "round": t, "variance": variance * (1 + seed),
            "regret": t * regret * (1 + seed), "static_regret": 0.0, "value": 1.0, "test_value": 1.0,
        }
        for (name, weights, size), (variance, regret) in values.items()
        for seed in range(2)
        for t in range(1, rounds + 1)
    ]  # fmt: skip
    return pl.DataFrame(rows)


def test_measures_are_means_over_rounds_and_seeds_with_standard_errors():
    frame = made({("a", "size", 5): (2.0, 0.5)}).with_columns(
        variance=pl.when(pl.col("round") == 1).then(10 * pl.col("variance")).otherwise(pl.col("variance"))
    )
    numbers = Numbers(means(runs(frame, 2)))
    assert numbers.get("a", 5, "variance") == pytest.approx(1.5 * (20 + 3 * 2) / 4)
    assert numbers.get("a", 5, "late") == pytest.approx(1.5 * 2)
    assert numbers.get("a", 5, "regret") == pytest.approx(1.5 * 4 * 0.5)
    assert numbers.get("a", 5, "late_error") == pytest.approx(np.std([2, 4], ddof=1) / 2**0.5)
    # The least variance on the same trajectory is what the regret leaves of it.
    assert numbers.get("a", 5, "to_best") == pytest.approx(26 / (26 - 2))
    assert math.isnan(numbers.get("a", 10, "variance"))


def test_a_power_law_has_its_power_as_slope():
    assert fitted([(k, 3 * k**-1.5) for k in (5, 10, 20)]) == pytest.approx((-1.5, math.log(3)))
    assert math.isnan(fitted([(5, 1.0), (10, -1.0)])[0])


def frames(paper, **scale) -> Numbers:
    """Made-up numbers that fall like 1/K: `scale` is each sampler's variance against K-Vib's, the regret half of it."""
    values = {}
    for name in paper.contenders:
        for size in paper.sizes:
            for weights in ("size", "uniform"):
                variance = scale.get(name, 2.0) / size
                values[(name, weights, size)] = (variance, variance / 2)
    return Numbers(means(runs(made(values), 2)))


def test_a_verdict_in_which_the_paper_wins(paper):
    numbers = frames(paper, **{"k-vib": 1.0, "last-norm": 0.25, "optimal": 0.24, "residual": 0.01})
    said = words.verdict(paper, numbers)
    assert sum("below every baseline at every K: the paper’s claim holds" in sentence for sentence in said) == 3
    assert any("falls like K^-1.00, the paper’s bound like K^-1.33: it falls no faster" in sentence for sentence in said)
    assert any("the bar of 70 % at every K is met" in sentence and "75.0 %" in sentence for sentence in said)
    # Half of the variance is regret, so that the optimum on the same trajectory has half of it.
    assert any("100.0 % above the least" in s and "is not met by the first and met by the second" in s for s in map(flat, said))
    assert any("the bar of 95 % at every K is met" in sentence and "99.0 %" in sentence for sentence in said)
    assert any("within a memoryless sampler’s reach at K = 5, 10, 20 and 40" in sentence for sentence in said)
    assert any("at no K" in sentence and "never change" in sentence for sentence in said)


def flat(sentence: str) -> str:
    """The sentence with several equal percentages as one."""
    for value in ("100.0 %", "4.2 %"):
        sentence = sentence.replace(f"{value}, {value}, {value} and {value}", value)
    return sentence


def test_a_verdict_in_which_it_does_not(paper):
    numbers = frames(paper, **{"k-vib": 1.0, "avare": 0.5, "size": 0.4, "last-norm": 0.35, "optimal": 0.3, "residual": 0.06})
    said = words.verdict(paper, numbers)
    assert "Avare is as low or lower at K = 5, 10, 20 and 40" in said[1] and "claim holds" not in said[1]
    assert any("never change have a lower mean variance than K-Vib at K = 5, 10, 20 and 40" in sentence for sentence in said)
    assert any("the bar of 70 % at every K is not met" in sentence for sentence in said)
    assert any("the bar of 95 % at every K is not met" in sentence for sentence in said)


def test_a_bar_missed_at_one_size_is_missed(paper):
    numbers = frames(paper, **{"k-vib": 1.0, "last-norm": 0.25})
    assert words.last_norm(paper, numbers).endswith("is met.")
    worse = (pl.col("sampler") == "last-norm") & (pl.col("size") == 40)
    higher = numbers.frame.with_columns(variance=pl.when(worse).then(1.3 * pl.col("variance")).otherwise(pl.col("variance")))
    assert words.last_norm(paper, Numbers(higher)).endswith("is not met.")


def test_tables_show_what_is_saved_against_the_papers_own(paper):
    numbers = frames(paper, **{"k-vib": 1.0, "last-norm": 0.25})
    regret, variance, *_, equal = tables(paper, numbers)
    shown = {row["title"]: row for row in variance["rows"]}
    assert [cell["saved"] for cell in shown["last norm"]["cells"]] == ["75.0 %"] * 4
    assert [cell["saved"] for cell in shown["Vrb"]["cells"]] == ["-100.0 %"] * 4
    assert not any(cell["saved"] for cell in shown["K-Vib"]["cells"])
    assert {row["law"] for row in regret["rows"]} == {"p ≤ 1, Σp = K", "K draws, Σq = 1"} and regret["rows"][0]["slope"] == "-1"
    assert [row["title"] for row in equal["rows"]] == [paper.contenders[name].title for name in paper.equal]


def test_one_figure_from_the_command_line_and_what_it_has_no_use_for(paper, tmp_path):
    code, out, err = turnout("reproduce", "k-vib", "--figure", "1", "--out", tmp_path)
    assert (code, err) == (0, ""), err
    page = (tmp_path / "report.html").read_text()
    assert "3/16" in page and "example 3.2" in page and "The tables come with the whole reproduction" in page
    assert (tmp_path / "figures" / "figure-1.svg").read_text().startswith("<svg")
    assert json.loads((tmp_path / "summary.json").read_text())["paper"] == "k-vib"
    with pytest.raises(UserError, match="leave --sets out"):
        plan_of(paper, [], ["a6a"], 5, None)
    with pytest.raises(UserError, match="no figure '4': it has 1, 2"):
        plan_of(paper, ["4"], None, 5, None)
