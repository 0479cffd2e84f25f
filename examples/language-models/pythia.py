"""Pythia-70M, trained from scratch to predict the next token."""

import json
import os
from functools import cache

from news import clients

from turnout.data.text import pythia_70m
from turnout.problems.oracles.torch_module import parameters_of


@cache
def module():
    """Return the language model with drawn weights; CHANGES is a JSON table of changes of its configuration."""
    return pythia_70m(**json.loads(os.environ.get("CHANGES", "{}")))


def start():
    """Return the first parameters."""
    return parameters_of(module())


def client(number):
    """Return the texts of client `number` with the loss of the next token."""
    return clients(module(), labelled=False)[number]
