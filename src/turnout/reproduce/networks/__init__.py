"""Comparing methods on networks by what it costs to train them."""
