"""Test vectors of federated algorithms, and what other packages make of them.

A vector is a JSON file: a tiny problem with its rows, cohorts, local steps and random draws, and every message, reply and state
of three rounds in double precision. docs/vectors.md says how to hold an implementation in any language against them.
"""

from turnout.vectors.comparison import Difference, first_difference
from turnout.vectors.reading import collection, families, load, names

__all__ = ["Difference", "collection", "families", "first_difference", "load", "names"]
