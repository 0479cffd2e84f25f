"""Federations of real processes: local ones, their nodes and servers, and the template of a new project."""
