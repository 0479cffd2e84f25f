"""Settings of a grid: their number, their order, and the configurations that they stand for."""

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import turnout as t
from tests.helpers.studies import declared, tables
from turnout.experiment.config import Reader
from turnout.studies.cases import Cases
from turnout.studies.grid import merged, settings_of
from turnout.studies.plan import TOGETHER, plan_of

VALUES = {
    "algorithm.lr": st.floats(1e-6, 1e3),
    "algorithm.steps": st.integers(1, 9),
    "sampler.size": st.integers(1, 6),
    "problem.parts": st.integers(1, 4),
    "problem.seed": st.integers(0, 9),
    "run.rounds": st.integers(1, 50),
    "run.every": st.integers(1, 5),
}
GRIDS = st.lists(st.sampled_from(sorted(VALUES)), max_size=3, unique=True).flatmap(
    lambda keys: st.fixed_dictionaries({key: st.lists(VALUES[key], min_size=1, max_size=3, unique=True) for key in keys})
)
BASE = {
    "problem": {"kind": "log-sum", "clients": 6, "dimension": 5, "similarity": 5.0},
    "sampler": {"kind": "nice", "size": 2},
    "algorithm": {"kind": "fedavg", "lr": 0.01, "steps": 2},
    "run": {"rounds": 8},
}


def with_values(setting: dict) -> dict:
    """The plain configuration with some of its numbers replaced."""
    content = {name: dict(table) for name, table in BASE.items()}
    for key, value in setting.items():
        table, _, name = key.partition(".")
        content[table][name] = value
    return content


@pytest.mark.longer
@given(GRIDS, st.booleans())
def test_a_setting_is_the_configuration_with_its_values(grid, shared):
    method = {"algorithm": BASE["algorithm"], **({} if shared else {"grid": grid})}
    problem = {key: BASE[key] for key in ("problem", "sampler")}
    whole = {"run": BASE["run"], "problems": {"made": problem}, "methods": {"a": method}, **({"grid": grid} if shared else {})}
    found = settings_of(declared(whole), "made", "a")
    expected = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    assert [setting.values for setting in found] == expected
    assert len({setting.label for setting in found}) == len(found)
    for setting in found:
        plain = Reader("plain", "", with_values(setting.values)).experiment("a on made")
        assert setting.experiment() == plain


def test_several_grids_are_one_after_another():
    method = {"algorithm": BASE["algorithm"], "grid": [{"algorithm.lr": [0.1, 0.2]}, {"algorithm.steps": [3], "run.rounds": [5]}]}
    study = {"problems": {"made": {key: BASE[key] for key in ("problem", "sampler")}}, "methods": {"a": method}}
    result = settings_of(declared({**study, "grid": {"sampler.size": [1, 2]}}), "made", "a")
    first = [{"sampler.size": size, "algorithm.lr": lr} for size in (1, 2) for lr in (0.1, 0.2)]
    second = [{"sampler.size": size, "algorithm.steps": 3, "run.rounds": 5} for size in (1, 2)]
    assert [setting.values for setting in result] == [*first, *second]
    assert [setting.experiment().run.rounds for setting in result[-2:]] == [5, 5]
    method["grid"][1] = {"algorithm.lr": [0.2]}
    with pytest.raises(t.UserError, match="two settings on made are called 'lr = 0.2'"):
        settings_of(declared(study), "made", "a")


@pytest.mark.longer
@settings(max_examples=40)
@given(GRIDS, st.integers(1, 60))
def test_every_setting_and_seed_is_played_once_and_a_program_shares_all_but_leaves(grid, seeds):
    problem = {key: BASE[key] for key in ("problem", "sampler")}
    method = {"algorithm": BASE["algorithm"], "grid": grid}
    declaration = declared({"seeds": seeds, "run": BASE["run"], "problems": {"made": problem}, "methods": {"a": method}})
    programs = plan_of(declaration, Cases(None), "report")
    runs = [run for program in programs for run in program.runs]
    values_of = {setting.label: setting.values for setting in settings_of(declaration, "made", "a")}
    assert sorted((run.setting, run.seed) for run in runs) == sorted(product(values_of, range(seeds)))
    assert len({run.key for run in runs}) == len(runs) == len({run.place for run in runs})
    for program in programs:
        assert 1 <= len(program.runs) <= TOGETHER
        for key in grid:
            values = {values_of[run.setting][key] for run in program.runs}
            assert len(values) == 1 or key in ("algorithm.lr", "algorithm.steps"), key


