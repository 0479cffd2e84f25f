"""Differential privacy: clipping of replies and Gaussian noise."""
