"""Client files on the command line: written, run, killed and resumed, and mistakes told in one sentence."""

import signal

import polars as pl
import pytest
from safetensors.numpy import load_file

from tests.helpers.commands import config, start, turnout
from tests.runs.test_resume import interrupt

CLIENTS = {"split": {"kind": "iid", "clients": 12}}
SCAFFOLD = {"algorithm": {"kind": "scaffold", "lr": 0.1}, "sampler": {"kind": "nice", "size": 3}}


def written(folder, **tables):
    """Write the clients of a configuration to a file, and return a configuration that reads them."""
    memory = config(folder, **CLIENTS, **tables)
    code, said, err = turnout("data", "write", memory, folder / "clients.arrow")
    assert (code, err) == (0, "") and "has 12 clients" in said
    problem = {"kind": "logistic", "data": str(folder / "clients.arrow"), "mu": 0.1}
    return memory, tables | {"problem": problem, "split": {"kind": "natural"}}


@pytest.mark.longer
def test_a_run_from_a_file_is_the_run_in_memory(tmp_path):
    memory, tables = written(tmp_path, **SCAFFOLD, run={"rounds": 30})
    assert turnout("run", memory, "--out", tmp_path / "memory")[0] == 0
    (tmp_path / "disk").mkdir()
    assert turnout("run", config(tmp_path / "disk", **tables), "--out", tmp_path / "disk" / "out")[0] == 0
    one, other = (pl.read_parquet(folder / "trace.parquet") for folder in (tmp_path / "memory", tmp_path / "disk" / "out"))
    assert (one["value"] - other["value"]).abs().max() < 1e-12
    assert one["bytes_up"].equals(other["bytes_up"])
    assert not [*(tmp_path / "disk" / "out").glob("states-*")]


@pytest.mark.slow
def test_a_run_from_a_file_that_is_killed_ends_as_an_uninterrupted_one(tmp_path):
    _, tables = written(tmp_path, **SCAFFOLD, run={"rounds": 3_000, "every": 20})
    file, whole, out = config(tmp_path, **tables), tmp_path / "whole", tmp_path / "out"
    assert turnout("run", file, "--out", whole)[0] == 0
    assert interrupt(start("run", file, "--out", out), out, signal.SIGKILL, "states-*") == -signal.SIGKILL
    assert [*out.glob("states-*")] and not (out / "summary.json").exists()
    assert turnout("resume", out)[0] == 0
    for name in ("trace.parquet", "model.safetensors"):
        assert (out / name).read_bytes() == (whole / name).read_bytes()
    assert load_file(out / "model.safetensors")


def test_mistakes_are_told_in_one_sentence(tmp_path):
    _, tables = written(tmp_path)
    pl.DataFrame({"a": [1.0], "label": [1]}).write_parquet(tmp_path / "table.parquet")
    for arguments, words in (
        (("run", config(tmp_path, "other", **tables | CLIENTS), "--out", tmp_path / "x"), "has its clients already"),
        (("data", "write", tmp_path / "table.parquet", tmp_path / "y.arrow"), "name its column of clients"),
        (("data", "write", tmp_path / "table.parquet", tmp_path / "y.arrow", "--client", "user"), "no column 'user'"),
        (
            ("run", config(tmp_path, "mesh", **tables, run={"mesh": 2}), "--out", tmp_path / "x"),
            "does not go with clients on disk",
        ),
    ):
        code, _, err = turnout(*arguments)
        assert code == 2 and err.count("\n") == 1 and words in err, err
