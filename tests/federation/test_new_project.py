"""What turnout new-federation writes runs in one process, over the network, and by Flower's own nodes, with the same results."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import numpy as np
import polars as pl
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'turnout[flower]'")

from tests.helpers.commands import turnout, wait_for
from turnout.accounting.ledger import NEW
from turnout.federation.local import environment
from turnout.io.ports import free_port

pytestmark = pytest.mark.slow

BIN = Path(sys.executable).parent
TURNOUT = [sys.executable, "-m", "turnout"]
SHORT = (("rounds = 10", "rounds = 2"), ('precision = "single"', 'precision = "double"'))
FORMS = ("torch", "numpy", "jax")


@pytest.fixture(scope="module")
def projects(tmp_path_factory):
    """A short project of each form, each played in one process."""
    place = tmp_path_factory.mktemp("projects")
    for form in FORMS:
        assert turnout("new-federation", place / form, "--form", form)[0] == 0
        file = place / form / "federation.toml"
        text = file.read_text()
        for old, new in SHORT:
            assert old in text
            text = text.replace(old, new)
        file.write_text(text)
        run(["run", "federation.toml", "--out", "here"], place / form)
    return place


def run(words: list, folder: Path) -> None:
    """Run a command of turnout's in `folder`."""
    done = subprocess.run([*TURNOUT, *map(str, words)], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def same(one: Path, other: Path) -> None:
    """Both folders hold the same trace and ledger, but for the clock."""
    first, second = pl.read_parquet(one / "trace.parquet"), pl.read_parquet(other / "trace.parquet")
    assert first.columns == second.columns
    for name in {*first.columns} - {*NEW}:
        np.testing.assert_allclose(first[name], second[name], rtol=1e-10, err_msg=name)


@pytest.mark.everything
@pytest.mark.parametrize("form", FORMS)
def test_a_project_runs_and_learns(projects, form):
    trace = pl.read_parquet(projects / form / "here" / "trace.parquet")
    assert trace["value"][-1] < trace["value"][0]
    assert ("accuracy" in trace.columns) == (form != "numpy")


def test_a_project_runs_over_the_network_with_certified_keys(projects):
    """By the commands of the project's page, in processes of their own; where the server is, no client can be made."""
    folder, port = projects / "torch", free_port()
    elsewhere = projects / "server"
    shutil.copytree(folder, elsewhere, ignore=shutil.ignore_patterns("here"))
    text = (elsewhere / "clients.py").read_text()
    assert "def client(number):" in text
    (elsewhere / "clients.py").write_text(text.replace("def client(number):", "def client(number):\n    raise OSError\n"))
    run(["certify", "keys", "--host", "localhost", "--clients", 3], folder)
    theirs = ["--superlink", f"localhost:{port}"]
    nodes = [
        [
            "node",
            "federation.toml",
            "--client",
            i,
            *theirs,
            "--authority",
            "keys/ca.crt",
            "--key",
            f"keys/node-{i}",
            "--states",
            "s",
        ]
        for i in range(3)
    ]
    started = [background([*TURNOUT, "superlink", "keys", "--port", port], folder)]
    try:
        started += [background([*TURNOUT, *words], folder) for words in nodes]
        server = background(
            [*TURNOUT, "serve", "federation.toml", *theirs, "--keys", folder / "keys", "--out", "there"], elsewhere
        )
        assert server.wait(300) == 0
    finally:
        for process in started:
            process.kill()
            process.wait()
    same(folder / "here", elsewhere / "there")


def answers(address: str) -> bool:
    """Whether a SuperLink answers."""
    try:
        return httpx.get(f"http://{address}/health").is_success
    except httpx.TransportError:
        return False


def background(words: list, folder: Path) -> subprocess.Popen:
    """Start a process in `folder`, with one thread as clients side by side have: sums in single precision depend on it."""
    variables = on_path(folder / "home") | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen([str(word) for word in words], cwd=folder, env=variables)


def on_path(home: Path) -> dict[str, str]:
    """Flower's processes start others by their names."""
    return environment(home) | {"PATH": f"{BIN}:{os.environ['PATH']}"}


@pytest.mark.everything
def test_flwr_run_gives_the_same_run_by_flowers_own_nodes(projects, tmp_path):
    folder, address = projects / "numpy", f"127.0.0.1:{free_port()}"
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.toml").write_text(f'[superlink]\ndefault = "lab"\n[superlink.lab]\naddress = "{address}"\ninsecure = true\n')
    host, _, port = address.rpartition(":")
    superlink = [BIN / "flower-superlink", "--insecure", "--host", host, "--port", port, "--database", tmp_path / "link.db"]
    node = [BIN / "flower-supernode", "--insecure", "--superlink", address]
    started = [background(superlink, tmp_path)]
    try:
        for i in range(3):
            states = f'partition-id={i} states="{tmp_path / f"states-{i}"}"'
            started.append(background([*node, "--port", free_port(), "--node-config", states], tmp_path))
        words = [BIN / "flwr", "run", folder, "lab", "--stream", "--run-config", f'out="{folder / "flower"}"']
        wait_for(lambda: answers(address))
        done = subprocess.run([str(word) for word in words], env=on_path(home), timeout=600, capture_output=True, text=True)
        assert (folder / "flower" / "trace.parquet").exists(), done.stdout + done.stderr
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait(30)
    same(folder / "here", folder / "flower")
    assert list(tmp_path.glob("states-*/*/*.state"))
