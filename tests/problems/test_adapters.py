"""Low-rank adapters: the same runs as by hand in NumPy, gradients of the merged loss, bytes by shapes, files of PEFT."""

import json
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import turnout as t
from turnout.core.seeds import Seeds, host_key
from turnout.data import IidSplit, load
from turnout.problems.grouped import ungrouped
from turnout.problems.row_sums import Point

CLIENTS, SIZES, INPUTS, OUTPUTS, RANK, ALPHA = 3, (4, 6, 5), 4, 3, 2, 3.0
LR, STEPS, ROUNDS = 0.1, 3, 3
A, B = "layer.weight.lora_A", "layer.weight.lora_B"


@t.record
class Linear(t.Problem):
    """Least squares of W a + c, W [outputs, inputs], with a regulariser."""

    def losses(self, x, rows):
        features, targets = rows
        return jnp.sum((features @ x["layer"]["weight"].T + x["layer"]["bias"][None] - targets) ** 2, -1) / 2

    def regulariser(self, x):
        return 0.05 * jnp.vdot(x["layer"]["weight"], x["layer"]["weight"])

    def start(self, key):
        weight = jnp.arange(float(OUTPUTS * INPUTS)).reshape(OUTPUTS, INPUTS) / 10
        return {"layer": {"weight": weight, "bias": jnp.ones(OUTPUTS)}}


def linear() -> Linear:
    generator, offsets = np.random.default_rng(2), np.cumsum([0, *SIZES])
    rows = generator.normal(size=(offsets[-1], INPUTS)), generator.normal(size=(offsets[-1], OUTPUTS))
    return Linear(rows, offsets, t.Population(count=CLIENTS, weights=np.array([0.5, 0.3, 0.2])))


def adapted(trained="both", *groups) -> t.Grouped:
    return t.Grouped.of(linear(), t.Adapter("layer.weight", RANK, ALPHA, trained=trained), *groups)


def digits(clients=4, model="perceptron", **options) -> t.Neural:
    data = load("digits")
    return t.Neural.of(data, IidSplit(clients=clients).split(data), model=model, **options)


def gradient(i, x):
    """The value of client i, and its gradient along A, B and the bias, by hand."""
    problem = linear()
    features, targets = (leaf[slice(*problem.offsets[i : i + 2])] for leaf in problem.rows)
    weight = x["layer.weight"] + ALPHA / RANK * x[B] @ x[A]
    errors = features @ weight.T + x["layer.bias"] - targets
    along = ALPHA / RANK * (errors.T @ features / len(targets) + 0.1 * weight)
    value = np.sum(errors**2) / 2 / len(targets) + 0.05 * np.sum(weight**2)
    return value, {A: x[B].T @ along, B: along @ x[A].T, "layer.bias": errors.mean(0)}


def by_hand(x, moving):
    """Federated averaging of everyone: the model after the last round."""
    shares = np.asarray(linear().population.weights)
    for number in range(ROUNDS):
        ends, now = [], moving[number % len(moving)]
        for i in range(CLIENTS):
            y = dict(x)
            for _ in range(STEPS):
                slopes = gradient(i, y)[1]
                y = y | {name: y[name] - LR * slopes[name] for name in now}
            ends.append(y)
        x = x | {name: sum(share * end[name] for share, end in zip(shares, ends, strict=True)) for name in now}
    return x


def first(problem) -> dict:
    with jax.enable_x64(True):
        return {name: np.asarray(leaf) for name, leaf in ungrouped(problem).start(host_key(0)).items()}


def played(problem, rounds=ROUNDS, **options):
    return t.run(t.FedAvg(t.Full(), lr=LR, steps=STEPS), problem, **{"rounds": rounds, "metrics": ("value",), **options})