def test_the_key_of_a_run_changes_with_all_that_determines_it_and_with_nothing_else():
    def keys(**changes) -> list[str]:
        study = tables()
        study["methods"] = {"fedavg": {**study["methods"]["fedavg"], **changes.pop("method", {})}}
        study["claims"] = []
        declaration = declared({**study, **changes})
        return [run.key for program in plan_of(declaration, Cases(None), "report") for run in program.runs]

    first = keys()
    assert keys(prices={}, title="Another", seeds=[0, 1, 2], method={"title": "x"}) == first
    assert keys(goals={"near": {"metric": "gradient", "below": 1.0, "hold": "stays"}}) == first
    assert keys(seeds=[0]) == first[::3]
    for changes in (
        {"goals": {"near": {"metric": "value", "below": 1.0}}},
        {"goals": {"near": {"metric": "gradient", "below": 1.0, "stop": True}}},
        {"run": {"rounds": 9}},
        {"method": {"faults": {"loss": 0.1, "missing": "skip"}}},
        {"method": {"problem": {"parts": 4}}},
        {"method": {"sampler": {"size": 1}}},
        {"method": {"algorithm": {"kind": "fedavg", "lr": 0.01, "steps": 3}}},
        {"method": {"scale": {"algorithm.lr": "1/L"}}},
    ):
        assert not {*keys(**changes)} & {*first}, changes


def test_groups_of_leaves_are_part_of_the_key():
    problem = {
        "problem": {"kind": "network", "data": "digits", "hidden": 3}, "split": {"kind": "iid", "clients": 3}, "sampler": "full",
    }  # fmt: skip
    groups = {"a": {}, "b": {"groups": {"frozen": ["hidden"]}}, "c": {"groups": {"frozen": ["output"]}}}
    groups["d"] = {"groups": {"personal": {"leaves": ["output"], "lr": 0.1}}}
    methods = {name: {"algorithm": {"kind": "fedavg", "lr": 0.1}, **more} for name, more in groups.items()}
    declaration = declared({"run": {"rounds": 9}, "problems": {"digits": problem}, "methods": methods})
    programs = plan_of(declaration, Cases(None), "report")
    assert len({run.key for program in programs for run in program.runs}) == len(groups)
    assert [program.experiment.groups.frozen for program in programs] == [None, ["hidden"], ["output"], None]


def test_a_special_place_has_the_last_word():
    study = tables()
    study["methods"]["fedavg"] |= {
        "run": {"rounds": 5, "every": 2},
        "on": {"flat": {"run": {"rounds": 6}, "sampler": "full", "grid": {"algorithm.lr": [0.5]}}},
    }
    declaration = declared(study)
    made, flat = (settings_of(declaration, problem, "fedavg") for problem in ("made", "flat"))
    assert [len(made), len(flat)] == [2, 1]
    assert (made[0].experiment().run.rounds, flat[0].experiment().run.rounds, flat[0].experiment().run.every) == (5, 6, 2)
    assert (made[0].experiment().algorithm.sampler, flat[0].experiment().algorithm.sampler) == (t.Nice(2), t.Full())


def test_an_empty_list_leaves_out_a_key_of_the_problem_and_is_a_mistake_elsewhere():
    whole = {
        "problems": {"made": {"problem": BASE["problem"], "grid": {"sampler.size": [2, 4]}}},
        "methods": {
            "all": {"algorithm": BASE["algorithm"], "sampler": {"kind": "full"}, "grid": {"sampler.size": []}},
            "some": {"algorithm": BASE["algorithm"], "sampler": {"kind": "nice", "size": 1}},
        },
    }
    study = declared(whole)
    assert [setting.values for setting in settings_of(study, "made", "all")] == [{}]
    assert [setting.experiment().algorithm.sampler for setting in settings_of(study, "made", "all")] == [t.Full()]
    assert len(settings_of(study, "made", "some")) == 2
    whole["methods"]["some"]["grid"] = {"algorithm.lr": []}
    with pytest.raises(t.UserError, match=r"grid algorithm\.lr needs a list of values"):
        settings_of(declared(whole), "made", "some")


def test_parts_may_be_alternatives_with_names():
    study = tables()
    solvers = ["bfgs", {"kind": "agd", "smoothness": 9.0, "name": "Nesterov"}, {"kind": "agd"}]
    grid = {"algorithm.solver": solvers, "sampler": ["full", {"size": 1}]}
    study["methods"] = {"sppm": {"algorithm": {"kind": "sppm", "gamma": 1.0, "solver": "gd"}, "grid": grid}}
    study["claims"] = []
    found = settings_of(declared(study), "made", "sppm")
    assert [setting.label for setting in found] == [
        f"solver = {solver}, sampler = {sampler}" for solver in ("bfgs", "Nesterov", "agd") for sampler in ("full", "size = 1")
    ]
    experiment = found[3].experiment()
    assert experiment.algorithm.sampler == t.Nice(1) and experiment.algorithm.solver == t.solvers.AcceleratedGradient(
        smoothness=9.0
    )


@pytest.mark.parametrize(
    ("old", "new", "result"),
    [
        ({"kind": "a", "x": 1}, {"y": 2}, {"kind": "a", "x": 1, "y": 2}),
        ({"kind": "a", "x": 1}, {"kind": "a", "x": 2}, {"kind": "a", "x": 2}),
        ({"kind": "a", "x": 1}, {"kind": "b", "y": 2}, {"kind": "b", "y": 2}),
        ("a", {"x": 1}, {"kind": "a", "x": 1}),
        ({"kind": "a", "x": 1}, "b", "b"),
        ({"x": {"kind": "a", "y": 1}}, {"x": {"y": 2}}, {"x": {"kind": "a", "y": 2}}),
    ],
)
def test_tables_are_merged_unless_they_are_of_different_kinds(old, new, result):
    assert merged(old, new) == result


