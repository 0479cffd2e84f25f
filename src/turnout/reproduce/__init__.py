"""Reproducing the figures and tables of papers from real runs."""
