"""Sites with policies in a federation of real processes."""

import json
import os
from functools import partial

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'turnout[flower]'")
pytest.importorskip("dp_accounting", reason="dp-accounting is not installed: pip install 'turnout[privacy]'")

from tests.helpers.commands import turnout
from tests.helpers.insider import CLIENTS, LOCAL, SECRET, TOML
from turnout.core.errors import UserError
from turnout.engines.flower.engine import Flower
from turnout.engines.flower.server_connection import flower_run
from turnout.experiment.build import build, session_of
from turnout.experiment.config import read
from turnout.federation.local import Federation
from turnout.federation.server import connect_clients
from turnout.io.audit import read_entries
from turnout.io.serialization import decode, encode

POLICY = """
algorithms = ["fedavg"]
rounds = 5
[ranges.fedavg]
lr = [0.1, 1.0]
"""
PRIVATE = "epsilon = 8.0\ndelta = 1e-5\n" + POLICY


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A SuperLink, and configurations of two nodes."""
    folder = tmp_path_factory.mktemp("federation")
    (folder / "own_clients.py").write_text(CLIENTS)
    (folder / "own.toml").write_text(TOML.replace("rounds = 30", "rounds = 2"))
    federation = Federation(folder / "federation", folder / "own.toml", 2, None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]))
        patch.syspath_prepend(str(folder))
        try:
            federation.start_registered_superlink()
            yield federation
        finally:
            federation.stop()


def start_nodes(place, policy: str, toml: str, name: str) -> list[str]:
    """Start both nodes with a configuration and a policy of their own."""
    file, rules = place.folder / f"{name}.toml", place.folder / f"{name}-policy.toml"
    file.write_text(toml)
    rules.write_text(policy)
    superlink = ("--superlink", place.server.address, "--authority", place.server.authority, "--policy", rules)
    own = [("--client", i, "--key", place.key(i), "--states", place.folder / f"{name}-{i}") for i in range(2)]
    return [place.run(f"node-{i}", "turnout", "node", file, *superlink, *own[i]) for i in range(2)]


def served(place, toml: str):
    """The configuration of the server."""
    file = place.folder / "server.toml"
    file.write_text(toml)
    return read(file)


@pytest.mark.slow
def test_the_server_changes_the_step_size_and_the_rounds_without_touching_a_site(place):
    started = start_nodes(place, POLICY, TOML.replace("rounds = 30", "rounds = 5"), "plain")
    experiment = served(place, TOML.replace("lr = 1.0", "lr = 0.5").replace("rounds = 30", "rounds = 4"))
    with flower_run(place.server) as grid:
        mailbox, nodes = connect_clients(grid, experiment, None, 60.0)
        built = build(experiment, None, [nodes[i].rows for i in range(2)])
        trace = session_of(experiment, built, engine=partial(Flower, mailbox, nodes, False)).run().trace
    np.testing.assert_allclose(trace.x, SECRET * (1 - 0.5**4))
    outside = served(place, TOML.replace("lr = 1.0", "lr = 2.0").replace("rounds = 30", "rounds = 4"))
    with flower_run(place.server) as grid, pytest.raises(UserError) as told:
        connect_clients(grid, outside, None, 60.0, timeout=5.0)
    assert "refuses this run: lr of fedavg must be from 0.1 to 1 here, but it is 2.0" in str(told.value)
    place.stop(started)


@pytest.mark.slow
def test_what_the_server_asks_beyond_the_run_has_new_noise_until_epsilon_is_spent(place):
    """The attack of three requests, over the network, by the server of the run itself."""
    toml = TOML.replace("rounds = 30", "rounds = 2") + LOCAL
    started, experiment = start_nodes(place, PRIVATE, toml, "private"), served(place, toml)
    with flower_run(place.server) as grid:
        mailbox, nodes = connect_clients(grid, experiment, None, 60.0)
        built = build(experiment, None, [nodes[i].rows for i in range(2)])
        session_of(experiment, built, engine=partial(Flower, mailbox, nodes, False)).run()
        header = json.dumps({"method": "train", "base": [-1, -1], "kept": [-1, -1], "made": [1, 0]}).encode()

        def asked(x):
            body = encode((x, None), np.zeros(3))
            replies = mailbox.send({nodes[0].node: (header, body)}, f"ask_{mailbox.digest}", 2**16, lambda body: None)
            return decode(replies[nodes[0].node], np.zeros(3))[0] if replies else None

        far = np.array([1e9, 0.0, 0.0])
        noise = (asked(far) + asked(-far)) / 2
        assert np.linalg.norm(asked(np.zeros(3)) - noise - SECRET) > 0.1 * 400
        answers = [asked(np.array([float(k), 0.0, 0.0])) for k in range(1, 30)]
    refused = [reason for reason, count in mailbox.counts.items() if count and "would exceed epsilon = 8 " in reason]
    assert answers[-1] is None and len(refused) == 1
    spent = [entry["epsilon"] for entry in read_entries(place.folder / "private-0" / "audit-0.jsonl")]
    assert 7 < spent[-1] <= 8 and spent == sorted(spent)
    place.stop(started)


@pytest.mark.slow
def test_the_logs_of_the_nodes_are_sound(place):
    """Of all runs before; each tells what was asked."""
    code, out, errors = turnout("audit", place.folder)
    assert (code, errors) == (0, "") and "refused" in out
    entries = read_entries(place.folder / "plain-0" / "audit-0.jsonl")
    assert [entry["asked"] for entry in entries].count("ask") == 4