def test_scaled_numbers_are_multiples_of_a_constant_of_the_problem():
    declaration = declared({**tables(), "seeds": 1})
    cases = Cases(None)
    programs = [program for program in plan_of(declaration, cases, "report") if program.runs[0].method == "mbgd"]
    largest = cases.of(programs[0].experiment).problem.constants().smoothness.max()
    assert [[run.leaves["lr"] for run in program.runs] for program in programs] == 2 * [
        [0.1 * (1 / largest), 0.3 * (1 / largest)]
    ]
    assert {program.runs[0].values["sampler.size"] for program in programs} == {2, 3}


@t.record
class Halved(t.Algorithm):
    """Gradient descent with a step that is computed once the problem is known."""

    sampler: t.Sampler
    lr: float
    step: float | None = None

    def bind(self, problem):
        return replace(self, step=self.lr / 2)

    def round(self, ask, x):
        return x - self.step * ask(self.sampler, self.slope, x).average()

    @t.on_client
    def slope(self, client, x):
        return t.Done(client.grad(x))


def test_a_number_may_be_a_multiple_of_the_rate_of_participation():
    method = {"algorithm": BASE["algorithm"], "scale": {"algorithm.lr": "m/n"}, "grid": {"sampler.size": [2, 3]}}
    problem = {"problem": BASE["problem"], "sampler": {"kind": "nice"}}
    programs = plan_of(declared({"problems": {"made": problem}, "methods": {"a": method}}), Cases(None), "report")
    assert [program.experiment.algorithm.lr for program in programs] == pytest.approx([0.01 / 3, 0.01 / 2])


def test_a_number_from_which_another_is_computed_at_the_start_is_no_leaf():
    study = tables()
    study["methods"] = {
        name: {"problems": ["made"], "algorithm": algorithm, "grid": {"algorithm.lr": [0.1, 0.2]}}
        for name, algorithm in (("halved", Halved(t.Full(), lr=0.1)), ("mbgd", t.MbGd(t.Full(), lr=0.1)))
    }
    study["claims"] = []
    declaration = declared(study)
    programs = plan_of(declaration, Cases(None), "report")
    assert [program.runs[0].method for program in programs] == ["halved", "halved", "mbgd"]
    assert [len(program.runs) for program in programs] == [3, 3, 6]


SPLIT = {"kind": "dirichlet", "clients": 4, "concentration": 0.5}


def test_a_problem_that_is_split_by_seed_is_what_configurations_with_these_splits_are():
    """Each run has the split of its seed, has its place among the seeds, and no program holds two splits."""
    problem = {"problem": {"kind": "logistic", "data": "breast_cancer", "mu": 0.1}, "split": SPLIT, "split_by_seed": True}
    method = {"algorithm": BASE["algorithm"], "sampler": "full", "grid": {"algorithm.lr": [0.1, 0.2]}}
    seeds = [7, 3]
    study = {"seeds": seeds, "problems": {"cancer": problem}, "methods": {"a": method}}
    cases = Cases(None)
    programs = plan_of(declared(study), cases, "report")
    runs = [run for program in programs for run in program.runs]
    places = sorted((run.place[1], seeds[run.place[3]], run.seed) for run in runs)
    assert places == [(setting, seed, seed) for setting in (0, 1) for seed in sorted(seeds)]
    for program in programs:
        (seed,) = {run.seed for run in program.runs}
        assert program.experiment.split.seed == seed
        plain = Reader("plain", "", {**problem, **method, "split": {**SPLIT, "seed": seed}})
        plain.tables = {key: plain.tables[key] for key in ("problem", "split", "algorithm", "sampler")}
        assert cases.of(program.experiment) is cases.of(plain.experiment("plain"))
    assert len({id(cases.of(program.experiment)) for program in programs}) == len(seeds)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"split_by_seed": 1}, "split_by_seed is true or false, not 1"),
        ({"split": {**SPLIT, "seed": 2}}, "with split_by_seed the seeds of the runs are those of the split: take out split.seed"),
        ({"split": {"kind": "two-class", "clients": 3}, "problem": BASE["problem"]}, "split"),
    ],
)
def test_a_problem_that_cannot_be_split_by_seed_is_told(changes, told):
    problem = {"problem": {"kind": "logistic", "data": "breast_cancer", "mu": 0.1}, "split": SPLIT, "split_by_seed": True}
    method = {"algorithm": BASE["algorithm"], "sampler": "full"}
    study = {"problems": {"cancer": {**problem, **changes}}, "methods": {"a": method}}
    with pytest.raises(t.UserError, match=told):
        plan_of(declared(study), Cases(None), "report")
