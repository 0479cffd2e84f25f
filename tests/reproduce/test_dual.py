"""Reproductions that compare dual and primal methods: the files, the runs, the arithmetic of the tables, and the verdict."""

import json
import math
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from tests.helpers.commands import turnout
from turnout.core.errors import UserError
from turnout.experiment.build import build
from turnout.problems.optimum import solve
from turnout.reproduce.dual import words
from turnout.reproduce.dual.figures import drawn
from turnout.reproduce.dual.page import counts
from turnout.reproduce.dual.paper import AccuracySpec, Panel, Published, Setup, read_paper
from turnout.reproduce.dual.reproduction import plan_of, reproduce
from turnout.reproduce.dual.run import Plan, Player
from turnout.reproduce.dual.tables import Numbers, accuracies, hits, medians
from turnout.runs.setup import bind

SETUP = Setup(tau=4, below=0.3)
MAIN = Setup(tau=30, below=1e-3)


@pytest.fixture(scope="module")
def paper():
    return read_paper("feddcd")


@pytest.fixture(scope="module")
def tiny(paper):
    """The paper on the digits of scikit-learn, ten clients, six rounds, three contenders."""
    setting = paper.settings["mnist"]
    tables = setting.tables | {
        "problem": {"kind": "multinomial", "data": "digits", "normalize": "rows", "mu": 1e-2, "intercept": False},
        "split": {"kind": "contiguous", "clients": 10, "remainder": "last"},
        "run": {"metrics": ["value"]},
    }
    contenders = ["fedavg", "feddcd", "feddcd-eager"]
    algorithms = setting.algorithms | {"primal": {"lr": 1.0, "epochs": 1, "batch": 60}}
    small = replace(setting, tables=tables, contenders=contenders, rounds={4: 6}, algorithms=algorithms)
    accuracy = AccuracySpec(tau=4, rounds=6, sets=[])
    return replace(paper, settings={"mnist": small}, setups=(SETUP,), accuracy=accuracy, figures={})


@pytest.fixture(scope="module")
def played(tiny, tmp_path_factory):
    """The folder in which the tiny paper was played with two seeds, the player and what it found."""
    folder, plan = tmp_path_factory.mktemp("played"), Plan(tiny, [], True, ["mnist"], 2)
    player = Player(plan, folder, lambda *_: None)
    player.play(plan.tasks())
    return folder, plan, player.results


def test_every_contender_of_every_set_is_a_configuration_and_figures_and_published_numbers_are_of_them(paper):
    for setting in paper.settings.values():
        for name in setting.contenders:
            for tau, most in setting.rounds.items():
                experiment = setting.experiment(name, paper.contenders[name], tau)
                assert experiment.algorithm.sampler.size == tau and experiment.run.rounds == most
    shown = [panel for figure in paper.figures.values() for panel in figure.panels]
    assert all(set(panel.contenders) <= set(paper.settings[panel.set].contenders) for panel in shown)
    for source in (paper.printed, paper.released):
        assert {setup for _, _, setup in source.counts} <= set(paper.setups)
        assert {name for name, *_ in (*source.counts, *source.accuracies)} <= set(paper.settings)
        assert {name for _, name, *_ in (*source.counts, *source.accuracies)} <= set(paper.contenders)
    assert set(paper.accuracy.sets) == {name for name, _ in paper.printed.accuracies}


def test_a_set_like_another_one_differs_in_what_it_says_only(paper):
    alike, other = paper.settings["mlp"], paper.settings["mlp-two"]
    assert other.tables["split"]["kind"] == "two-classes" and other.tables["problem"] == alike.tables["problem"]
    unlike = {"lr": 0.1, "solver": {"kind": "sgd", "lr": 0.1, "batch": 128, "epochs": 5}}
    assert other.algorithms["dual"] == alike.algorithms["dual"] | unlike
    assert {key: other.algorithms[key] for key in ("feddcd", "accfeddcd")} == {
        key: alike.algorithms[key] for key in ("feddcd", "accfeddcd")
    }