@pytest.mark.longer
def test_stacked_adapters_are_a_program_by_hand():
    """Each round begins with a new A, and W moves by the mean of the products, whatever their rank."""
    problem, shares = adapted("stacked"), np.asarray(linear().population.weights)
    x, bound = first(problem), INPUTS**-0.5
    with jax.enable_x64(True):
        keys = [jax.random.fold_in(Seeds.of(0).exchange(number + 1, 0), CLIENTS) for number in range(ROUNDS)]
        drawn = [np.asarray(jax.random.uniform(jax.random.split(key, 1)[0], x[A].shape, float, -bound, bound)) for key in keys]
    for a in drawn:
        ends = []
        for i in range(CLIENTS):
            y = x | {A: a, B: np.zeros_like(x[B])}
            for _ in range(STEPS):
                slopes = gradient(i, y)[1]
                y = y | {name: y[name] - LR * slopes[name] for name in (A, B, "layer.bias")}
            ends.append(y)
        change = sum(share * end[B] @ end[A] for share, end in zip(shares, ends, strict=True))
        bias = sum(share * end["layer.bias"] for share, end in zip(shares, ends, strict=True))
        x = x | {"layer.weight": x["layer.weight"] + ALPHA / RANK * change, "layer.bias": bias}
    assert np.linalg.matrix_rank(x["layer.weight"] - first(problem)["layer.weight"]) > RANK
    for engine in ("compiled", "nodes"):
        trace = played(problem, engine=engine)
        for name in ("layer.weight", "layer.bias"):
            np.testing.assert_allclose(trace.x[name], x[name], rtol=1e-10)
        assert not trace.x[B].any()
        sent = RANK * (INPUTS + OUTPUTS) + OUTPUTS
        assert trace.ledger.totals()["bytes_up"] == ROUNDS * CLIENTS * 8 * sent
        assert trace.ledger.totals()["bytes_down"] == ROUNDS * CLIENTS * 8 * (sent + INPUTS * OUTPUTS)
    begun = played(problem, rounds=0, start={**x, A: drawn[0], B: np.ones_like(x[B])}).x
    weight = x["layer.weight"] + ALPHA / RANK * np.ones_like(x[B]) @ drawn[0]
    np.testing.assert_allclose(begun["layer.weight"], weight, rtol=1e-12)


CASES = {"both": [(A, B, "layer.bias")], "B": [(B, "layer.bias")], "alternating": [(B, "layer.bias"), (A, "layer.bias")]}
"""The leaves that move in each round, in turn."""


@pytest.mark.tiers(quick=["both-compiled"], longer=["B-compiled", "both-nodes", "B-nodes"])
@pytest.mark.parametrize("engine", ["compiled", "nodes"])
@pytest.mark.parametrize("trained", CASES)
def test_a_run_is_the_one_by_hand(trained, engine):
    problem, moving = adapted(trained), CASES[trained]
    trace, hand = played(problem, engine=engine), by_hand(first(adapted(trained)), moving)
    for name, leaf in hand.items():
        np.testing.assert_allclose(trace.x[name], leaf, rtol=1e-10, atol=1e-12)
    values = [gradient(i, hand)[0] for i in range(CLIENTS)]
    np.testing.assert_allclose(trace.metrics["value"], values @ np.asarray(linear().population.weights), rtol=1e-10)
    np.testing.assert_allclose(trace.clients["loss"], values, rtol=1e-10)
    moved = [sum(hand[name].size for name in moving[number % len(moving)]) for number in range(ROUNDS)]
    assert trace.ledger.totals()["bytes_up"] == CLIENTS * 8 * sum(moved)
    known = sum(hand[name].size for name in (A, B, "layer.bias")) if trained == "alternating" else moved[0]
    assert trace.ledger.totals()["bytes_down"] == CLIENTS * 8 * ROUNDS * known


@pytest.mark.tiers(longer=["both", "alternating"])
@pytest.mark.parametrize("trained", CASES)
def test_the_mean_of_one_matrix_is_exact_and_that_of_both_is_biased(trained):
    algorithm = t.FedAvg(t.Full(), lr=LR, steps=STEPS)
    x = first(adapted(trained))
    ends = []
    for i in range(CLIENTS):
        y = dict(x)
        for _ in range(STEPS):
            slopes = gradient(i, y)[1]
            y = y | {name: y[name] - LR * slopes[name] for name in CASES[trained][0]}
        ends.append(y)
    mean = {name: np.tensordot(linear().population.weights, np.stack([end[name] for end in ends]), 1) for name in (A, B)}
    products = np.tensordot(linear().population.weights, np.stack([end[B] @ end[A] for end in ends]), 1)
    expected = ALPHA / RANK * np.linalg.norm(products - mean[B] @ mean[A])
    assert (expected > 1e-3) == (trained == "both")
    np.testing.assert_allclose(t.averaging_bias(algorithm, adapted(trained)), expected, rtol=1e-8, atol=1e-14)


