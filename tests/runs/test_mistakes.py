"""Mistakes that raised an exception of a library, or none: each is one sentence that says what is wrong."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import turnout as t
from turnout.core.errors import UserError
from turnout.core.seeds import Seeds
from turnout.data import Dataset, IidSplit, Split, load
from turnout.engines.nodes import Nodes
from turnout.runs.session import Session
from turnout.runs.without_effect import tell_without_effect

ROWS = np.arange(12.0).reshape(6, 2), np.arange(6.0)
DATA = Dataset("made", *ROWS)
SPLIT = IidSplit(clients=2).split(DATA)


@t.record
class Losses(t.Problem):
    """A problem whose loss is what `kind` says."""

    kind: str = t.static(default="nothing")

    def losses(self, x, rows):
        error = rows[0] @ x - rows[1]
        given = {
            "nothing": None,
            "text": "a",
            "mean": error.mean(),
            "matrix": error[:, None] * jnp.ones((1, 2)),
            "whole": error > 0,
        }
        return {**given, "complex": jax.lax.complex(error, error), "pair": (error, error)}[self.kind]

    def start(self, key):
        return jnp.zeros(2)


def played(problem, **options):
    return t.run(t.Gd(t.Full(), lr=0.1), problem, rounds=1, metrics=("value",), **options)


@pytest.mark.parametrize("engine", ["compiled", "nodes"])
@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("nothing", "Losses.losses returns a NoneType, but needs an array"),
        ("text", "Losses.losses returns a str, but needs an array"),
        ("pair", "Losses.losses returns a tuple, but needs an array"),
        ("mean", r"returns float64 of shape \(\) for \d+ rows"),
        ("matrix", r"returns float64 of shape \(\d+, 2\) for \d+ rows"),
        ("whole", r"returns bool of shape \(\d+,\) for \d+ rows, but a loss is a floating-point number for each row"),
        ("complex", r"returns complex128 of shape \(\d+,\) for \d+ rows"),
    ],
)
def test_a_loss_that_is_no_number_for_each_row(kind, sentence, engine):
    with pytest.raises(UserError, match=sentence):
        played(Losses(ROWS, np.array([0, 2, 6]), t.Population(count=2), kind=kind), engine=engine)


@pytest.mark.parametrize(
    ("rows", "offsets", "sentence"),
    [
        ((ROWS[0], ROWS[1][:5]), [0, 2, 6], r"Losses.rows has an array of shape \(5,\), but offsets end at 6"),
        (ROWS, [0, 2, 9], r"Losses.rows has an array of shape \(6, 2\), but offsets end at 9"),
        (ROWS, [0, 0, 6], "client 0 of Losses has no rows"),
        (ROWS, [0, 6], "Losses.offsets are where the rows of 2 clients begin"),
    ],
)
def test_rows_that_clients_do_not_have(rows, offsets, sentence):
    with pytest.raises(UserError, match=sentence):
        played(Losses(rows, np.array(offsets), t.Population(count=2)))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: t.Ridge.of(DATA, SPLIT, mu=0.1, weights="size"), "weights of clients are numbers, but they are 'size'"),
        (lambda: t.Ridge.of(DATA, SPLIT, mu=0.1, weights=["a", "b"]), "weights of clients are numbers"),
        (lambda: t.Ridge.of(DATA, SPLIT, mu=0.1, weights=[0, 0]), "client weights are all zero"),
        (lambda: load((np.zeros((0, 3)), np.zeros(0))), "of features, has no rows"),
        (lambda: load({"a": [], "label": []}), "column 'label' .*has no rows|column 'a' has no rows"),
        (lambda: load({"a": [[1, 2], [3]], "label": [0, 1]}), "column 'a' has rows of different lengths"),
        (
            lambda: t.Ridge.of(Dataset("bare", np.zeros((2, 0)), np.ones(2)), Split.of([[0], [1]], 2), mu=0.1),
            "bare has no features",
        ),
    ],
)
def test_weights_rows_and_features_that_are_none(make, sentence):
    with pytest.raises(UserError, match=sentence):
        make()


def test_an_index_for_which_no_model_has_memory(tmp_path):
    (tmp_path / "rows.txt").write_text("1 1:1\n-1 2:1 2000000000:1\n")
    with pytest.raises(UserError, match="line 2: the index in '2000000000:1' is more than 268435456"):
        load(tmp_path / "rows.txt")


@pytest.mark.parametrize("value", ["a", 1j, [None]])
def test_an_oracle_whose_answer_is_no_number(value):
    oracle = t.NumpyOracle(lambda x, rows: value, lambda x, rows: x, size=1)
    with pytest.raises(UserError, match="the oracle of client 0 answers with"):
        played(t.Remote.of(np.zeros(2), [oracle]), engine="nodes")


@pytest.mark.parametrize(
    ("loss", "ragged", "sentence"),
    [
        (lambda module, batch: None, False, "a PyTorch client's loss is a NoneType"),
        (lambda module, batch: 1.0, False, "a PyTorch client's loss is a float"),
        (lambda module, batch: module(batch[0]), False, r"a PyTorch client's loss is torch.float32 of shape \(2, 1\)"),
        (
            lambda module, batch: module(batch[0]).mean(),
            True,
            "rows of a PyTorch client make no batch .*: give the DataLoader a coll",
        ),
    ],
)
def test_losses_and_batches_of_pytorch(loss, ragged, sentence):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'turnout[torch]'")
    rows = [(torch.ones(1 + ragged * k),) for k in range(2)]
    module = torch.nn.Linear(1, 1)
    client = t.TorchOracle(module, torch.utils.data.DataLoader(rows, batch_size=2), loss)
    with pytest.raises(UserError, match=sentence):
        played(t.Remote.of(t.parameters_of(module), [client]), engine="nodes", precision="single")


def test_a_loader_that_drops_rows_has_no_say():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'turnout[torch]'")
    loader = torch.utils.data.DataLoader([torch.ones(1)] * 3, batch_size=2, drop_last=True)
    with pytest.warns(t.Caution, match="the DataLoader's drop_last has no effect") as told:
        assert t.TorchOracle(torch.nn.Linear(1, 1), loader, lambda module, batch: module(batch).mean()).size == 3
    assert told[0].filename == __file__


QUADRATIC = t.Quadratic.random(clients=2, dimension=2)
CLASSES = t.Logistic((ROWS[0], np.tile([-1.0, 1.0], 3)), np.array([0, 2, 6]), t.Population(count=2), mu=0.1)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"held_out": CLASSES, "metrics": ("value",)}, "held_out has no effect but that its clients are not drawn"),
        ({"test": QUADRATIC, "metrics": ("value",)}, "test has no effect, since no metric is of its rows"),
        ({"memory": 1000, "engine": "nodes"}, "memory has no effect on clients that compute one by one"),
        ({"seed": 3, "seeds": Seeds.of(1)}, "seed = 3 has no effect beside seeds"),
    ],
)
def test_settings_without_an_effect_are_told(options, sentence):
    problem = CLASSES if "held_out" in options else QUADRATIC
    with pytest.warns(t.Caution, match=sentence) as told:
        t.run(t.Gd(t.Full(), lr=0.1), problem, rounds=1, **options)
    assert len(told) == 1 and told[0].filename == __file__


def test_devices_without_an_effect_on_a_real_clock_are_told():
    session = Session(
        t.Gd(t.Full(), lr=0.1), QUADRATIC, rounds=1, deployed=partial(Nodes, QUADRATIC), devices=t.Devices(latency=1.0)
    )
    with pytest.warns(t.Caution, match=r"\[devices\] has no effect in a federation, whose clock is the real one"):
        tell_without_effect(session)


@pytest.mark.longer
def test_settings_with_an_effect_are_not(recwarn):
    t.run(t.Gd(t.Full(), lr=0.1), CLASSES, rounds=1, held_out=CLASSES, test=CLASSES, metrics=("held_out_accuracy",), seed=3)
    assert not recwarn.list