def test_both_conventions_are_those_of_the_paper_and_of_the_released_program(tiny):
    (setting,) = tiny.settings.values()
    problem = build(setting.experiment("fedavg", tiny.contenders["fedavg"], 4), None).problem

    def bound(name):
        return bind(setting.experiment(name, tiny.contenders[name], 4).algorithm, problem)

    smoothness = problem.constants().smoothness.max()
    own, released = bound("accfeddcd-paper"), bound("accfeddcd")
    assert (own.lr, own.convexity, own.fraction) == (1, 1e-2, pytest.approx(3 / 9))
    assert own.smoothness == pytest.approx(smoothness)
    assert (released.lr, released.convexity, released.smoothness, released.fraction) == (0.99, 1e-2, 1, 0.4)
    for name, lr in (("feddcd-paper", 1), ("feddcd", 0.99)):
        plain = bound(name)
        assert plain.lr == lr and np.all(plain.convexity == 1e-2)


def test_runs_end_once_all_targets_are_met_and_eager_delivery_doubles_the_exchanges_only(tiny, played):
    _, plan, results = played
    rounds = results.rounds
    for task in plan.tasks():
        for seed in task.seeds:
            gap = rounds.filter(contender=task.contender, seed=seed).sort("round")["gap"].to_numpy()
            assert len(gap) == 7 or gap.min() <= task.until
    lazy, eager = (rounds.filter(contender=name).sort("seed", "round") for name in ("feddcd", "feddcd-eager"))
    both = lazy.join(eager, on=["seed", "round"], suffix="_eager")
    assert both.height > 2
    np.testing.assert_allclose(both["gap_eager"], both["gap"], rtol=1e-9)
    assert (both["exchanges"] == both["round"]).all() and (both["exchanges_eager"] == 2 * both["round"]).all()
    # A vector of 64 x 10 doubles down and one up for each of four clients.
    assert (both["bytes"] == both["round"] * 2 * 4 * 640 * 8).all()
    assert (both["bytes_eager"] == both["bytes"]).all()


def test_the_least_value_is_the_optimum_and_what_is_kept_is_not_played_again(tiny, played):
    folder, plan, results = played
    again = Player(plan, folder, lambda *_: None)
    again.play(plan.tasks())
    assert (results.reused, again.results.reused) == (0, 3)
    assert again.results.rounds.equals(results.rounds) and again.results.least == results.least
    assert results.least["mnist"] == pytest.approx(solve(again.built("mnist").problem).value, abs=1e-12)
    assert (results.rounds["gap"] > 0).all()


def test_everything_is_written_with_its_command_seeds_and_versions(played):
    folder, plan, results = played
    done = reproduce(plan, folder, lambda *_: None, "turnout reproduce feddcd", False)
    page, summary = done.page.read_text(), json.loads((folder / "summary.json").read_text())
    assert summary["command"] in page and summary["seeds"] == {"mnist": [0, 1]} and summary["runs"] == 6
    assert "jax" in summary["versions"] and summary["least"] == results.least and len(summary["tables"]) == 3
    assert pl.read_parquet(folder / "results.parquet").height == 6
    assert "τ = 4, ε = 0.3" in page and "FedDCD as released reaches a gap of 0.3" in page
    assert "3 of 3 sweeps were kept" in done.sentences[0]
    with pytest.raises(UserError, match="leave --one-by-one out"):
        reproduce(plan, folder, lambda *_: None, "", True)


def made(gaps: dict[str, list[list[float]]], size: int = 100) -> pl.DataFrame:
    """Hand-made rounds at tau = 30 on MNIST: for each contender a list of each seed's gaps; an exchange and `size` bytes each."""
    rows = [
        {
            "set": "mnist", "contender": name, "tau": 30, "seed": seed, "round": t, "gap": gap, "test_accuracy": 1 - gap,
            "exchanges": t * (2 if "acc" in name else 1), "bytes": t * size * (2 if "acc" in name else 1),
        }
        for name, seeds in gaps.items()
        for seed, run in enumerate(seeds)
        for t, gap in enumerate(run, start=1)
    ]  # fmt: skip
    return pl.DataFrame(rows)


def test_costs_are_those_of_the_first_model_near_enough_and_medians_count_who_does_not_arrive_as_infinite():
    rounds = made({"a": [[1.0, 1e-3, 1.0], [1e-4, 1.0, 1.0], [1.0, 1.0, 1.0]], "b": [[1.0], [1.0], [1e-3]]})
    found = hits(rounds, (MAIN,))
    assert found.height == 6
    assert found.filter(contender="a").sort("seed")["rounds"].to_list() == [2, 1, None]
    numbers = Numbers(medians(found), accuracies(rounds, AccuracySpec(tau=30, rounds=2, sets=["mnist"])))
    assert [numbers.cost("mnist", "a", MAIN, what) for what in ("rounds", "bytes", "fewest")] == [2, 200, 1]
    assert numbers.cost("mnist", "b", MAIN) == math.inf and math.isnan(numbers.cost("mnist", "c", MAIN))
    assert numbers.accuracy("mnist", "a") == pytest.approx(99.9) and math.isnan(numbers.accuracy("mlp", "a"))