@pytest.mark.slow
def test_the_first_model_is_the_base_and_a_is_drawn_as_by_peft():
    """Kaiming-uniform with a = sqrt(5) is U[-1/sqrt(inputs), 1/sqrt(inputs)]; B = 0 leaves the outputs as they are."""
    problem = t.Grouped.of(digits(hidden=64), t.Adapter("*", rank=8, inputs_first=True))
    trace, base = (t.run(t.FedAvg(t.Full(), lr=0.1), one, rounds=0) for one in (problem, digits(hidden=64)))
    assert trace.metrics == base.metrics
    a = trace.x["layers.hidden.weight.lora_A"]
    assert a.shape == (8, 64) and not trace.x["layers.hidden.weight.lora_B"].any()
    assert 0.9 / 8 < np.abs(a).max() <= 1 / 8 and abs(a.std() * np.sqrt(3) * 8 - 1) < 0.1
    other = t.run(t.FedAvg(t.Full(), lr=0.1), problem, rounds=0, seed=1).x["layers.hidden.weight.lora_A"]
    assert not np.allclose(a, other)


KINDS = {
    "network": ({"hidden": 16}, {"inputs_first": True}),
    "convolutions": ({"model": "residual-6"}, {}),
    "statistics": ({"model": "residual-6", "norm": "batch"}, {}),
}


@pytest.mark.tiers(quick=[], slow=["statistics"])
@pytest.mark.parametrize("name", KINDS)
def test_a_merged_model_gives_what_the_run_reports(name):
    options, further = KINDS[name]
    problem = digits(**options)
    trace = t.run(t.FedAvg(t.Nice(2), lr=0.2, steps=2), t.Grouped.of(problem, t.Adapter("*", 1, 2.0, **further)), rounds=2)
    merged = t.Grouped.of(problem, t.Adapter("*", 1, 2.0, **further)).merged(trace.x)
    again = t.run(t.FedAvg(t.Nice(2), lr=0.2), problem, rounds=0, start=merged)
    for metric in ("value", "accuracy"):
        np.testing.assert_allclose(again.metrics[metric], trace.metrics[metric], rtol=1e-5)
    assert any(np.any(leaf) for name, leaf in trace.x.items() if name.endswith("lora_B"))


def test_kernels_and_transposed_matrices_are_matrices():
    shapes = {"kernel": jnp.zeros((4, 3, 2, 2)), "dense": jnp.zeros((6, 5)), "bias": jnp.zeros(4)}

    @t.record
    class Shapes(t.Problem):
        def start(self, key):
            return shapes

    problem = t.Grouped.of(
        Shapes((np.zeros((1, 1)),), np.array([0, 1]), t.Population(count=1)), t.Adapter("*", 2, 5.0, inputs_first=True)
    )
    generator = np.random.default_rng(0)
    pairs = {"kernel": ((2, 12), (4, 2)), "dense": ((2, 6), (5, 2))}
    x = {name: np.asarray(leaf) for name, leaf in shapes.items()}
    for name, (a, b) in pairs.items():
        x |= {f"{name}.lora_A": generator.normal(size=a), f"{name}.lora_B": generator.normal(size=b)}
    merged = problem.merged(x)
    a, b = x["kernel.lora_A"].reshape(2, 3, 2, 2), x["kernel.lora_B"]
    np.testing.assert_allclose(merged["kernel"], 2.5 * np.einsum("or,rihw->oihw", b, a), rtol=1e-12)
    np.testing.assert_allclose(merged["dense"], 2.5 * (x["dense.lora_B"] @ x["dense.lora_A"]).T, rtol=1e-12)
    assert problem.groups.frozen == ("dense", "kernel") and "bias" in problem.groups.shared


def test_adapters_of_a_transformer_send_less_than_two_percent():
    """Rank 8 on the attention of a block of width 1,024: 2 * 8 * 2 * 1,024 numbers of each matrix of 1,024^2."""
    width, rank = 1024, 8
    square, wide = (width, width), (4 * width, width)
    names = {"query": square, "key": square, "value": square, "output": square, "up": wide, "down": wide[::-1]}

    @t.record
    class Block(t.Problem):
        def start(self, key):
            return {name: {"weight": jnp.zeros(shape)} for name, shape in names.items()}

    plain = Block((np.zeros((1, 1)),), np.array([0, 1]), t.Population(count=1))
    for leaves, expected in ((["query", "value"], 2 * 2 * rank * width), ("*", 4 * 2 * rank * width + 2 * 5 * rank * width)):
        problem = t.Grouped.of(plain, t.Adapter(leaves, rank), t.Frozen("*"))
        shapes = jax.eval_shape(problem.start, host_key(0))
        sent = sum(leaf.size for leaf in shapes.values())
        assert sent == expected < 0.02 * sum(np.prod(shape) for shape in names.values())


