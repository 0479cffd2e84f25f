"""Language models compute what transformers computes with the same weights, and a round is that of PyTorch clients."""

import json
import warnings
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest
from safetensors.numpy import load_file

import turnout as t
from tests.helpers.commands import config, turnout
from turnout.core.errors import UserError
from turnout.core.leaf_names import leaves_by_name
from turnout.data import load
from turnout.data.splits import Split
from turnout.problems.language.tokens import FileTokenizer

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'turnout[text]'")
transformers = pytest.importorskip("transformers", reason="transformers is not installed: pip install 'turnout[text]'")

from turnout.data.text import text_clients, tokenizer_of  # noqa: E402
from turnout.data.text.language_models import PYTHIA_70M  # noqa: E402
from turnout.problems.oracles.torch_module import parameters_of  # noqa: E402

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "shares", "fell", "team", "won", "again", "the", "today"]
TEXTS = ["the team won again", "shares fell", "team won", "the shares fell again today", "the team", "today the team"] * 2
LABELS = [1, 0, 1, 0, 1, 1] * 2
SPLIT = Split.of([np.arange(0, 3), np.arange(3, 8), np.arange(8, 12)], 12)
NEOX = {
    "vocab_size": 16,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 16,
}
BERT = {"vocab_size": 16, "dim": 16, "n_layers": 2, "n_heads": 4, "hidden_dim": 24, "max_position_embeddings": 16}
CLOSE = 1e-5
TINY = {"width": 8, "layers": 1, "heads": 2}


def data(texts=TEXTS):
    return load({"text": texts, "label": LABELS[: len(texts)]})


