"""The status of a run that a server serves: what it writes, and what the command shows."""

import json
import time
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'turnout[flower]'")

from rich.console import Console

from tests.engines.flower.test_hubs import FEDAVG, FULL, configured
from tests.engines.flower.test_insiders import EXPERIMENT, KEYS, SKIPPING, times
from tests.helpers.commands import turnout
from tests.helpers.in_process import InProcess
from tests.helpers.in_process_hubs import InProcessHubs
from turnout.cli import status as command
from turnout.cli import tables
from turnout.core.errors import UserError
from turnout.engines.flower.engine import Flower
from turnout.engines.flower.greeting import gathered
from turnout.engines.flower.hub_engine import HubFlower
from turnout.engines.flower.registry import Registry
from turnout.experiment.build import session_of
from turnout.federation import status
from turnout.federation.status import FILE, StatusFile, read_status

MEMBERS = (*KEYS[:2], replace(KEYS[2], revoked=True))


@pytest.fixture
def every_write(monkeypatch):
    monkeypatch.setattr(status, "WRITE_EVERY", 0.0)
    monkeypatch.setattr("turnout.runs.session.CHUNK_SECONDS", 0.0)


def play(folder, federation: InProcess, experiment=SKIPPING, timeout=0.0) -> list[status.Status]:
    """Run an experiment as `serve` does, and return the status after each chunk and at the end."""
    seen = []
    with StatusFile(folder, experiment) as file:
        nodes = federation.greeted(timeout, file.waits)
        seen.append(read_status(folder))
        session = session_of(experiment, federation.built, engine=partial(Flower, federation, nodes, False))
        watch = file.after(lambda session: None, nodes)
        for _ in session.play():
            watch(session)
            seen.append(read_status(folder))
    return [*seen, read_status(folder)]


@pytest.mark.slow
def test_the_status_is_that_of_the_run(tmp_path, every_write):
    federation = InProcess(SKIPPING, {1: times(float("nan"))}, Registry(MEMBERS))
    before, *during, after = play(tmp_path, federation)
    assert (before.state, before.round, during[0].state, during[0].round) == ("waiting", 0, "running", 0)
    assert [each.round for each in during] == [*range(9)]
    assert [each.members[1].refused for each in during] == [0, 1, 2, 3, 4, 5, 5, 5, 5]
    assert [each.members[1].standing for each in during] == ["present"] * 5 + ["left out"] * 4
    assert {each.members[2].standing for each in during} == {"revoked"} and after.members[0].standing == "present"
    assert (after.state, after.round, after.rounds, after.why) == ("finished", 8, 8, "")
    assert after.unusable_replies["not finite"] == 5
    assert 0 == during[0].bytes_down < during[1].bytes_down < after.bytes_down


@pytest.mark.longer
def test_a_wait_and_its_end_are_written(tmp_path, every_write, monkeypatch):
    federation = InProcess(EXPERIMENT, {}, Registry(KEYS))
    absent, waits = federation.apps.pop(11), []

    def sleep(seconds):
        waits.append(read_status(tmp_path))
        federation.apps[11] = absent

    with monkeypatch.context() as patch:
        patch.setattr(time, "sleep", sleep)
        play(tmp_path, federation, EXPERIMENT, 60.0)
    assert [(each.state, each.why) for each in waits] == [("waiting", "waiting for 1 of 3 clients, the first is hospital 1")]
    assert [member.standing for member in waits[0].members] == ["present", "absent", "present"]
    federation.apps.pop(12)
    with pytest.raises(UserError):
        play(tmp_path, federation, EXPERIMENT)
    assert read_status(tmp_path).state == "stopped" and "did not answer within 0 s" in read_status(tmp_path).why


