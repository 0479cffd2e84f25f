"""Language models of the library transformers, read from folders on disk, as PyTorch clients or as features of texts."""

from turnout.errors import UserError

try:
    import torch as torch
    import transformers as transformers
except ImportError as error:
    raise UserError(f"language models need torch and transformers ({error}): pip install 'turnout[text]'") from None

from turnout.text.classifiers import TextClassifier as TextClassifier
from turnout.text.classifiers import distilbert as distilbert
from turnout.text.classifiers import minilm as minilm
from turnout.text.clients import text_clients as text_clients
from turnout.text.embeddings import embed as embed
from turnout.text.language import PYTHIA_70M as PYTHIA_70M
from turnout.text.language import pythia_70m as pythia_70m
from turnout.text.weights import tokenizer_of as tokenizer_of
