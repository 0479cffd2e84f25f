"""Models of one's own in configurations, and mistakes, each of which is told in one sentence."""

import tomllib

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import turnout as t
from tests.problems.test_model import CLASSES, KEY, ROWS, WIDTH, Layers, Normal, as_users_compute, dataset, output_itself, problem  # noqa: F401 (a fixture)
from turnout.experiment.build import build
from turnout.experiment.config import Reader


class NoArrays(eqx.Module):
    def __call__(self, row):
        return row


class Whole(eqx.Module):
    weight: jax.Array

    def __call__(self, row):
        return self.weight


def depends_on_the_key(key):
    return eqx.nn.MLP(WIDTH, CLASSES, 2, int(jax.random.key_data(key)[-1] % 2) + 1, key=key)


def shorter(outputs, labels):
    return jnp.mean(outputs)


BAD = {
    "too few outputs": (eqx.nn.Linear(WIDTH, 2, key=KEY), "cross-entropy", "let it put out 3 numbers for each row"),
    "no arrays": (NoArrays(), "cross-entropy", "has no floating-point arrays"),
    "whole numbers": (Whole(jnp.arange(3)), "cross-entropy", "has no floating-point arrays"),
    "whole parameters": ((lambda key: {"w": jnp.arange(3)}, lambda x, a: a), "cross-entropy", "is int"),
    "complex": (Whole(jnp.ones(3, complex)), "cross-entropy", "is complex"),
    "other features": (eqx.nn.Linear(WIDTH + 1, 3, key=KEY), "cross-entropy", r"on 2 rows of shape \(3,\)"),
    "a scalar loss": (Layers(), shorter, "is a floating-point number for each row"),
    "a loss of one argument": (Layers(), lambda outputs: outputs, "the loss fails"),
    "an unknown loss": (Layers(), "cross entropy", "did you mean 'cross-entropy'"),
    "no loss": (Layers(), 3, "a loss is a name or a function"),
    "several numbers": (Layers(), "squared error", "let it put out one number for each row"),
    "no module": (3, "cross-entropy", "this is a int"),
    "a function of two": (lambda a, b: a, "cross-entropy", "let it take a random key"),
    "a tuple": (eqx.nn.Lambda(lambda row: (row, row)), "cross-entropy", "has no floating-point arrays"),
    "an unknown argument": (
        (lambda key: {"w": jnp.ones(3)}, lambda x, a, mask: a), "cross-entropy", "the module needs mask beside the rows",
    ),
    "PyTorch, too few": (torch.nn.Linear(WIDTH, 2), "cross-entropy", "let it put out 3 numbers for each row"),
    "PyTorch, other features": (torch.nn.Linear(WIDTH + 1, 3), "cross-entropy", "the module fails in evaluation"),
    "PyTorch, a scalar loss": (torch.nn.Linear(WIDTH, 3), lambda outputs, labels: outputs.mean(), "for each row"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_what_does_not_fit_is_told_in_one_sentence(case):
    module, loss, sentence = BAD[case]
    with pytest.raises(t.UserError, match=sentence) as error:
        problem(module, loss)
    assert "\n" not in str(error.value) and len(str(error.value)) < 300


def test_further_mistakes_are_told():
    made = problem(depends_on_the_key)
    with pytest.raises(t.UserError, match="let only numbers depend on the key"):
        for seed in range(4):
            made.start(jax.random.key(seed))
    with pytest.raises(t.UserError, match="classes have no squared error"):
        problem(Layers(), "squared error", classes=3)
    with pytest.raises(t.UserError, match="a label is 'a'"):
        problem(Layers(), output_itself, dataset(labels=np.array(["a"] * ROWS)))
    module, _ = eqx.nn.make_with_state(Normal)(KEY)
    with pytest.raises(t.UserError, match="make_with_state"):
        problem(module)


def test_collections_and_modes_of_flax_that_are_not_known_are_told():
    linen = pytest.importorskip("flax.linen", reason="flax is not installed")
    from flax import nnx

    class Cached(linen.Module):
        @linen.compact
        def __call__(self, features):
            self.variable("cache", "last", jnp.zeros, (3,))
            return linen.Dense(CLASSES)(features)

    class Untold(linen.Module):
        @linen.compact
        def __call__(self, features):
            return linen.Dense(CLASSES)(linen.BatchNorm(use_running_average=False)(features))

    class Other(nnx.Module):
        def __init__(self):
            self.layer, self.cache = nnx.Param(jnp.ones((WIDTH, CLASSES))), nnx.Cache(jnp.ones(3))

        def __call__(self, features):
            return features @ self.layer[...]

    for module, sentence in (
        (Cached(), "the collection 'cache'"),
        (Untold(), "give it an argument train"),
        (Other(), "cache of the module is a Cache"),
    ):
        with pytest.raises(t.UserError, match=sentence):
            problem(module)


MODULE = """
import equinox as eqx
import jax.numpy as jnp


def make(key):
    return eqx.nn.MLP(64, 10, 4, 1, key=key)


def hinge(outputs, labels):
    return jnp.maximum(0, 1 - outputs[jnp.arange(len(labels)), labels])


def few(key):
    return eqx.nn.MLP(64, 2, 4, 1, key=key)
"""

CONFIGURATION = """
[problem]
kind = "model"
module = "net.py:make"
loss = "cross-entropy"
data = "digits"

[split]
kind = "iid"
clients = 4

[sampler]
kind = "full"

[algorithm]
kind = "fedavg"
lr = 0.01
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "net.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def configured(text=CONFIGURATION, **changes):
    tables = tomllib.loads(text)
    tables["problem"] |= changes
    return Reader("made.toml", text, tables).experiment("made")


@pytest.mark.longer
def test_a_configuration_names_a_module_and_its_digest_follows_the_file(folder):
    experiment = configured()
    built = build(experiment, None)
    assert isinstance(built.problem, t.Model) and built.problem.clients == 4 and experiment.run.precision == "single"
    digest = built.digest(experiment)
    assert build(configured(), None).digest(experiment) == digest
    (folder / "net.py").write_text(MODULE + "\n# changed\n")
    assert build(configured(), None).digest(experiment) != digest
    own = build(configured(loss="net.py:hinge", classes=10, mu=0.5), None).problem
    assert own.classifies and own.mu == 0.5 and own.loss.__name__ == "hinge"


@pytest.mark.usefixtures("folder")
def test_names_that_a_configuration_lacks_are_told():
    for changes, sentence in (
        ({"module": "net.py:other"}, "'net.py' has no 'other'"),
        ({"module": "gone.py:make"}, "there is no such file"),
        ({"module": "net.py:few"}, "let it put out 10 numbers"),
        ({"loss": "net.py:other"}, "has no function 'other'"),
    ):
        with pytest.raises(t.UserError, match=sentence):
            build(configured(**changes), None)
    with pytest.raises(t.UserError, match="module is missing"):
        Reader("made.toml", "", {"problem": {"kind": "model", "data": "digits"}, "sampler": {}, "algorithm": {}}).experiment("x")
