"""Runs: options, the loop over chunks of rounds, and the trace that a run leaves behind."""