def quadratic_oracle(i):
    """Client i of `linear`, as functions in NumPy of the parameters by name."""
    problem = linear()
    features, targets = (leaf[slice(*problem.offsets[i : i + 2])] for leaf in problem.rows)

    class Whole(t.Oracle):
        size = len(targets)
        returns_new_arrays = True

        def value(self, x, rows):
            return float(self.value_and_grad(x, rows)[0])

        def value_and_grad(self, x, rows):
            weight, bias = x["layer"]["weight"], x["layer"]["bias"]
            errors = features[rows] @ weight.T + bias - targets[rows]
            value = np.sum(errors**2) / 2 / len(errors) + 0.05 * np.sum(weight**2)
            return value, {"layer": {"weight": errors.T @ features[rows] / len(errors) + 0.1 * weight, "bias": errors.mean(0)}}

        def hvp(self, x, v, rows):
            (weight, bias), part = (v["layer"][name] for name in ("weight", "bias")), features[rows]
            errors = part @ weight.T + bias
            return {"layer": {"weight": errors.T @ part / len(part) + 0.1 * weight, "bias": errors.mean(0)}}

    return Whole()


def remote() -> t.Remote:
    with jax.enable_x64(True):
        start = jax.tree.map(np.asarray, linear().start(None))
    clients = [quadratic_oracle(i) for i in range(CLIENTS)]
    return t.Remote.of(start, clients, weights=linear().population.weights)


