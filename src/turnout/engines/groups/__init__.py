"""Runs of problems with groups: what clients keep and train by themselves, and the statistics that the server averages."""