def saved(model, folder, scale=0.2):
    """Save a model, whose parameters are drawn far from zero so that each matters, and a tokenizer of a few words."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(scale * torch.randn(parameter.shape, generator=generator))
    tokenizer = Tokenizer(models.WordLevel({word: k for k, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.Lowercase(), pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]")
    fast.save_pretrained(folder)
    model.eval().save_pretrained(folder)
    return folder


def neox(**changes):
    return transformers.GPTNeoXForCausalLM(transformers.GPTNeoXConfig(**{**NEOX, **changes}))


def distilbert(**changes):
    config = transformers.DistilBertConfig(num_labels=2, **{**BERT, **changes})
    return transformers.DistilBertForSequenceClassification(config)


@pytest.fixture(scope="module")
def pythia_folder(tmp_path_factory):
    return saved(neox(), tmp_path_factory.mktemp("pythia"))


@pytest.fixture(scope="module")
def bert_folder(tmp_path_factory):
    return saved(distilbert(), tmp_path_factory.mktemp("bert"))


def language(folder=None, texts=TEXTS, split=SPLIT, **options):
    return t.LanguageModel.of(data(texts), split, "gpt-neox", folder, **{"length": 8, **options})


def classifier(folder=None, **options):
    return t.TextClassifier.of(data(), SPLIT, "distilbert", folder, **{"length": 8, **options})


def single(x):
    return jax.tree.map(lambda leaf: leaf.astype(jnp.float32), x)


def masked(tokens):
    """Tokens and their mask as transformers has them."""
    tokens = torch.tensor(np.asarray(tokens)).long()
    return {"input_ids": tokens.clamp(min=0), "attention_mask": (tokens >= 0).long()}


def close(found, known):
    """Compare arrays by name, up to 1e-5 of the largest number of each."""
    known = {name.replace("lm_head.", "embed_out."): np.asarray(array) for name, array in known.items()}
    assert found.keys() == known.keys()
    for name, array in known.items():
        largest = np.abs(array).max()
        np.testing.assert_allclose(found[name], array, rtol=0, atol=CLOSE * max(largest, 1e-2), err_msg=name)


def gradients(model):
    return {name: parameter.grad.numpy() for name, parameter in model.named_parameters()}


def equal_language_models(model, problem):
    """Compare logits, the losses of texts and all gradients, in single precision."""
    x, (tokens, labels) = single(problem.start(jax.random.key(0))), problem.rows
    inputs = masked(tokens)
    logits = model(**inputs).logits
    np.testing.assert_allclose(
        np.asarray(x(jnp.asarray(tokens)))[tokens >= 0],
        logits.detach().numpy()[tokens >= 0],
        rtol=0,
        atol=CLOSE * np.abs(logits.detach().numpy()).max(),
    )
    each = torch.nn.functional.cross_entropy(logits[:, :-1].transpose(1, 2), inputs["input_ids"][:, 1:], reduction="none")
    counted = inputs["attention_mask"][:, 1:].float()
    each = (each * counted).sum(1) / counted.sum(1)
    each.mean().backward()
    rows = jnp.asarray(tokens), jnp.asarray(labels)
    losses = jax.jit(problem.losses)(x, rows)
    np.testing.assert_allclose(losses, each.detach().numpy(), rtol=CLOSE)
    close(leaves_by_name(jax.jit(jax.grad(lambda x: problem.losses(x, rows).mean()))(x)), gradients(model))


@pytest.mark.longer
def test_gpt_neox_is_that_of_transformers(pythia_folder):
    model = transformers.GPTNeoXForCausalLM.from_pretrained(pythia_folder)
    equal_language_models(model, language(pythia_folder))


@pytest.mark.parametrize(
    "changes", [{"use_parallel_residual": False}, {"rotary_pct": 1.0, "rotary_emb_base": 100, "hidden_act": "gelu_new"}]
)
@pytest.mark.slow
def test_variants_of_gpt_neox_are_those_of_transformers(changes, tmp_path):
    model = neox(**changes)
    equal_language_models(model, language(saved(model, tmp_path), remat=True))


def equal_classifiers(model, problem):
    x, (tokens, labels) = single(problem.start(jax.random.key(0))), problem.rows
    logits = model(**masked(tokens)).logits
    rows = jnp.asarray(tokens), jnp.asarray(labels)
    atol = CLOSE * np.abs(logits.detach().numpy()).max()
    np.testing.assert_allclose(problem.logits(x, rows[0]), logits.detach().numpy(), rtol=0, atol=atol)
    torch.nn.functional.cross_entropy(logits, torch.tensor(labels).long()).backward()
    close(leaves_by_name(jax.jit(jax.grad(lambda x: problem.losses(x, rows).mean()))(x)), gradients(model))


@pytest.mark.slow
def test_distilbert_is_that_of_transformers(bert_folder):
    model = transformers.DistilBertForSequenceClassification.from_pretrained(bert_folder)
    equal_classifiers(model.eval(), classifier(bert_folder))


@pytest.mark.slow
def test_pythia_70m_is_that_of_transformers(tmp_path):
    torch.manual_seed(0)
    model = transformers.GPTNeoXForCausalLM(transformers.GPTNeoXConfig(**PYTHIA_70M))
    problem = language(saved(model, tmp_path, scale=0.0), texts=TEXTS[:2], split=Split.of([[0, 1]], 2))
    assert sum(leaf.size for leaf in jax.tree.leaves(problem.start(jax.random.key(0)))) == 70_426_624
    equal_language_models(model, problem)


@pytest.mark.slow
def test_blocks_computed_again_have_the_same_gradient(pythia_folder):
    one, other = (language(pythia_folder, remat=remat) for remat in (False, True))
    x, rows = single(one.start(jax.random.key(0))), jax.tree.map(jnp.asarray, one.rows)
    first, second = (jax.grad(lambda x, p=p: p.losses(x, rows).mean())(x) for p in (one, other))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), first, second)


@pytest.mark.slow
def test_a_round_is_that_of_pytorch_clients(pythia_folder):
    module = transformers.GPTNeoXForCausalLM.from_pretrained(pythia_folder).eval()
    clients = text_clients(module, tokenizer_of(pythia_folder), TEXTS, None, SPLIT, length=8)
    remote = t.Remote.of(parameters_of(module), clients, weights=SPLIT.sizes)
    algorithm, options = t.FedAvg(t.Full(), lr=0.1, steps=3), {"rounds": 1, "precision": "single"}
    nodes = t.run(algorithm, remote, engine="nodes", **options)
    compiled = t.run(algorithm, language(pythia_folder, weights=SPLIT.sizes), metrics=("value", "perplexity"), **options)
    np.testing.assert_allclose(compiled.columns["value"], nodes.columns["value"], rtol=1e-4)
    np.testing.assert_allclose(compiled.columns["perplexity"], np.exp(nodes.columns["value"]), rtol=1e-4)
    found = leaves_by_name(compiled.x)
    for name, array in nodes.x.items():
        np.testing.assert_allclose(found[name.replace("lm_head.", "embed_out.")], array, atol=1e-4)
    assert compiled.ledger.totals()["bytes_up"] == nodes.ledger.totals()["bytes_up"]


@pytest.mark.slow
def test_a_round_of_classifiers_is_that_of_pytorch_clients(bert_folder):
    from turnout.data.text import distilbert as torch_distilbert

    module = torch_distilbert(2, bert_folder).eval()
    clients = text_clients(module, tokenizer_of(bert_folder), TEXTS, np.array(LABELS), SPLIT, length=8)
    remote = t.Remote.of(parameters_of(module), clients, classifies=True)
    algorithm, options = t.FedAvg(t.Full(), lr=0.1, steps=3), {"rounds": 1, "precision": "single"}
    nodes = t.run(algorithm, remote, engine="nodes", **options)
    compiled = t.run(algorithm, classifier(bert_folder), **options)
    for metric in ("value", "accuracy"):
        np.testing.assert_allclose(compiled.columns[metric], nodes.columns[metric], rtol=1e-4)
    found = leaves_by_name(compiled.x)
    for name, array in nodes.x.items():
        np.testing.assert_allclose(found[name.removeprefix("model.")], array, atol=1e-4)


@pytest.mark.slow
def test_transformers_reads_what_is_saved(tmp_path):
    problem = language(**TINY)
    x = single(problem.start(jax.random.key(1)))
    problem.save_pretrained(tmp_path / "new", x)
    model = transformers.GPTNeoXForCausalLM.from_pretrained(tmp_path / "new").eval()
    tokens = problem.rows[0]
    logits = model(**masked(tokens)).logits.detach().numpy()
    np.testing.assert_allclose(np.asarray(x(jnp.asarray(tokens)))[tokens >= 0], logits[tokens >= 0], atol=CLOSE)


@pytest.mark.slow
def test_transformers_reads_a_classifier_with_its_labels(bert_folder, tmp_path):
    named = load({"text": TEXTS, "label": np.array(["business", "sports"])[LABELS]})
    problem = t.TextClassifier.of(named, SPLIT, "distilbert", bert_folder, length=8)
    x = single(problem.start(jax.random.key(1)))
    problem.save_pretrained(tmp_path, x)
    model = transformers.DistilBertForSequenceClassification.from_pretrained(tmp_path).eval()
    assert model.config.id2label == {0: "business", 1: "sports"}
    logits = model(**masked(problem.rows[0])).logits.detach().numpy()
    np.testing.assert_allclose(x(jnp.asarray(problem.rows[0])), logits, atol=CLOSE)


@pytest.mark.slow
def test_weights_in_half_precision_or_in_several_files_are_read(tmp_path):
    model = neox()
    saved(model, tmp_path)
    (tmp_path / "model.safetensors").unlink()
    model.to(torch.bfloat16).save_pretrained(tmp_path, max_shard_size="5KB")
    assert (tmp_path / "model.safetensors.index.json").exists()
    x = leaves_by_name(language(tmp_path).start(jax.random.key(0)))
    for name, parameter in model.float().named_parameters():
        np.testing.assert_array_equal(x[name.replace("lm_head.", "embed_out.")], parameter.detach().numpy())


@pytest.mark.slow
def test_a_head_that_is_not_there_is_drawn(tmp_path):
    model = distilbert()
    saved(model, tmp_path)
    model.distilbert.save_pretrained(tmp_path / "bare")
    problem = classifier(tmp_path, classes=4)
    x, other = (problem.start(jax.random.key(seed)) for seed in (0, 1))
    assert x.classifier.weight.shape == (4, 16) and (x.classifier.weight != other.classifier.weight).all()
    np.testing.assert_array_equal(
        x.distilbert.embeddings.word_embeddings.weight, other.distilbert.embeddings.word_embeddings.weight
    )


def test_tokens_are_those_of_transformers(pythia_folder):
    known = tokenizer_of(pythia_folder)(TEXTS, truncation=True, max_length=5)["input_ids"]
    assert FileTokenizer(pythia_folder).tokens(TEXTS, 5) == known
    rows = language(pythia_folder, length=5).rows[0]
    assert rows.dtype == np.int32 and rows.shape == (12, 5)
    assert [row[row >= 0].tolist() for row in rows] == known


@pytest.mark.longer
def test_without_a_tokenizer_bytes_are_tokens(tmp_path):
    """Of a model that learnt bytes too, when it is read back."""
    problem = language(texts=["é", "ab", "abc"] * 4, length=2, **TINY)
    assert problem.rows[0][:3].tolist() == [[0xC3, 0xA9], [97, 98], [97, 98]]
    x = single(problem.start(jax.random.key(0)))
    assert x.embed_out.weight.shape == (256, 8)
    problem.save_pretrained(tmp_path, x)
    again = language(tmp_path, texts=["é", "ab", "abc"] * 4, length=2)
    np.testing.assert_array_equal(again.rows[0], problem.rows[0])
    np.testing.assert_array_equal(single(again.start(jax.random.key(1))).embed_out.weight, x.embed_out.weight)


@pytest.mark.parametrize("length", [2, 5, 7, 10, 400])
def test_packed_rows_are_the_texts_of_each_client_one_after_another(length):
    problem = language(length=length, packed=True, **TINY)
    rows, offsets = problem.rows[0], problem.offsets
    assert problem.places == rows.shape[1] and problem.population.count == 3
    for client, texts in enumerate(([0, 1, 2], range(3, 8), range(8, 12))):
        whole = b"".join(TEXTS[k].encode() + b"\0" for k in texts)
        found = [row[row >= 0].tolist() for row in rows[offsets[client] : offsets[client + 1]]]
        assert all(len(row) == length for row in found[:-1]) and 2 <= len(found[-1]) <= length
        # One token is nothing to predict.
        tail = len(whole) % length == 1
        assert bytes(np.concatenate(found).tolist()) == whole[: len(whole) - tail]


def test_packed_rows_have_the_end_token_of_the_tokenizer_where_it_has_one(pythia_folder, tmp_path):
    known = tokenizer_of(pythia_folder)(TEXTS)["input_ids"]
    rows = language(pythia_folder, packed=True, split=Split.of([np.arange(12)], 12)).rows[0]
    assert rows[rows >= 0].tolist() == [*np.concatenate(known)]
    ending = json.loads((pythia_folder / "tokenizer.json").read_text())
    ending["model"]["vocab"]["<|endoftext|>"] = 11
    (tmp_path / "tokenizer.json").write_text(json.dumps(ending))
    rows = language(pythia_folder, tokenizer=tmp_path, packed=True, split=Split.of([np.arange(12)], 12)).rows[0]
    assert rows[rows >= 0].tolist() == [*np.concatenate([[*part, 11] for part in known])]


@pytest.mark.slow
def test_tokens_stay_whole_numbers_in_every_precision_and_storage():
    ragged = Split.of([[0], np.arange(1, 12)], 12)
    for precision, split in (("single", ragged), ("mixed", SPLIT), ("double", SPLIT)):
        # The gradient of attention in JAX promotes types.
        with jax.numpy_dtype_promotion("standard"):
            trace = t.run(t.FedAvg(t.Full(), lr=0.1), language(split=split, **TINY), rounds=1, precision=precision)
        np.testing.assert_allclose(trace.columns["value"][0], np.log(256), rtol=0.02)


@pytest.mark.slow
def test_adapters_are_trained_and_sent_alone():
    problem = language(**TINY)
    adapter = t.Adapter("*.query_key_value.weight", rank=1)
    adapted = t.Grouped.of(problem, adapter, t.Frozen("*"))
    algorithm = t.FedAvg(t.Full(), lr=1.0, steps=2)
    whole, part = (t.run(algorithm, each, rounds=3) for each in (problem, adapted))
    sent = [trace.ledger.totals()["bytes_up"] for trace in (whole, part)]
    assert sent[1] == 3 * 3 * 4 * (8 + 24) and sent[1] < sent[0] / 50
    assert part.columns["value"][-1] < part.columns["value"][0]


@pytest.mark.slow
def test_peft_and_transformers_compute_what_adapters_do(tmp_path):
    peft = pytest.importorskip("peft", reason="peft is not installed")
    problem = language(**TINY)
    adapted = t.Grouped.of(problem, t.Adapter("*.query_key_value.weight", rank=1), t.Frozen("*"))
    x = t.run(t.FedAvg(t.Full(), lr=3.0, steps=5), adapted, rounds=2).x
    merged = adapted.merged(x)
    adapted.save_pretrained(tmp_path / "merged", merged)
    adapted.save_pretrained(tmp_path / "base", {name: leaf for name, leaf in x.items() if "lora" not in name})
    t.save_peft(tmp_path / "adapter", x, adapted)
    inputs = masked(problem.rows[0])
    base, model = (transformers.GPTNeoXForCausalLM.from_pretrained(tmp_path / name).eval() for name in ("base", "merged"))
    with warnings.catch_warnings(action="ignore"):
        adapted_base = peft.PeftModel.from_pretrained(base, tmp_path / "adapter").eval()
    known, tokens = model(**inputs).logits.detach().numpy(), problem.rows[0]
    np.testing.assert_allclose(adapted_base(**inputs).logits.detach().numpy(), known, atol=CLOSE)
    np.testing.assert_allclose(np.asarray(merged(jnp.asarray(tokens)))[tokens >= 0], known[tokens >= 0], atol=CLOSE)
    with pytest.raises(UserError, match="x has .*lora_A, unlike the network"):
        adapted.save_pretrained(tmp_path / "wrong", x)


@pytest.mark.slow
def test_a_sweep_is_its_runs():
    problem, algorithm = language(**TINY), t.FedAvg(t.Nice(2), lr=0.1, steps=2)
    swept = t.sweep(algorithm, problem, {"lr": [0.1, 0.5]}, rounds=2)
    for lr, trace in zip((0.1, 0.5), swept.traces, strict=True):
        alone = t.run(replace(algorithm, lr=lr), problem, rounds=2)
        np.testing.assert_allclose(trace.columns["value"], alone.columns["value"], rtol=1e-5)


@pytest.mark.parametrize("algorithm", [
    t.FedAvg(t.Nice(2), lr=0.5, batch=2, epochs=1),
    t.MbLocalGd(t.Independent(size=2, probability=t.KVib()), lr=0.5, batch=2, epochs=1),
    t.DiLoCo(t.Full(), t.optimisers.AdamW(lr=0.01), t.optimisers.Sgd(lr=0.7, momentum=0.9, nesterov=True), steps=3),
], ids=["fedavg", "k-vib", "diloco"])  # fmt: skip
@pytest.mark.slow
def test_the_perplexity_falls(algorithm):
    trace = t.run(algorithm, language(**TINY), rounds=8, test=language(**TINY), metrics=("perplexity", "test_perplexity"))
    assert trace.columns["perplexity"][-1] < 0.8 * trace.columns["perplexity"][0]
    np.testing.assert_allclose(trace.columns["test_perplexity"][0], trace.columns["perplexity"][0], rtol=0.05)


@pytest.mark.slow
def test_nodes_compute_what_is_compiled(pythia_folder):
    algorithm, options = t.FedAvg(t.Nice(2), lr=0.5, batch=2, epochs=1), {"rounds": 2, "metrics": ("value", "perplexity")}
    exchange = t.Exchange(up=t.codecs.TopK(fraction=0.2))
    compiled, nodes = (
        t.run(algorithm, language(pythia_folder), engine=engine, exchange=exchange, **options) for engine in ("compiled", "nodes")
    )
    for name, column in compiled.columns.items():
        np.testing.assert_allclose(column, nodes.columns[name], rtol=1e-4, err_msg=name)
    assert compiled.ledger.totals() == nodes.ledger.totals()


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "model", "metric"), [
    ("language-model", "gpt-neox", "test_perplexity"),
    ("text-classifier", "distilbert", "test_accuracy"),
])  # fmt: skip
def test_configurations_name_models_and_folders(kind, model, metric, pythia_folder, bert_folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f"{text},{label}" for text, label in zip(TEXTS, LABELS, strict=True)]
    (tmp_path / "texts.csv").write_text("\n".join(["text,label", *rows]))
    folder = pythia_folder if model == "gpt-neox" else bert_folder
    problem = {"kind": kind, "model": model, "data": {"kind": "csv", "path": "texts.csv"}, "folder": str(folder), "length": 8}
    path = config(
        tmp_path,
        problem={**problem, "test": problem["data"]},
        split={"kind": "iid", "clients": 3},
        algorithm={"kind": "fedavg", "lr": 0.2, "steps": 5},
        sampler={"kind": "nice", "size": 2},
        run={"rounds": 4},
        target={"metric": metric, "below": 0.01},
        groups={"frozen": ["*"], "adapter": {"leaves": ["*attention*.weight"], "rank": 1}},
    )
    code, _, error = turnout("run", path, "--out", "out")
    assert code == 0, error
    trace = pl.read_parquet("out/trace.parquet")
    assert trace["value"][-1] < trace["value"][0] and trace[metric].is_not_null().all()
    weights = load_file("out/model.safetensors")
    assert any(name.endswith("lora_A") for name in weights)


def test_what_does_not_fit_is_one_sentence(pythia_folder, bert_folder, tmp_path):
    small = saved(neox(vocab_size=8), tmp_path / "small")
    bare, mute = tmp_path / "bare", tmp_path / "mute"
    for folder, name in ((bare, "config.json"), (bare, "tokenizer.json"), (mute, "config.json")):
        folder.mkdir(exist_ok=True)
        (folder / name).write_text((pythia_folder / name).read_text())
    mistakes = [
        (lambda: language(bare), "has no model.safetensors"),
        (lambda: language(bert_folder), "architecture 'distilbert', not 'gpt_neox'"),
        (lambda: classifier(pythia_folder), "architecture 'gpt_neox', not 'distilbert'"),
        (lambda: language(tmp_path), "config.json: cannot be read"),
        (lambda: language(mute), "no tokenizer.json"),
        (lambda: language(tmp_path, tokenizer=bare), "config.json: cannot be read"),
        (lambda: language(small), "the tokenizer has 11 tokens, and the model 8"),
        (lambda: language(vocabulary=9, **TINY), "256 tokens, and the model 9: .* or a larger vocabulary"),
        (lambda: language(pythia_folder, length=17), "17 tokens is beyond the 16 places"),
        (lambda: language(texts=["a", " "] * 6, **TINY), "a text of data has no tokens .' '.: leave its row out"),
        (lambda: language(texts=["a", " "] * 6, packed=True, **TINY), "a text of data has no tokens .' '.: leave its row out"),
        (lambda: language(pythia_folder, width=8), "has the width of its model"),
        (lambda: language(width=9, layers=1, heads=2), "width of 9 is not shared by 2 heads"),
        (lambda: language(width=0), "width of a model is a whole number from 1"),
        (lambda: language(depth=3), "unknown number of a model 'depth'"),
        (lambda: t.LanguageModel.of(data(), SPLIT, "gpt"), "unknown model 'gpt'"),
        (lambda: t.LanguageModel.of(load("iris"), SPLIT, "gpt-neox"), "iris has no texts"),
        (lambda: t.run(t.Gd(t.Full(), lr=1.0), t.Quadratic.random(2, 2), rounds=1, metrics=("perplexity",)), "no perplexity"),
    ]
    for mistake, sentence in mistakes:
        with pytest.raises(UserError, match=sentence):
            mistake()
    weights = bare / "model.safetensors"
    weights.write_bytes(b"nothing")
    with pytest.raises(UserError, match="weights cannot be read"):
        language(bare)
    weights.write_bytes((small / "model.safetensors").read_bytes())
    with pytest.raises(UserError, match="have another shape of gpt_neox.embed_in.weight"):
        language(bare).start(jax.random.key(0))
    (bare / "config.json").write_text(json.dumps({"hidden_size": 8}))
    with pytest.raises(UserError, match="no model_type"):
        language(bare)


def test_texts_without_labels_and_with_clients_are_data(tmp_path):
    frame = pl.DataFrame({"text": TEXTS, "author": ["ann", "bob"] * 6})
    frame.write_csv(tmp_path / "texts.csv")
    frame.write_parquet(tmp_path / "texts.parquet")
    for source in (frame, {"text": TEXTS, "author": ["ann", "bob"] * 6}, tmp_path / "texts.csv", tmp_path / "texts.parquet"):
        loaded = load(source, label="", client="author")
        assert loaded.texts.tolist() == TEXTS and loaded.labels.tolist() == [0] * 12 and loaded.ids.tolist() == ["ann", "bob"] * 6
