"""Plans that are made: the winner is that of the whole grid, runs are kept, and limits hold."""

import itertools
import math
import re
import tomllib
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import turnout as t
from turnout.core.errors import UserError
from turnout.experiment.registry import TABLES
from turnout.planner.api import plan
from turnout.planner.candidates import PricedFamily
from turnout.planner.envelope import WithEvent
from turnout.planner.page import finite
from turnout.planner.planner import Planner
from turnout.planner.task import FAMILIES, HUB_FAMILIES, Limits, allowed, read_task, task_of
from turnout.studies.cases import Cases

TASK = """
[problem]
kind = "ridge"
data = "diabetes"
mu = 0.05
normalize = "columns"

[split]
kind = "iid"
clients = 12

[target]
metric = "gap"
below = 30.0

[[price]]
kind = "exchanges"

[[price]]
kind = "linear"
contacts = 1.0

[plan]
allow = ["fedavg", "lbfgs"]
seeds = 5
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "task.toml"
    path.write_text(TASK)
    return path


LEFT_OUT = {
    "gd": "FedAvg with all clients and one step",
    "mbgd": "mblocalgd with one step",
    "fedprox": "one more number than FedAvg for the same messages",
    "fedprox-sppm": "SPPM has the cohort's proximal point",
    "fedavg-sppm": "SPPM has the cohort's proximal point",
    "fedlamb": "for networks with many layers",
    "fedspeed": "three more numbers than FedOpt",
    "mime": "two exchanges where mimelite has one",
    "mimelite": "FedOpt with the server's state",
    "mimemvr": "a method of the comparison in Cost-aware client selection, never the cheapest there",
    "scaffold-sag": "likewise",
    "fedpage": "two exchanges and now and then a pass, where MimeMVR has two exchanges",
    "ce-lgd": "likewise",
    "saber-partial": "likewise",
    "svrp": "S-DANE needs no pass over all clients",
    "acc-s-dane": "one more number than S-DANE, for convex problems far from their minimum",
    "catalyzed-svrp": "likewise, beside SVRP",
    "fedexprox": "its fixed point is another one where clients disagree",
    "fedexp": "its fixed point is FedAvg's",
    "adacomm": "FedAvg with fewer and fewer steps: two more numbers",
    "amplified-fedavg": "likewise, for clients that take turns",
    "amplified-scaffold": "likewise",
    "feddisco": "for networks whose clients have other labels; its fixed point is another one",
    "fedgloss": "for networks whose flat minima generalise better; a plan has a target",
    "fedmuon": "for networks: steps of one length, whatever the gradients are",
    "ef21-muon": "for networks: steps of one length, whatever the gradients are",
    "fednova": "FedAvg for clients with as many steps, and plans give all the same number",
    "fednl": "Hessians take d queries and d (d + 1) / 2 numbers, which plans do not know of",
    "fednl-bc": "likewise",
    "fednl-cr": "likewise",
    "fednl-ls": "likewise",
    "fednl-pp": "likewise",
    "bl1": "likewise",
    "bl2": "likewise",
    "shed": "likewise",
    "fedsophia": "products with Hessians, which plans do not know of",
    "dane": "S-DANE has its messages, and converges where clients differ more",
    "aide": "three more numbers than DANE",
    "disco": "products with Hessians, which plans do not know of",
    "fedcm": "one more number than FedAvg and twice its vectors down",
    "scaffold-m": "likewise, beside SCAFFOLD",
    "q-fedavg": "its objective is another one, with more equal losses",
    "agnostic-fl": "likewise, the largest loss",
    "proxskip-vr": "the messages of Scaffnew, with batches",
    "gradskip": "the messages of Scaffnew, with fewer queries",
    "fedlin": "MimeMVR for clients with as many steps, and plans give all the same number",
    "easgd": "two more numbers than FedAvg; its fixed point is another one where clients disagree",
    "fedac": "two more numbers than FedAvg and twice its vectors, for clients that are alike",
    "fedsam": "for networks whose flat minima generalise better; a plan has a target",
    "diloco": "for networks, with clients that keep the state of an optimiser",
    "streaming-diloco": "likewise",
    "fedasync": "asynchronous: it pays in seconds of devices, of which a plan has none",
    "fedbuff": "likewise",
    "mifa": "likewise",
    "rescaled-asgd": "likewise",
    "ringleader": "likewise",
    "ringmaster": "likewise",
    "ef21": "codecs are no part of a plan",
    "dasha": "likewise",
    "clag": "likewise",
    "diana": "likewise",
    "adiana": "likewise",
    "ef-bv": "likewise",
    "gradskip-plus": "likewise",
    "randprox": "likewise",
    "locodl": "likewise",
    "marina": "likewise",
    "sa-pef": "likewise",
    "tamuna": "likewise",
    "fedper": "it is for models with leaves of clients' own, which a plan does not choose",
    "fedrep": "likewise",
    "fedbabu": "likewise",
    "fedbn": "likewise",
    "ditto": "its answer is a model for each client, and a plan compares what one model costs",
    "pfedme": "likewise",
    "apfl": "likewise",
    "flix": "likewise",
    "l2gd": "likewise",
    "scafflix": "likewise",
}
"""Algorithms that no family has, since every family takes seconds of each plan."""


def small(**limits) -> Planner:
    """A planner of two families on a quadratic."""
    problem = t.Quadratic.random(12, 5, seed=1)
    tables = {"problem": problem, "target": {"metric": "gradient", "below": 0.5}, "run": {"rounds": 60}}
    given = {"allow": ["fedavg", "lbfgs"], "seeds": 5, **limits}
    return Planner(task_of(tables, (t.Exchanges(),), Limits(**given), "made"), None, Cases(), lambda *_: None)


@pytest.mark.everything
def test_the_winner_is_that_of_the_whole_grid_by_a_study():
    planner = small()
    made = planner.plan()
    declaration = planner.task.declaration
    methods = {name: declaration.source.tables["methods"][name] for name in ("fedavg", "lbfgs")}
    study = {**declaration.source.tables, "methods": methods, "seeds": "1000-1004", "tuning": {"seeds": 5}}
    whole = t.study(study).costs("target", "exchanges")
    best = min(whole["cost"])
    assert made.cost <= 1.1 * best
    row = made.ranking.row(0, named=True)
    again = whole.filter(pl.col("method") == row["family"], pl.col("setting") == row["setting"])
    # A setting that the study has chosen too has the same runs.
    assert again.is_empty() or again["cost"][0] == row["cost"]


@pytest.mark.everything
def test_every_cost_of_the_ranking_is_that_of_its_runs():
    made = small(allow=["fedavg"]).plan()
    seeds = range(1000, 1005)
    target = t.Target("gradient", 0.5, stop=True)
    costs = [
        t.run(made.best.algorithm, t.Quadratic.random(12, 5, seed=1), rounds=60, seed=seed, target=target).cost()
        for seed in seeds
    ]
    assert made.cost == np.sort(costs)[2]
    assert made.ranking["low"][0] <= made.cost <= made.ranking["high"][0]


@pytest.mark.slow
def test_a_plan_goes_on_where_it_was_interrupted(file, tmp_path):
    file.write_text(TASK.replace('["fedavg", "lbfgs"]', '["cg", "lbfgs"]'))
    whole = plan(file, out=tmp_path / "whole")

    calls = itertools.count()

    def interrupt(doing, runs):
        if next(calls) > 60:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        plan(file, out=tmp_path / "out", watch=interrupt)
    kept = pl.read_parquet(tmp_path / "out" / "trials.parquet")["run"].n_unique()
    assert 0 < kept < whole.spent.runs
    again = plan(file, out=tmp_path / "out")
    assert again.ranking.equals(whole.ranking) and again.elsewhere.equals(whole.elsewhere)
    assert again.spent.runs == whole.spent.runs


@pytest.mark.everything
def test_the_envelope_is_the_least_of_the_candidates_costs(file):
    made = plan(file)
    assert made.against == "contacts" and (made.envelope["cost"].diff().drop_nulls() >= 0).all()
    assert made.elsewhere.height == 1
    # Where contacts cost next to nothing the winner is that of the plan, by other seeds.
    assert made.envelope["cost"][0] <= 2 * made.cost
    assert made.points.filter("front").height >= 1


def test_an_event_costs_its_rate_more():
    price, events = WithEvent(t.Exchanges(), "contacts", 0.5), {"exchanges": np.array([2]), "contacts": np.array([8])}
    assert price.cost(events) == 6.0 and price.label == "exchanges + 0.5 contacts"


@pytest.mark.everything
def test_limits_leave_out_families_and_say_why():
    planner = small(allow=["fedavg", "scaffold", "lbfgs"], private_states=False)
    assert {family.name for family in planner.families} == {"fedavg", "fedavg-shuffled", "lbfgs"}
    assert "private_states" in planner.refused["scaffold"]
    assert planner.refused["giant"] == "allow does not name it"
    (family,) = small(allow=["fedavg"], forbid=["shuffled-nice", "shuffled-stratified"], client_queries=4.0).families
    fitting = [one for place in family.structures for one in family.contenders(place)]
    assert {one.experiment.tables()["algorithm"]["steps"] for one in fitting} == {1, 4}
    assert {family.name for family in small(allow=None, forbid=["sppm", "nice", "full"]).families} <= {
        "fedavg-shuffled", "fedavg-strata", "fedavg-weighted",
    }  # fmt: skip
    budget = small(budget=4.0).plan()
    assert (budget.ranking["cost"] <= 4.0).all()


@pytest.mark.tiers(quick=["limits0-*", "limits4-*", "limits5-*", "limits6-*"], slow=["limits2-*"])
@pytest.mark.parametrize(
    ("limits", "sentence"),
    [
        ({"allow": ["fedavgg"]}, "unknown family or kind 'fedavgg'"),
        ({"allow": ["scaffold"], "private_states": False}, "nothing is left to play: drop .*private_states .1 of"),
        ({"allow": ["lbfgs"], "forbid": ["full"]}, "nothing is left to play: drop .*allow .* or forbid .1 of"),
        ({"allow": ["scaffold"], "forbid": ["nice"], "private_states": False}, "nothing is left to play: drop allow"),
        ({"against": "contact"}, "unknown event 'contact'"),
        ({"seeds": 3}, "seeds"),
        ({"budget": -1.0}, "budget"),
    ],
)
def test_a_mistake_is_one_sentence(limits, sentence):
    with pytest.raises(UserError, match=sentence):
        small(**limits)


@pytest.mark.longer
def test_large_cohorts_come_first_where_clients_are_free():
    planner = small(allow=["fedavg"])
    family = next(one for one in planner.families if one.name == "fedavg")

    def first(price) -> float:
        priced = PricedFamily(family, price, planner.store, math.inf)
        return priced.candidates(priced.centre())[0].contender.setting.values["sampler.size"]

    assert first(t.Exchanges()) == first(t.LinearPrice(exchanges=1.0, contacts=0.01)) == 1.0
    assert first(t.LinearPrice(contacts=1.0)) == first(t.LinearPrice(exchanges=1.0, contacts=0.2)) == 0.2


@pytest.mark.longer
def test_large_cohorts_have_a_second_chance_where_the_price_leaves_it_open():
    planner = small(allow=["fedavg"])
    family = next(one for one in planner.families if one.name == "fedavg")

    def sizes(price) -> list[float]:
        priced = PricedFamily(family, price, planner.store, math.inf)
        return [priced.candidates(place)[0].contender.setting.values["sampler.size"] for place in priced.second_chances()]

    assert sizes(t.LinearPrice(exchanges=1.0, contacts=0.2)) == [1.0]
    assert sizes(t.Exchanges()) == sizes(t.LinearPrice(contacts=1.0)) == []


@pytest.mark.everything
def test_where_no_limit_is_to_blame_alone_the_fewest_are_told():
    samplers = ["full", "nice", "shuffled-nice", "shuffled-stratified", "stratified", "independent"]
    with pytest.raises(UserError, match="drop (forbid and private_states|allow and forbid) together"):
        small(allow=["scaffold"], forbid=samplers, private_states=False)


def test_json_has_no_infinities():
    facts = {"a": [math.inf, 1.5, (math.nan,)], "b": {"c": -math.inf, "d": "inf", "e": 3}}
    assert finite(facts) == {"a": [None, 1.5, [None]], "b": {"c": None, "d": "inf", "e": 3}}


@pytest.mark.slow
def test_a_target_that_nobody_reaches_is_told_with_the_nearest_value():
    sentence = r"no candidate reaches gradient < 0.5 at a cost of at most 1.5: the nearest comes to gradient = (\S+);"
    with pytest.raises(UserError, match=sentence) as told:
        small(allow=["lbfgs"], budget=1.5).plan()
    # A round of L-BFGS reaches it, at a cost of more than 1.5.
    found = re.search(sentence, str(told.value))
    assert found is not None and float(found[1]) >= 0.5


@pytest.mark.slow
def test_a_target_that_holds_at_the_start_is_told():
    planner = small()
    planner.task = replace(planner.task, prices=(t.LinearPrice(reasks=1.0),))
    with pytest.raises(UserError, match="costs nothing at reasks"):
        planner.plan()


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("[target]", "[targets]", r"task.toml, line 12: targets: unknown table 'targets'"),
        ("below = 30.0", "below = -1.0", r"line 14: .*below"),
        ("contacts = 1.0", "contacts = -1.0", r"line 21: price.contacts"),
        ("contacts = 1.0", "", r"price 'linear' needs an event that costs something"),
        ("seeds = 5", "seed = 5", r"line 25: plan.seed: unknown key 'seed'"),
        ('kind = "ridge"', 'kind = "ridges"', r"line 3: .*kind: unknown problem kind 'ridges'"),
    ],
)
def test_a_mistake_in_a_file_has_its_line(file, old, new, sentence):
    file.write_text(TASK.replace(old, new))
    with pytest.raises(UserError, match=sentence):
        plan(file)


@pytest.mark.slow
def test_a_stand_in_has_its_own_problem(file, tmp_path):
    like = tmp_path / "like.toml"
    like.write_text(TASK.replace("clients = 12", "clients = 6").replace("[[price]]", "[[prices]]"))
    task = read_task(file, like)
    assert task.declaration.source.tables["problems"]["problem"]["split"]["clients"] == 6
    assert "stand-in" in plan(file, like=like, allow=["lbfgs"]).note


def test_the_files_own_algorithm_plays_too(file):
    file.write_text(TASK.replace('"lbfgs"', '"yours"') + '\n[sampler]\nkind = "full"\n[algorithm]\nkind = "gd"\nlr = 0.1\n')
    assert "yours" in allowed(read_task(file))[0]


def families() -> dict:
    return {name: one for file in (FAMILIES, HUB_FAMILIES) for name, one in tomllib.loads(file.read_text())["methods"].items()}


@pytest.mark.slow
def test_families_of_hubs_play_where_there_are_hubs(file):
    """Where an exchange with the server is dear, rounds inside hubs are cheaper than any flat family, on real counts."""
    assert not {*tomllib.loads(HUB_FAMILIES.read_text())["methods"]} & {*allowed(read_task(file))[0]}
    text, _ = TASK.split("[plan]")
    dear = '[[price]]\nkind = "linear"\nexchanges = 1.0\nserver_exchanges = 50.0\n'
    text = text.replace('[[price]]\nkind = "exchanges"\n', dear)
    file.write_text(
        f'{text}[hubs]\ncount = 3\n[plan]\nallow = ["hubs-fedavg", "lbfgs"]\nseeds = 5\nagainst = "server_exchanges"\n'
    )
    found = plan(file)
    assert isinstance(found.best.algorithm, t.InHubs) and found.ranking["family"].to_list()[0] == "hubs-fedavg"


def test_each_family_has_a_title_and_a_grid():
    assert all(content["title"] and content["grid"] for content in families().values())


def test_every_algorithm_is_in_a_family_or_is_left_out_for_a_reason():
    played = {content["algorithm"]["kind"] for content in families().values()}
    assert played | LEFT_OUT.keys() == TABLES["algorithm"].keys() and not played & LEFT_OUT.keys()