@pytest.mark.tiers(longer=["B"], everything=["both", "alternating"])
@pytest.mark.parametrize("trained", CASES)
def test_clients_in_numpy_play_the_same_run(trained):
    problem = t.Grouped.of(remote(), t.Adapter("layer.weight", RANK, ALPHA, trained=trained))
    one, other = played(problem, engine="nodes"), played(adapted(trained))
    for name in other.x:
        np.testing.assert_allclose(one.x[name], other.x[name], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(one.metrics["value"], other.metrics["value"], rtol=1e-10)


@pytest.mark.longer
def test_gradients_and_curvature_of_oracles_are_those_of_the_merged_loss():
    problem, whole = adapted(), ungrouped(adapted())
    generator = np.random.default_rng(1)
    x = {name: leaf + generator.normal(size=leaf.shape) for name, leaf in first(problem).items()}
    v = {name: generator.normal(size=x[name].shape) for name in problem.groups.shared}
    fixed = {name: x[name] for name in problem.groups.frozen}
    oracle = t.Grouped.of(remote(), t.Adapter("layer.weight", RANK, ALPHA)).client(0)
    rows = tuple(leaf[: SIZES[0]] for leaf in linear().rows)

    def value(varied):
        return jnp.mean(whole.losses({**fixed, **varied}, rows)) + whole.regulariser({**fixed, **varied})

    with jax.enable_x64(True):
        expected, slopes = jax.value_and_grad(value)({name: x[name] for name in v})
        _, products = jax.jvp(jax.grad(value), ({name: x[name] for name in v},), (v,))
    point = Point({name: x[name] for name in v}, fixed)
    found, own = oracle.value_and_grad(point, slice(None))
    np.testing.assert_allclose([found, oracle.value(point, slice(None))], expected, rtol=1e-12)
    for name in v:
        np.testing.assert_allclose(own[name], slopes[name], rtol=1e-12)
        np.testing.assert_allclose(oracle.hvp(point, v, slice(None))[name], products[name], rtol=1e-11)


@pytest.mark.longer
def test_a_run_starts_from_a_model_with_or_without_adapters(tmp_path):
    trace = played(adapted(), rounds=1)
    trace.save_model(tmp_path / "model.safetensors")
    for start in (trace.x, tmp_path / "model.safetensors"):
        np.testing.assert_array_equal(played(adapted(), rounds=0, start=start).x[B], trace.x[B])
    base = {"layer": {"weight": np.full((OUTPUTS, INPUTS), 2.0), "bias": np.zeros(OUTPUTS)}}
    begun = played(adapted(), rounds=0, start=base)
    assert (begun.x["layer.weight"] == 2).all() and not begun.x[B].any()
    np.testing.assert_array_equal(begun.x[A], played(adapted(), rounds=0).x[A])


@pytest.mark.longer
def test_personal_adapters_stay_with_their_clients():
    """B of its own for each client, and one A (FedSA-LoRA)."""
    trace = played(adapted("both", t.Personal("*.lora_B", lr=0.1), t.Frozen("*")), rounds=2)
    assert trace.ledger.totals()["bytes_up"] == 2 * CLIENTS * 8 * RANK * INPUTS
    assert not np.allclose(trace.model(0)[B], trace.model(1)[B])


@pytest.mark.longer
def test_rows_to_test_with_are_those_of_the_merged_model():
    trace = played(adapted(), test=linear(), metrics=("test_value", "value"))
    values = [gradient(i, trace.x)[0] for i in range(CLIENTS)]
    regulariser = 0.05 * np.sum(adapted().merged(trace.x)["layer"]["weight"] ** 2)
    np.testing.assert_allclose(
        trace.metrics["test_value"], (np.array(values) - regulariser) @ linear().population.weights, rtol=1e-10
    )


@pytest.mark.slow
def test_files_of_peft_come_back(tmp_path):
    adapter = partial(t.Adapter, "*", inputs_first=True)
    problem = t.Grouped.of(digits(hidden=16), adapter(rank=2, alpha=4.0))
    trace = t.run(t.FedAvg(t.Full(), lr=0.2), problem, rounds=1)
    t.save_peft(tmp_path, trace.x, problem)
    config = json.loads((tmp_path / "adapter_config.json").read_text())
    assert (config["peft_type"], config["r"], config["lora_alpha"], config["fan_in_fan_out"]) == ("LORA", 2, 4.0, True)
    assert sorted(config["target_modules"]) == ["layers.hidden", "layers.output"]
    again = t.run(t.FedAvg(t.Full(), lr=0.2), problem, rounds=0, start=t.load_peft(tmp_path, problem))
    for name in problem.adapters:
        np.testing.assert_array_equal(again.x[name], trace.x[name])
    base = {name: np.full(leaf.shape, 0.5) for name, leaf in trace.x.items()}
    assert (t.load_peft(tmp_path, problem, base)["layers.hidden.bias"] == 0.5).all()
    others = (
        (digits(hidden=16), adapter(rank=2), "has the rank 2 and alpha 4.0, and the problem's 2 and 2"),
        (digits(hidden=16), t.Adapter("layers.hidden", 2, 4.0), "has an array 'base_model.model.layers.output.lora_A"),
        (digits(hidden=17), adapter(rank=2, alpha=4.0), "holds adapters of another model: .* has the shape"),
    )
    for model, group, sentence in others:
        with pytest.raises(t.UserError, match=sentence):
            t.load_peft(tmp_path, t.Grouped.of(model, group))
    with pytest.raises(t.UserError, match="no adapters of PEFT that can be read"):
        t.load_peft(tmp_path / "nowhere", problem)


BAD = {
    "vector": (lambda: adapted_by("layer.bias"), r"names layer.bias of shape \(3,\), but adapters are of matrices"),
    "rank": (lambda: adapted_by("layer", rank=4), "of rank 4 of layer.weight is larger than this matrix of 3 rows and 4 columns"),
    "nothing": (lambda: adapted_by("layers"), "Adapter 'layers' is no part of the model, which has layer.bias, layer.weight"),
    "personal": (lambda: adapted("both", t.Personal("layer.weight", lr=0.1)), "layer.weight is both in an Adapter and Personal"),
    "twice": (lambda: adapted("both", t.Adapter("layer", rank=1)), "layer.weight has two adapters"),
    "everything": (lambda: adapted("B", t.Frozen("*"), t.Frozen("*.lora_B")), "leave no parameter that is shared"),
    "stacked": (
        lambda: t.run(t.MbGd(t.Full(), lr=0.1), adapted("stacked"), rounds=1),
        "replies of MbGd are no differences of parameters",
    ),
    "stacked-personal": (lambda: adapted("stacked", t.Personal("layer.weight", lr=0.1)), "both in an Adapter and Personal"),
    "stacked-peft": (lambda: t.save_peft("x", {}, adapted("stacked")), "stacked adapters are merged into their matrices"),
    "bias": (lambda: t.averaging_bias(t.FedAvg(t.Full(), lr=0.1), linear()), "the problem has none: give Grouped.of an Adapter"),
    "peft": (lambda: t.save_peft("x", {}, linear()), "save_peft is about adapters, and the problem has none"),
    "start": (lambda: played(adapted(), start={A: np.zeros((RANK, INPUTS))}), "start holds another architecture"),
}


def adapted_by(leaves, rank=1):
    return t.Grouped.of(linear(), t.Adapter(leaves, rank))


@pytest.mark.parametrize("name", BAD)
def test_mistakes_are_told(name):
    make, sentence = BAD[name]
    with pytest.raises(t.UserError, match=sentence):
        make()
