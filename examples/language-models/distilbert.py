"""DistilBERT, fine-tuned on AG News."""

from functools import cache

from news import clients, model_folder

from turnout.core.errors import UserError
from turnout.data.ag_news import CLASSES
from turnout.data.text import distilbert
from turnout.problems.oracles.torch_module import parameters_of


@cache
def module():
    """Return the classifier."""
    folder = model_folder()
    if folder is None:
        raise UserError("DistilBERT has no weights here: set MODEL to a folder with distilbert-base-uncased")
    return distilbert(len(CLASSES), folder)


def start():
    """Return the pretrained parameters."""
    return parameters_of(module())


def client(number):
    """Return the texts of client `number` with the loss."""
    return clients(module(), labelled=True)[number]
