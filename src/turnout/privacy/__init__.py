"""Differential privacy of replies."""