def after(rounds: int, most: int = 60) -> list[float]:
    """Gaps that meet the first setup after `rounds` rounds."""
    return [1.0] * (rounds - 1) + [5e-4] * (most - rounds + 1)


def test_a_curve_ends_with_the_seed_that_arrives_first(paper):
    panel = drawn(Panel(set="mnist", contenders=["feddcd"]), paper, made({"feddcd": [after(2, 6), after(2, 4)]}))
    points = panel.chart.to_dict()["data"]["values"]
    assert [(point["round"], point["median"]) for point in points] == [(1, 1.0), (2, 5e-4), (3, 5e-4), (4, 5e-4)]


def said(paper, **rounds) -> list[str]:
    """The verdict on MNIST where contenders need so many rounds."""
    frame = made({name.replace("_", "-"): [after(many)] * 3 for name, many in rounds.items()})
    numbers = Numbers(medians(hits(frame, (MAIN,))), accuracies(frame, AccuracySpec(tau=30, rounds=60, sets=["mnist"])))
    first = replace(paper.settings["mnist"], rounds={30: 60})
    one = replace(paper, setups=(MAIN,), settings={"mnist": first})
    assert any(row[0] == "FedDCD" for row in counts(one, numbers, first)["rows"])
    return words.verdict(one, numbers, ["mnist"])


def test_a_verdict_in_which_the_paper_holds(paper):
    more = {"feddcd_eager": 28, "feddcd_paper": 29, "accfeddcd_paper": 100}
    found = said(paper, feddcd=28, accfeddcd=13, fedavg=51, fedprox=50, scaffold=45, **more)
    assert "in 28 rounds (28 to 28 over the seeds; released: 28; the bar of 15 % is met)" in found[0]
    assert "needs 26 exchanges and FedDCD 28" in found[1] and "is the better one" in found[1]
    assert "FedDCD needs 29 rounds and 2.9 kB and AccFedDCD more rounds than were played" in found[2]
    assert "FedDCD 28 exchanges in the place of 28, and the same bytes" in found[3]
    assert "its 45 rounds are FedAvg’s 51 up to noise" in found[4] and "needs 45 rounds and 4.5 kB" in found[4]
    assert "in 1 by rounds, 1 by exchanges and 1 by bytes of 1 setups" in found[-1]


def test_a_verdict_in_which_it_does_not(paper):
    found = said(paper, feddcd=40, accfeddcd=22, fedavg=30, fedprox=30, scaffold=30)
    assert "the bar of 15 % is not met" in found[0]
    assert "needs 44 exchanges" in found[1] and "AccFedDCD is not better" in found[1]
    assert "in 1 by rounds, 0 by exchanges and 0 by bytes of 1 setups" in found[-1]


@pytest.mark.parametrize(("rounds", "met"), [(14, "is met"), (15, "is not met")])
def test_what_goes_beyond_the_paper_has_to_send_half_of_feddcds_bytes(paper, rounds, met):
    found = said(paper, feddcd=28, point_saga=rounds)
    assert any(each.startswith("Point-SAGA goes beyond") and each.endswith(f"{met}.") for each in found)


def test_a_published_count_that_was_not_reached_is_infinite():
    published = Published({("mnist", "a", MAIN): ">100", ("mnist", "b", MAIN): "28"})
    assert [published.rounds("mnist", name, MAIN) for name in "ab"] == [math.inf, 28]
    assert math.isnan(published.rounds("mnist", "c", MAIN))


def test_what_cannot_be_played_is_told_in_one_sentence(paper, tmp_path, monkeypatch):
    monkeypatch.delenv("TURNOUT_DATA", raising=False)
    with pytest.raises(UserError, match="feddcd has no set 'rcv1': it has mnist, news20"):
        plan_of(paper, [], ["rcv1"], 5, None)
    with pytest.raises(UserError, match="no figure asked for shows mnist: leave --sets or --figure out"):
        plan_of(paper, ["2"], ["mnist"], 5, None)
    code, _, err = turnout("reproduce", "feddcd", "--sets", "mnist", "--out", tmp_path)
    assert code != 0 and "data sets mnist, mnist.t are not here" in err and "Traceback" not in err
