"""Runs: options, setup, the loop over chunks of rounds, and traces."""
