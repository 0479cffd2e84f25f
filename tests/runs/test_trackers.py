"""What trackers have written is read back from their own files."""

import numpy as np
import pytest

import turnout as t
from tests.helpers.examples import quadratic
from turnout.core.errors import Caution

DIVERGING = t.FedAvg(t.Full(), lr=10.0, steps=40)

RUN = {"rounds": 12, "seed": 2, "metrics": ("value", "gradient")}


def play(tracker, algorithm=None):
    return t.run(algorithm or t.FedAvg(t.Nice(3), lr=0.05, steps=2), quadratic(), callbacks=[tracker], **RUN).frame


# SQLAlchemy deprecates what MLflow asks of it.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_mlflow(tmp_path):
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed: pip install 'turnout[trackers]'")
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    frame = play(t.trackers.MlFlow("study", uri))
    client = mlflow.MlflowClient(uri)
    (run,) = client.search_runs([client.get_experiment_by_name("study").experiment_id])
    assert run.info.status == "FINISHED" and run.data.params["algorithm.sampler"] == "Nice"
    assert (run.data.params["algorithm.lr"], run.data.params["algorithm.sampler.size"]) == ("0.05", "3")
    for name in ("value", "bytes_up"):
        history = sorted(client.get_metric_history(run.info.run_id, name), key=lambda metric: metric.step)
        assert [metric.step for metric in history] == frame["round"].to_list()
        np.testing.assert_array_equal([metric.value for metric in history], frame[name])
    with pytest.warns(Caution, match="diverged at round 1"):
        play(t.trackers.MlFlow("diverging", uri), DIVERGING)
    (run,) = client.search_runs([client.get_experiment_by_name("diverging").experiment_id])
    assert run.info.status == "FAILED" and run.data.tags["diverged"] == "1"


@pytest.mark.slow
def test_tensorboard(tmp_path):
    pytest.importorskip("tensorboardX", reason="tensorboardX is not installed: pip install 'turnout[trackers]'")
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    frame = play(t.trackers.TensorBoard(tmp_path))
    events = accumulator.EventAccumulator(str(tmp_path / "run"), {accumulator.SCALARS: 0})
    events.Reload()
    for tag, name in (("metrics/value", "value"), ("events/contacts", "contacts")):
        scalars = events.Scalars(tag)
        assert [scalar.step for scalar in scalars] == frame["round"].to_list()
        np.testing.assert_allclose([scalar.value for scalar in scalars], frame[name], rtol=1e-6)
    assert "sampler.size | 3" in str(events.Tensors("parameters/text_summary"))
    assert "finished" in str(events.Tensors("end/text_summary"))
    with pytest.warns(Caution, match="diverged at round 1"):
        play(t.trackers.TensorBoard(tmp_path), DIVERGING)
    play(t.trackers.TensorBoard(tmp_path))
    # Each run has a folder of its own, also within a second.
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "run-2", "run-3"]
    assert [len([*folder.iterdir()]) for folder in tmp_path.iterdir()] == [1, 1, 1]
    events = accumulator.EventAccumulator(str(tmp_path / "run-2"))
    events.Reload()
    assert "diverged" in str(events.Tensors("end/text_summary"))


HEADER, BLOCK = 7, 32768


def logged(content: bytes) -> list[bytes]:
    """The records of a log of LevelDB: blocks of parts, each a checksum, a length and a kind, 1 or 4 at a record's end."""
    records, part, place = [], b"", HEADER
    while place + HEADER <= len(content):
        if BLOCK - place % BLOCK < HEADER:
            place += BLOCK - place % BLOCK
            continue
        length, kind = int.from_bytes(content[place + 4 : place + 6], "little"), content[place + 6]
        part += content[place + HEADER : place + HEADER + length]
        place += HEADER + length
        if kind in (1, 4):
            records, part = [*records, part], b""
    return records


@pytest.mark.slow
def test_weights_and_biases_offline(tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb", reason="wandb is not installed: pip install 'turnout[trackers]'")
    from wandb.proto import wandb_internal_pb2

    monkeypatch.setenv("WANDB_CACHE_DIR", str(tmp_path / "cache"))
    frame = play(t.trackers.WeightsAndBiases("study", folder=str(tmp_path)))
    # The process that writes the file ends, as it does with Python.
    wandb.teardown()
    (path,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    records = [wandb_internal_pb2.Record.FromString(content) for content in logged(path.read_bytes())]
    rows = [
        {item.key or ".".join(item.nested_key): float(item.value_json) for item in record.history.item}
        for record in records
        if record.WhichOneof("record_type") == "history"
    ]
    np.testing.assert_allclose([row["value"] for row in rows], frame["value"], rtol=1e-12)
    np.testing.assert_array_equal([row["round"] for row in rows], frame["round"])
    summaries = [item for record in records if record.WhichOneof("record_type") == "summary" for item in record.summary.update]
    assert [item.value_json for item in summaries if item.key == "end"] == ['"finished"']


@pytest.mark.parametrize("tracker", [t.trackers.MlFlow, t.trackers.TensorBoard, t.trackers.WeightsAndBiases])
def test_a_tracker_that_is_not_installed_says_what_to_install(tracker, monkeypatch, tmp_path):
    for module in ("mlflow", "tensorboardX", "wandb"):
        monkeypatch.setitem(__import__("sys").modules, module, None)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(t.UserError, match=r"pip install 'turnout\[trackers\]'"):
        play(tracker())
