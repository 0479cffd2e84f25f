"""Engines: they answer an algorithm's `ask`, in one compiled program, by messages to nodes, or for a cost estimate."""
