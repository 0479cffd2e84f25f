"""A configuration as an app of Flower: the folder is one that Flower starts, and its apps play the test vectors."""

import importlib.util
import tomllib

import jax
import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'turnout[flower]'")

from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

import turnout as t
from tests.export.vector_configurations import NAMES, assert_servers, written
from tests.helpers.in_process import InProcess
from turnout.experiment.config import read


def test_the_folder_names_two_apps_of_flower(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    app = tmp_path / "app"
    t.export.flower(written("fedavg", tmp_path), app)
    components = tomllib.loads((app / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["components"]
    found = {}
    for name, place in components.items():
        module, _, attribute = place.partition(":")
        spec = importlib.util.spec_from_file_location(f"{name}_of_a_test", app / f"{module}.py")
        loaded = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(loaded)
        found[name] = getattr(loaded, attribute)
    assert isinstance(found["clientapp"], ClientApp) and isinstance(found["serverapp"], ServerApp)
    with pytest.raises(t.UserError, match="not empty"):
        t.export.flower(tmp_path / "fedavg.toml", app)


@pytest.mark.tiers(quick=[], longer=NAMES)
@pytest.mark.parametrize("name", NAMES)
def test_its_apps_play_the_vectors(name, tmp_path, monkeypatch):
    """Every message is one of Flower, which the node's ClientApp answers; the network alone is missing."""
    monkeypatch.syspath_prepend(tmp_path)
    t.export.flower(written(name, tmp_path), tmp_path / "app")
    session, servers = InProcess(read(tmp_path / "app" / "federation.toml")).session(), []
    for _ in range(session.rows):
        session.step(1)
        servers.append(jax.tree.map(np.array, session.progress.server))
    assert_servers(name, servers)
