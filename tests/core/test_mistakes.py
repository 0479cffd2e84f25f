"""Ordinary mistakes, each answered by one sentence that says what, where and what to do."""

import math
from dataclasses import fields, replace
from typing import Annotated, Literal

import annotated_types as at
import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import optax
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import Array, Float

import turnout as t
from turnout.core.records import Count, Fraction, Index, Positive, config, record, static

NICE = t.Nice(2)


@pytest.fixture(autouse=True)
def unchecked_calls():
    """Turn off the type checker of the tests, which would refuse wrong arguments before the code does."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


MISTAKES = [
    (lambda: t.FedAvg(0.1, NICE), ["FedAvg.sampler must be a Sampler such as t.Nice(10)", "it is 0.1: swap sampler and lr"]),
    (lambda: t.FedAvg(t.Nice, lr=0.1), ["FedAvg.sampler", "the class Nice: write Nice(...)"]),
    (lambda: t.FedAvg(2, lr=0.1), ["FedAvg.sampler must be a Sampler such as t.Nice(10)", "but it is 2"]),
    (lambda: t.FedAvg([0, 1], lr=0.1), ["FedAvg.sampler must be a Sampler such as t.Nice(10)", "but it is [0, 1]"]),
    (lambda: t.FedAvg(None, lr=0.1), ["FedAvg.sampler must be a Sampler such as t.Nice(10)", "but it is None"]),
    (lambda: t.FedAvg(NICE, lr="0.1"), ["FedAvg.lr must be a number greater than 0", "'0.1': write 0.1 without quotes"]),
    (lambda: t.FedAvg(NICE, lr=math.nan), ["FedAvg.lr must be a number greater than 0", "nan: give a finite number"]),
    (lambda: t.FedAvg(NICE, lr=math.inf), ["FedAvg.lr must be a number", "inf: give a finite number"]),
    (lambda: t.FedAvg(NICE, lr=True), ["FedAvg.lr must be a number greater than 0 or 'auto', but it is True"]),
    (lambda: t.FedAvg(NICE, lr=-0.1), ["FedAvg.lr must be greater than 0, but it is -0.1"]),
    (lambda: t.FedAvg(NICE, lr=np.array([1.0, 0.0])), ["FedAvg.lr must be greater than 0, but entry 1 is 0"]),
    (lambda: t.FedAvg(NICE, lr=0.1, steps=[2, 0, 1]), ["FedAvg.steps must be at least 1, but entry 1 is 0"]),
    (lambda: t.FedAvg(NICE, lr=0.1, steps=[2, 0.5]), ["FedAvg.steps must be a whole number of at least 1", "it is [2, 0.5]"]),
    (lambda: t.Nice(2.5), ["Nice.size must be a whole number of at least 1, but it is 2.5"]),
    (lambda: t.Nice(2.0), ["Nice.size must be a whole number", "it is 2.0: write 2"]),
    (lambda: t.Nice(jnp.asarray(2)), ["Nice.size must be a whole number"]),
    (
        lambda: t.Sppm(NICE, t.solvers.Lbfgs, gamma=1.0),
        ["Sppm.solver must be a CohortSolver", "the class Lbfgs: write Lbfgs(...)"],
    ),
    (lambda: t.Sppm(t.solvers.Lbfgs(), NICE, gamma=1.0), ["Sppm.sampler must be a Sampler", "swap sampler and solver"]),
    (lambda: t.FedOpt(NICE, optimiser=0.1, server_optimiser=0.1), ["FedOpt.optimiser must be an Optimiser such as t.optimisers"]),
    (lambda: t.FedOpt(NICE, optimiser=optax.adam, server_optimiser=0.1), ["FedOpt.optimiser must be an Optimiser"]),
    (lambda: t.Target("vlaue", 0.1), ["Target.metric must be 'value', 'gap'", "but it is 'vlaue'"]),
    (lambda: t.Target("value", "0.1"), ["Target.below", "write 0.1 without quotes"]),
    (lambda: t.Faults(loss=1.0), ["Faults.loss must be less than 1, but it is 1"]),
    (lambda: t.Seeds.of(-1), ["Seeds.sampling must be at least 0, but it is -1"]),
    (lambda: t.Seeds.of(99999999999999999999), ["Seeds.sampling must be a whole number", "take one below 2^63"]),
    (lambda: t.Seeds.of("0"), ["Seeds.sampling must be a whole number", "write 0 without quotes"]),
    (lambda: t.Subsets(3, [0.5]), ["Subsets.subsets must be a list", "but it is 3"]),
]


@pytest.mark.parametrize("mistake, words", MISTAKES)
def test_a_mistake_gives_one_sentence(mistake, words):
    with pytest.raises(t.UserError) as error:
        mistake()
    sentence = str(error.value)
    assert all(word in sentence for word in words), sentence
    assert "\n" not in sentence and ". " not in sentence


PROBLEM = t.Quadratic.random(4, 2)
REMOTE = t.Remote.of(np.zeros(2), [t.NumpyOracle(lambda x, rows: 0.0, lambda x, rows: x, 2)] * 2)


def run(*arguments, **options):
    return lambda: t.run(*arguments, **{"rounds": 1, **options})


@pytest.mark.parametrize(
    "mistake, words",
    [
        (run(t.FedAvg, PROBLEM), ["algorithm must be an Algorithm such as t.FedAvg", "write FedAvg(...)"]),
        (run(PROBLEM, t.MbGd(NICE, lr=0.1)), ["algorithm must be an Algorithm"]),
        (run(t.MbGd(NICE, lr=0.1), [1.0, 2.0]), ["problem must be a Problem such as t.Quadratic.random(12, 5)", "[1.0, 2.0]"]),
        (run(t.MbGd(NICE, lr=0.1), t.Quadratic), ["problem must be a Problem", "the class Quadratic"]),
        (run(t.MbGd(NICE, lr=0.1), PROBLEM, test=REMOTE), ["cannot be compiled: use engine = 'nodes'"]),
        (run(t.MbGd(NICE, lr=0.1), PROBLEM, test=0.1), ["test must be a Problem", "but it is 0.1"]),
        (run(t.MbGd(NICE, lr=0.1), PROBLEM, precision="single", seed=2**31), ["must be below 2^31 in single precision"]),
        (
            run(t.MbGd(NICE, lr=0.1), PROBLEM, rounds="10"),
            ["rounds must be a whole number of at least 0", "write 10 without quotes"],
        ),
        (run(t.MbGd(NICE, lr=0.1), PROBLEM, rounds=2.5), ["rounds must be a whole number", "it is 2.5"]),
        (run(t.MbGd(NICE, lr=0.1), PROBLEM, seed=-1), ["seed must be at least 0, but it is -1"]),
        (run(t.MbGd(NICE, lr=0.1), PROBLEM, seed=99999999999999999999), ["seed must be a whole number", "take one below 2^63"]),
        (run(t.MbGd(NICE, lr=0.1), PROBLEM, engine="compile"), ["engine must be 'compiled' or 'nodes', but it is 'compile'"]),
        (
            run(t.MbGd(NICE, lr=0.1), PROBLEM, precision="fp16"),
            ["precision must be 'double', 'single' or 'mixed' or None, but it is 'fp16'"],
        ),
        (run(t.MbGd(NICE, lr=0.1), PROBLEM, metrics="value"), ["metrics must be a", "write ['value']"]),
        (run(t.MbGd(NICE, lr=0.1), PROBLEM, metrics=["valeu"]), ["unknown metric 'valeu': known are value"]),
        (run(t.MbGd(NICE, lr=0.1), PROBLEM, memory=0), ["memory must be at least 1, but it is 0"]),
        (
            run(t.MbGd(NICE, lr=0.1), PROBLEM, target=0.1),
            ["target must be a Target such as t.Target('value', 0.1)", "but it is 0.1"],
        ),
        (lambda: t.sweep(t.MbGd(NICE, lr=0.1), PROBLEM, {"lr": 0.1}, rounds=1), ["grid['lr'] must be a list", "write [0.1]"]),
        (lambda: t.sweep(t.MbGd(NICE, lr=0.1), PROBLEM, {"lr": ["0.1"]}, rounds=1), ["'lr'", "numbers, but one is '0.1'"]),
        (lambda: t.sweep(t.MbGd(NICE, lr=0.1), PROBLEM, [0.1], rounds=1), ["grid must be a Mapping"]),
        (lambda: t.sweep(t.MbGd(NICE, lr=0.1), PROBLEM, {"lr": []}, rounds=1), ["grid['lr'] is empty: give at least one value"]),
        (lambda: t.auto("iris"), ["problem must be a Problem such as", "but it is 'iris'"]),
        (lambda: t.auto(PROBLEM, "bytes"), ["price must be a price such as t.Bytes(), but it is 'bytes'"]),
        (lambda: t.auto(PROBLEM, t.Bytes), ["price must be a price such as t.Bytes(), but it is <class"]),
        (lambda: t.chart([], t.Bytes()), ["traces must be a Mapping, but it is []"]),
    ],
)
def test_a_mistake_in_a_run_gives_one_sentence(mistake, words):
    with pytest.raises(t.UserError) as error:
        mistake()
    assert all(word in str(error.value) for word in words), str(error.value)


@pytest.mark.slow
def test_optax_optimisers_are_accepted_wherever_ours_are():
    problem = t.Quadratic.random(6, 3)

    def run(optimiser, server_optimiser):
        return t.run(t.FedOpt(NICE, optimiser=optimiser, server_optimiser=server_optimiser, steps=2), problem, rounds=3).x

    ours = run(t.optimisers.Adam(0.1), t.optimisers.Sgd(0.5))
    np.testing.assert_allclose(run(optax.adam(0.1), optax.sgd(0.5)), ours, rtol=1e-12)
    assert isinstance(t.solvers.FirstOrder(optimiser=optax.sgd(0.1)).optimiser, t.optimisers.Optimiser)


@config
class Part:
    """One of each kind of field."""

    real: Positive = 1.0
    whole: Count = 1
    fraction: Fraction | None = None
    flag: bool = False
    word: Literal["a", "b"] = "a"
    text: str = ""
    several: list[Count] = static(default=())
    pair: tuple[int, str] = (0, "")
    sampler: t.Sampler = NICE
    function: Annotated[float, at.Le(2)] | Literal["auto"] = "auto"
    array: Float[Array, " n"] | None = None


WHOLE, REAL = st.integers(1, 2**63 - 1), st.floats(1e-300, 1e300)
RIGHT = {
    "real": REAL | st.integers(1, 10**300) | REAL.map(np.float64) | REAL.map(np.array) | REAL.map(jnp.asarray),
    "whole": WHOLE | WHOLE.map(np.int64) | st.integers(1, 2**31 - 1).map(jnp.asarray),
    "fraction": st.none() | st.floats(1e-300, 1.0),
    "flag": st.booleans(),
    "word": st.sampled_from(["a", "b"]),
    "text": st.text(),
    "several": st.lists(WHOLE),
    "pair": st.tuples(st.integers(-(2**63), 2**63 - 1), st.text()),
    "sampler": st.sampled_from([NICE, t.Full(), t.Delegate()]),
    "function": st.just("auto") | st.floats(-1e300, 2.0),
    "array": st.none() | st.lists(st.floats(-1, 1), max_size=3).map(lambda values: jnp.asarray(values, float)),
}
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary() | st.complex_numbers()
    | st.sampled_from([t.Nice, NICE, object(), len, math, np.nan, np.array("a"), np.ones(2, complex), jnp.ones(2, bool), 1j])
    | st.decimals() | st.fractions() | st.integers().map(lambda k: 10**400 + k),
    lambda parts: st.lists(parts, max_size=3) | st.tuples(parts) | st.dictionaries(st.text(max_size=2), parts, max_size=2)
    | st.sets(st.integers(), max_size=2),
    max_leaves=4,
)  # fmt: skip


@pytest.mark.longer
@given(st.data())
def test_any_right_value_passes_unchanged(data):
    name = data.draw(st.sampled_from([field.name for field in fields(Part)]))
    value = data.draw(RIGHT[name])
    held = getattr(Part(**{name: value}), name)
    assert np.array_equal(held, value) if name == "array" else held == value


@pytest.mark.slow
@given(st.sampled_from([field.name for field in fields(Part)]), ANYTHING)
def test_a_wrong_value_gives_a_sentence_and_no_other_exception(name, value):
    try:
        part = Part(**{name: value})
    except t.UserError as error:
        assert str(error).startswith(f"Part.{name} must be ")
    else:
        held = getattr(part, name)
        assert held is value or held == value
        assert Part(**{name: held}) is not None


@pytest.mark.parametrize(
    "name, value",
    [
        ("real", "1"), ("real", True), ("real", None), ("real", 0), ("real", [1.0]), ("real", math.inf), ("real", 10**400),
        ("whole", 1.0), ("whole", 0), ("whole", 2**63), ("whole", "1"), ("whole", np.float64(1)), ("whole", np.ones(2)),
        ("fraction", 1.5), ("fraction", np.array([0.5, 1.5])), ("flag", 1), ("flag", "true"), ("word", "c"), ("word", None),
        ("text", 1), ("text", b""), ("several", 1), ("several", [1, "2"]), ("several", [0]), ("several", {1}), ("pair", (0,)),
        ("pair", [0, ""]), ("pair", ("", 0)), ("sampler", t.Nice), ("sampler", "nice"), ("function", "other"), ("function", 3),
        ("array", [1.0]), ("array", jnp.ones(2, int)), ("array", 1.0),
    ],
)  # fmt: skip
def test_a_value_of_a_wrong_type_or_out_of_bounds_is_refused(name, value):
    with pytest.raises(t.UserError, match=f"^Part.{name} must be "):
        Part(**{name: value})


@record
class Numbers:
    """A record with a leaf and a number that is part of the program."""

    lr: Positive
    seed: Index = 0
    size: Count = static(default=1)


def test_traced_values_and_leaves_of_any_type_pass():
    held = []
    jax.jit(lambda lr: held.append(replace(Numbers(1.0), lr=lr)))(0.1)
    assert isinstance(held[0].lr, jax.core.Tracer)
    marked = jax.tree.map(lambda _: "a leaf", Numbers(0.1))
    assert marked.lr == "a leaf"
    assert jax.tree.structure(marked) == jax.tree.structure(Numbers(1))


def test_whole_numbers_and_numpy_scalars_become_floats():
    for one in (1, np.int64(1), np.float32(1), np.float64(1)):
        assert type(Numbers(one).lr) is float
    assert type(Numbers(1.0, size=np.int64(3)).size) is int


def test_an_inherited_record_checks_each_field_once():
    calls = []

    @config
    class Base:
        size: Count = 1

        def __post_init__(self):
            calls.append(type(self).__name__)

    @config
    class Derived(Base):
        name: str = ""

    Derived(size=2)
    assert calls == ["Derived"]
    with pytest.raises(t.UserError, match=r"^Derived.size must be"):
        Derived(size="2")
