"""Groups in configurations, rows of their own to test with, and the files of runs with personal leaves."""

import numpy as np
import polars as pl
import pytest
from safetensors.numpy import load_file

import turnout as t
from tests.helpers.commands import turnout
from turnout.core.leaf_names import leaves_by_name
from turnout.data.holdout import hold_rows
from turnout.data.splits import Split
from turnout.experiment.build import build
from turnout.experiment.config import read

TEXT = """
[problem]
kind = "network"
data = "digits"
hidden = 4
own_test = 0.25
[split]
kind = "dirichlet"
clients = 5
concentration = 1.0
min_rows = 2
[sampler]
kind = "nice"
size = 3
[algorithm]
kind = "fedavg"
lr = 0.1
[groups]
frozen = ["hidden.bias"]
[groups.personal]
leaves = ["output"]
lr = 0.2
batch = 8
[run]
rounds = 4
"""


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """The folder of a run of `TEXT`."""
    folder = tmp_path_factory.mktemp("groups")
    (folder / "run.toml").write_text(TEXT)
    code, *output = turnout("run", folder / "run.toml", "--out", folder / "out")
    assert code == 0, output
    return folder


def test_a_configuration_is_written_back_with_its_groups(tmp_path):
    (tmp_path / "one.toml").write_text(TEXT)
    one = read(tmp_path / "one.toml")
    (tmp_path / "two.toml").write_text(one.to_toml())
    assert read(tmp_path / "two.toml").groups == one.groups
    assert one.groups.personal == t.Personal(["output"], lr=0.2, batch=8)
    assert build(one, None).problem.groups.frozen == ("hidden.bias",)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ('frozen = ["hidden.bias"]\n|frozen = ["nothing"]\n', "Frozen 'nothing' is no part of the model, which has"),
        ("batch = 8|bach = 8", "line 23: groups.personal.bach: unknown key 'bach': did you mean 'batch'"),
        ("own_test = 0.25|own_test = 1.0", "line 6: problem.own_test: must be less than 1"),
        ("own_test = 0.25|own_test = 0", "own_test is a share of each client's rows between 0 and 1"),
        ('own_test = 0.25|own_test = 0.25\ntest = "digits"', "leave one of them out"),
    ],
)
def test_mistakes_are_told_with_their_line(tmp_path, change, sentence):
    (tmp_path / "bad.toml").write_text(TEXT.replace(*change.split("|")))
    code, _, errors = turnout("run", tmp_path / "bad.toml", "--out", tmp_path / "out")
    assert code == 2 and sentence in " ".join(errors.split()), errors


@pytest.mark.slow
def test_the_file_of_each_client_has_its_own_leaves_and_gives_its_own_numbers(played):
    """Loaded elsewhere: a network in NumPy on the rows that the split's file names."""
    whole, personal = (load_file(played / "out" / name) for name in ("model.safetensors", "personal.safetensors"))
    assert sorted(personal) == ["output.bias", "output.weight"] and personal["output.bias"].shape == (5, 10)
    split, data = np.load(played / "out" / "split.npz"), t.data.load("digits")
    shares = []
    for i in range(5):
        assert turnout("model", played / "out", "--client", i)[0] == 0
        model = load_file(played / "out" / f"model-{i}.safetensors")
        assert np.array_equal(model["hidden.weight"], whole["hidden.weight"])
        assert np.array_equal(model["output.weight"], personal["output.weight"][i])
        rows = split["test_indices"][slice(*split["test_offsets"][i : i + 2])]
        inner = np.tanh(data.features[rows].reshape(len(rows), -1) @ model["hidden.weight"] + model["hidden.bias"])
        shares.append(np.mean(np.argmax(inner @ model["output.weight"] + model["output.bias"], 1) == data.labels[rows]))
    assert turnout("run", played / "run.toml", "--out", played / "again")[0] == 0
    row = pl.read_parquet(played / "out" / "trace.parquet").row(-1, named=True)
    np.testing.assert_allclose(row["test_accuracy"], np.mean(shares), rtol=1e-12)
    for name in ("model.safetensors", "personal.safetensors"):
        for leaf, array in load_file(played / "out" / name).items():
            np.testing.assert_array_equal(array, load_file(played / "again" / name)[leaf])


@pytest.mark.tiers(quick=[], slow=["none-0-give the folder of a finished run"])
@pytest.mark.parametrize(
    ("folder", "client", "sentence"),
    [("out", 5, "has clients 0 to 4, so that there is no client 5"), ("none", 0, "give the folder of a finished run")],
)
def test_a_model_that_is_not_there_is_told(played, folder, client, sentence):
    code, _, errors = turnout("model", played / folder, "--client", client)
    assert code == 2 and sentence in " ".join(errors.split())


@pytest.mark.slow
def test_a_run_without_personal_leaves_has_one_model(tmp_path):
    (tmp_path / "run.toml").write_text(TEXT.split("[groups]")[0] + "[run]\nrounds = 1\n")
    assert turnout("run", tmp_path / "run.toml", "--out", tmp_path / "out")[0] == 0
    code, _, errors = turnout("model", tmp_path / "out", "--client", 0)
    assert code == 2 and "all clients of the run use model.safetensors" in " ".join(errors.split())


@pytest.mark.parametrize("share", [0.01, 0.3, 0.99])
def test_each_client_trains_and_is_tested_with_rows_of_its_own(share):
    split = Split.of([np.arange(2), np.arange(2, 9), np.arange(9, 40)], rows=40)
    train, test = hold_rows(split, share, seed=3)
    for i in range(3):
        both = np.concatenate([train.rows(i), test.rows(i)])
        assert np.array_equal(np.sort(both), split.rows(i))
        assert test.sizes[i] == np.clip(round(share * split.sizes[i]), 1, split.sizes[i] - 1)
    with pytest.raises(t.UserError, match="client 1 has one row, which cannot both train and test"):
        hold_rows(Split.of([[0, 1], [2]], rows=3), share, seed=0)


@pytest.mark.slow
def test_a_run_on_clients_on_disk_has_their_personal_leaves(tmp_path):
    from tests.helpers.centred import centred
    from tests.helpers.fetched import as_fetched

    personal = t.Personal(["bias", "running_mean"], lr=0.1, steps=2)
    algorithm = t.FedAvg(t.Nice(3), lr=0.1, steps=2)
    problems = [t.Grouped.of(problem, personal) for problem in (centred(), as_fetched(centred()))]
    memory, disk = (t.run(algorithm, problem, rounds=6, metrics=("value",)) for problem in problems)
    np.testing.assert_allclose(disk.columns["value"], memory.columns["value"], rtol=1e-12)
    for i in range(centred().clients):
        for name, leaf in leaves_by_name(memory.model(i)).items():
            np.testing.assert_allclose(disk.model(i)[name], leaf, rtol=1e-12, err_msg=name)
    estimated = t.run(algorithm, problems[1], rounds=6, evaluate=3, metrics=("value",))
    assert estimated.metrics["value_error"] > 0
