"""Engines: what answers `ask`."""
