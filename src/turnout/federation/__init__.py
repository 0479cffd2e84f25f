"""Federations of real processes: nodes, servers, local federations, and the template of a new project."""
