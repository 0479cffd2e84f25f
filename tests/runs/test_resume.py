"""Interrupted work goes on from its last checkpoint and ends as if nothing had happened."""

import signal

import pytest
from safetensors.numpy import load_file

from tests.helpers.commands import config, start, turnout
from turnout.experiment import run
from turnout.experiment.config import read
from turnout.runs import session

LONG = {"run": {"rounds": 15_000, "every": 20}, "split": {"kind": "iid", "clients": 12}}
RESULTS = ("trace.parquet", "model.safetensors", "split.npz", "config.toml")


def interrupt(process, folder, with_signal, wanted="checkpoint*") -> int:
    """Send a signal once a checkpoint, or another wanted file, is there; return the exit code."""
    while not list(folder.rglob(wanted)):
        assert process.poll() is None, process.communicate()
        try:
            process.wait(timeout=0.02)
        except Exception:  # noqa: BLE001 - it has not ended yet, which is what is hoped for
            continue
    process.send_signal(with_signal)
    process.said = process.communicate(timeout=60)
    return process.returncode


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The results of the long run, uninterrupted."""
    folder = tmp_path_factory.mktemp("whole")
    assert turnout("run", config(folder, **LONG), "--out", folder / "out")[0] == 0
    return {name: (folder / "out" / name).read_bytes() for name in RESULTS}


@pytest.mark.slow
@pytest.mark.parametrize(("kill", "code"), [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 130)])
def test_a_stopped_run_ends_as_an_uninterrupted_one(tmp_path, whole, kill, code):
    out = tmp_path / "out"
    process = start("run", config(tmp_path, **LONG), "--out", out)
    assert interrupt(process, out, kill) == code
    if kill == signal.SIGINT:
        assert process.said[1] == f"turnout: stopped; turnout resume {out} continues from the last checkpoint\n"
    assert (out / "checkpoint.safetensors").exists() and not (out / "summary.json").exists()
    assert turnout("resume", out)[0] == 0
    assert {name: (out / name).read_bytes() for name in RESULTS} == whole
    assert not list(out.rglob("*.partial"))
    code, said, err = turnout("resume", out)
    assert (code, err) == (0, "") and "nothing to resume" in said


@pytest.mark.slow
def test_a_checkpoint_of_another_configuration_is_refused(tmp_path):
    out = tmp_path / "out"
    interrupt(start("run", config(tmp_path, **LONG), "--out", out), out, signal.SIGKILL)
    changed = (out / "config.toml").read_text().replace("lr = 0.3", "lr = 0.2")
    (out / "config.toml").write_text(changed)
    before = (out / "checkpoint.safetensors").read_bytes()
    code, _, err = turnout("resume", out)
    assert code == 2 and err.count("\n") == 1 and "another configuration" in err
    assert (out / "checkpoint.safetensors").read_bytes() == before
    (out / "checkpoint.safetensors").write_bytes(before[: len(before) // 2])
    code, _, err = turnout("resume", out)
    assert code == 2 and err.count("\n") == 1, err


def test_a_folder_without_a_run_cannot_be_resumed(tmp_path):
    code, _, err = turnout("resume", tmp_path)
    assert code == 2 and "holds no run" in err


@pytest.mark.slow
def test_the_length_of_chunks_changes_nothing(tmp_path, monkeypatch):
    """Chunks that grow freely and chunks of one row give the same bits."""
    experiment = read(config(tmp_path, **{**LONG, "run": {"rounds": 300, "every": 7}}))
    quiet = lambda session: None  # noqa: E731
    run.start(experiment, tmp_path / "long", None, quiet, "test")
    monkeypatch.setattr(session, "CHUNK_SECONDS", 0.0)
    run.start(experiment, tmp_path / "short", None, quiet, "test")
    for name in ("trace.parquet", "model.safetensors"):
        assert (tmp_path / "long" / name).read_bytes() == (tmp_path / "short" / name).read_bytes()
    assert len(load_file(tmp_path / "short" / "model.safetensors")["x"]) == 30