@pytest.mark.longer
def test_the_command_shows_it_in_80_columns(tmp_path, every_write, monkeypatch):
    play(tmp_path, InProcess(SKIPPING, {1: times(float("nan"))}, Registry(MEMBERS)))
    monkeypatch.setattr(tables, "console", Console(width=80))
    code, out, errors = turnout("status", tmp_path, "--watch")
    assert (code, errors) == (0, "") and max(map(len, out.splitlines())) <= 80 and "\x1b" not in out
    rows = [line.split() for line in out.splitlines() if line.strip()[:1].isdigit() and "hospital" in line]
    assert [row[3] for row in rows] == ["present", "left", "revoked"]
    assert "file: finished, round 8 of 8" in out and "5 replies: not finite" in out and "bytes to the clients" in out


@pytest.mark.longer
def test_hubs_are_shown_above_their_clients(tmp_path, every_write, monkeypatch):
    """Twelve clients in three hubs, of which the second is away."""
    experiment = configured(FULL + FEDAVG, run="[faults]\nmissing = 'skip'")
    place = InProcessHubs(experiment)
    place.away = {101}
    with StatusFile(tmp_path, experiment) as file:
        members = gathered(place.clients(), 0.0, True)
        session = session_of(experiment, place.built, engine=partial(HubFlower, members.mailbox, members, False))
        watch = file.after(lambda session: None, members)
        for _ in session.play():
            watch(session)
    shown = read_status(tmp_path)
    assert [(hub.standing, hub.rows) for hub in shown.hubs] == [("present", 4), ("absent", 0), ("present", 4)]
    assert [client.standing for client in shown.members] == ["present"] * 4 + ["absent"] * 4 + ["present"] * 4
    monkeypatch.setattr(tables, "console", Console(width=80))
    lines = [line.split() for line in turnout("status", tmp_path)[1].splitlines()]
    heads = [line for line in lines if "status" in line]
    assert heads == [["hub", "name", "status", "clients", "refused"], ["client", "name", "status", "rows", "refused"]]


def test_a_status_is_watched_until_the_end(tmp_path, every_write, monkeypatch):
    with StatusFile(tmp_path, EXPERIMENT) as file:
        texts = iter(["waiting for this", "waiting for that"])

        def sleep(seconds):
            text = next(texts, None)
            if text is None:
                file.__exit__(None, None, None)
            else:
                file._write("waiting", text)

        monkeypatch.setattr(command.time, "sleep", sleep)
        code, out, _ = turnout("status", tmp_path, "--watch")
    assert code == 0 and [out.count(f"for {what}\n") for what in ("the SuperLink", "this", "that")] == [1, 1, 1]
    assert out.count("file: ") == 4 and "file: finished" in out


@pytest.mark.slow
def test_the_privacy_spent_is_in_the_status(tmp_path, every_write):
    pytest.importorskip("dp_accounting", reason="dp-accounting is not installed: pip install 'turnout[privacy]'")
    from turnout.privacy.mechanism import Privacy

    experiment = replace(SKIPPING, privacy=Privacy(clip=1.0, noise_multiplier=4.0, delta=1e-5))
    *_, after = play(tmp_path, InProcess(experiment), experiment)
    assert after.epsilon > 0 and after.delta == 1e-5


def test_a_finished_run_is_left_alone(tmp_path):
    (tmp_path / "summary.json").write_text("{}")
    with pytest.raises(UserError), StatusFile(tmp_path, EXPERIMENT):
        raise UserError("it holds another run")
    assert not (tmp_path / FILE).exists()


FIELDS = st.dictionaries(st.sampled_from(["name", "rounds", "state", "members"]), st.text() | st.none())


@pytest.mark.slow
@given(st.binary(max_size=50) | FIELDS.map(lambda fields: json.dumps(fields).encode()))
def test_what_is_no_status_is_a_sentence(tmp_path_factory, content):
    folder = tmp_path_factory.mktemp("status")
    (folder / FILE).write_bytes(content)
    code, out, errors = turnout("status", folder)
    assert code == 2 and out == "" and "is not as a server writes it" in errors and "Traceback" not in errors


def test_a_folder_without_a_serving_run_is_a_sentence(tmp_path):
    for folder in (tmp_path, tmp_path / "none"):
        code, _, errors = turnout("status", folder)
        assert code == 2 and errors.startswith(f"turnout: {folder} holds no run of a server: give") and errors.count("\n") == 1
