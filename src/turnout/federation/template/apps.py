"""The two apps of this federation, which Flower starts. There is nothing to edit here."""

from pathlib import Path

from turnout.flower import client_app, server_app

FILE = Path(__file__).parent / "federation.toml"

client = client_app(FILE)
server = server_app(FILE)
