"""Language models of the library transformers, read from disk, as PyTorch clients or for sentence embeddings."""

from turnout.core.errors import UserError

try:
    import torch as torch
    import transformers as transformers
except ImportError as error:
    raise UserError(f"language models need torch and transformers ({error}): pip install 'turnout[text]'") from None

from turnout.data.text.classifiers import TextClassifier as TextClassifier
from turnout.data.text.classifiers import distilbert as distilbert
from turnout.data.text.classifiers import minilm as minilm
from turnout.data.text.clients import text_clients as text_clients
from turnout.data.text.embeddings import embed as embed
from turnout.data.text.language_models import PYTHIA_70M as PYTHIA_70M
from turnout.data.text.language_models import pythia_70m as pythia_70m
from turnout.data.text.pretrained import tokenizer_of as tokenizer_of
