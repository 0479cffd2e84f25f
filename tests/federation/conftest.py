"""A module with clients of their own, in Python's path."""

import sys

import pytest

from tests.helpers.insider import CLIENTS


@pytest.fixture(scope="session", autouse=True)
def own_clients(tmp_path_factory):
    folder = tmp_path_factory.mktemp("modules")
    (folder / "own_clients.py").write_text(CLIENTS)
    sys.path.insert(0, str(folder))
    yield
    sys.path.remove(str(folder))
    sys.modules.pop("own_clients", None)
