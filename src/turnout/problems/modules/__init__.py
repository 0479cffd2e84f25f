"""Modules of the user's own, written with equinox, flax, haiku or PyTorch, as functions of their parameters."""
