"""Optimisers: their steps against NumPy programs and PyTorch, layer by layer, clipped, and what they ask of clients."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax.contrib
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import turnout as t
from turnout import optimisers as o
from turnout.optimisers.base import hessian_diagonal

STEPS = 6
SHAPES = {"a": (3,), "b": (2, 2)}


def gradients(seed: int) -> list[dict]:
    """A gradient for each step and layer, some entries being zero."""
    generator = np.random.default_rng(seed)
    draw = {name: generator.normal(size=(STEPS, *shape)) for name, shape in SHAPES.items()}
    draw["a"][:, 0] = 0
    return [{name: part[k] for name, part in draw.items()} for k in range(STEPS)]


def start() -> dict:
    return {name: np.linspace(-1, 2, int(np.prod(shape))).reshape(shape) for name, shape in SHAPES.items()}


def flat(tree) -> np.ndarray:
    """All layers as one vector."""
    return np.concatenate([np.ravel(tree[name]) for name in SHAPES])


@partial(jax.jit, static_argnames="curved")
def all_steps(optimiser, x, slopes, curved=False):
    """x after every step, by the optimiser."""
    state, result = optimiser.start(x), []
    for slope in slopes:
        x, state = optimiser.step(x, slope, state, partial(curvature_at, x) if curved else None)
        result.append(x)
    return result


def curvature_at(x, number):
    """Made up, below zero in some places, and another in each step."""
    return jax.tree.map(lambda x: x**2 - 0.5 * number.astype(x.dtype), x)


def sgd(x, slopes, lr=0.1, beta=0.0, nesterov=False):
    m = np.zeros_like(x)
    for g in slopes:
        m = beta * m + g
        x = x - lr * (g + beta * m if nesterov else m)
        yield x


def adam(x, slopes, lr=0.1, beta1=0.9, beta2=0.999, epsilon=1e-8, decay=0.0, nesterov=False):
    m = v = np.zeros_like(x)
    for k, g in enumerate(slopes, start=1):
        m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g**2
        mean = ahead(m, g, beta1, k) if nesterov else m / (1 - beta1**k)
        x = x - lr * (mean / (np.sqrt(v / (1 - beta2**k)) + epsilon) + decay * x)
        yield x


def ahead(m, g, beta, k):
    """The mean m one step on, were the next gradient g too, both corrected for their start."""
    return beta * m / (1 - beta ** (k + 1)) + (1 - beta) * g / (1 - beta**k)


def muon(x, slopes, lr=0.1, beta=0.8, decay=0.3):
    """Newton-Schulz steps with singular values in the place of matrices; other layers by Adam."""
    if x.ndim != 2:
        yield from adam(x, slopes, lr, decay=decay, nesterov=True)
        return
    m = np.zeros_like(x)
    for k, g in enumerate(slopes, start=1):
        m = beta * m + (1 - beta) * g
        u, s, v = np.linalg.svd(ahead(m, g, beta, k))
        s = s / (np.linalg.norm(s) + 1e-8)
        for _ in range(5):
            s = 3.4445 * s - 4.775 * s**3 + 2.0315 * s**5
        x = x - lr * ((u * s) @ v + decay * x)
        yield x


def adagrad(x, slopes, lr=0.1, initial=0.2, epsilon=1e-7):
    v = np.full_like(x, initial)
    for g in slopes:
        v = v + g**2
        x = x - lr * g / np.sqrt(v + epsilon)
        yield x


def adaptive(x, slopes, second, lr=0.1, beta1=0.8, tau=0.05):
    m, v = np.zeros_like(x), np.full_like(x, tau**2)
    for g in slopes:
        m, v = beta1 * m + (1 - beta1) * g, second(v, g**2)
        x = x - lr * m / (np.sqrt(v) + tau)
        yield x


def apollo(x, slopes, lr=0.1, beta=0.9, epsilon=1e-4):
    m = b = d = np.zeros_like(x)
    for k, g in enumerate(slopes, start=1):
        new = (beta * (1 - beta ** (k - 1)) * m + (1 - beta) * g) / (1 - beta**k)
        length = np.sum(d**4) ** 0.25 + epsilon
        alpha = (np.sum(d * (new - m)) + np.sum(d * b * d)) / length**4
        b, m = b - alpha * d**2, new
        d = m / np.maximum(np.abs(b), 1)
        x = x - lr * d
        yield x


RIVALS = {
    "sgd": (o.Sgd(0.1), sgd),
    "momentum": (o.Sgd(0.1, momentum=0.7), partial(sgd, beta=0.7)),
    "nesterov": (o.Sgd(0.1, momentum=0.7, nesterov=True), partial(sgd, beta=0.7, nesterov=True)),
    "adam": (o.Adam(0.1), adam),
    "adamw": (o.AdamW(0.1, weight_decay=0.3), partial(adam, decay=0.3)),
    "muon": (o.Muon(0.1, beta=0.8, weight_decay=0.3), muon),
    "adagrad": (o.Adagrad(0.1, initial=0.2), adagrad),
    "fedadagrad": (o.FedAdagrad(0.1, beta1=0.8, tau=0.05), partial(adaptive, second=lambda v, s: v + s)),
    "fedadam": (o.FedAdam(0.1, beta1=0.8, tau=0.05), partial(adaptive, second=lambda v, s: 0.99 * v + 0.01 * s)),
    "fedyogi": (
        o.FedYogi(0.1, beta1=0.8, tau=0.05),
        partial(adaptive, second=lambda v, s: v - 0.01 * s * np.sign(v - s)),
    ),
    "apollo": (o.Apollo(0.1), apollo),
}


@pytest.mark.tiers(longer=["momentum", "muon"])
@pytest.mark.parametrize("name", RIVALS)
def test_steps_are_those_of_the_numpy_program_layer_by_layer(name):
    optimiser, program = RIVALS[name]
    slopes = gradients(1)
    result = all_steps(optimiser, start(), slopes)
    for layer in SHAPES:
        wanted = program(start()[layer], [slope[layer] for slope in slopes])
        for x, expected in zip(result, wanted, strict=True):
            np.testing.assert_allclose(x[layer], expected, rtol=1e-6, atol=1e-7)


TORCH = {
    "sgd": (o.Sgd(0.1, momentum=0.7), lambda torch, p: torch.optim.SGD(p, lr=0.1, momentum=0.7)),
    "nesterov": (
        o.Sgd(0.1, momentum=0.7, nesterov=True),
        lambda torch, p: torch.optim.SGD(p, lr=0.1, momentum=0.7, nesterov=True),
    ),
    "adamw": (o.AdamW(0.1, weight_decay=0.3), lambda torch, p: torch.optim.AdamW(p, lr=0.1, weight_decay=0.3)),
    "adam": (o.Adam(0.1, 0.8, 0.99, 1e-6), lambda torch, p: torch.optim.Adam(p, lr=0.1, betas=(0.8, 0.99), eps=1e-6)),
}


@pytest.mark.tiers(quick=["adamw", "adam"], longer=["nesterov"])
@pytest.mark.parametrize("name", TORCH)
def test_steps_are_those_of_pytorch(name):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'turnout[torch]'")
    optimiser, make = TORCH[name]
    x = {layer: torch.tensor(part, requires_grad=True) for layer, part in start().items()}
    other = make(torch, x.values())
    for result, slope in zip(all_steps(optimiser, start(), gradients(2)), gradients(2), strict=True):
        for layer, part in x.items():
            part.grad = torch.tensor(slope[layer])
        other.step()
        for layer, part in x.items():
            np.testing.assert_allclose(result[layer], part.detach().numpy(), rtol=1e-6, atol=1e-7)


def oasis(x, slopes, curvatures, lr=0.1, beta2=0.99, alpha=0.01, adaptive=True):
    """All layers as one vector."""
    rate, theta, before = lr, np.inf, None
    d = curvatures(x, 0)
    for k, g in enumerate(slopes):
        if k:
            d = beta2 * d + (1 - beta2) * curvatures(x, k)
        scale = np.maximum(np.abs(d), alpha)
        if k and adaptive:
            moved, turned = x - before[0], g - before[1]
            bound = np.sqrt(moved @ (scale * moved)) / (2 * np.sqrt(turned @ (turned / scale)))
            new = min(np.sqrt(1 + theta) * rate, bound)
            theta, rate = new / rate, new
        before = x, g
        x = x - rate * g / scale
        yield x


@pytest.mark.parametrize("adaptive", [True, False])
def test_oasis_is_its_numpy_program(adaptive):
    slopes = gradients(3)
    result = all_steps(o.Oasis(0.1, adaptive=adaptive), start(), slopes, curved=True)
    wanted = oasis(flat(start()), [flat(g) for g in slopes], lambda x, k: x**2 - 0.5 * k, adaptive=adaptive)
    for x, expected in zip(result, wanted, strict=True):
        np.testing.assert_allclose(flat(x), expected, rtol=1e-12)


def prodigy(x, slopes, initial, lr=0.9, beta1=0.8, beta2=0.96, epsilon=1e-3, decay=0.2):
    """All layers as one vector: x and d."""
    first, d, r, s, m, v, b = x, initial, 0.0, 0 * x, 0 * x, 0 * x, np.sqrt(beta2)
    for k, g in enumerate(slopes, start=1):
        c = lr * np.sqrt(1 - beta2**k) / (1 - beta1**k)
        r, s = b * r + c * d**2 / initial * (g @ (first - x)), b * s + c * d**2 / initial * g
        m, v = beta1 * m + (1 - beta1) * d * g, beta2 * v + (1 - beta2) * d**2 * g**2
        new = max(d, r / np.abs(s).sum())
        x = x - c * d * (m / (np.sqrt(v) + new * epsilon) + decay * x)
        d = new
        yield x, d


def dadapt(x, slopes, initial, lr=0.9, beta1=0.8, beta2=0.96, epsilon=1e-3, decay=0.2):
    d, r, s, m, v, b = initial, 0.0, 0 * x, 0 * x, 0 * x, np.sqrt(beta2)
    for k, g in enumerate(slopes, start=1):
        c = d * lr * np.sqrt(1 - beta2**k) / (1 - beta1**k)
        r, s = b * r + (1 - b) * c * (g @ (s / (np.sqrt(v) + epsilon))), b * s + (1 - b) * c * g
        m, v = beta1 * m + (1 - beta1) * c * g, beta2 * v + (1 - beta2) * g**2
        x = x - m / (np.sqrt(v) + epsilon) - c * decay * x
        d = max(d, r / ((1 - b) * np.abs(s).sum()))
        yield x, d


@pytest.mark.tiers(longer=["dadapt"])
@pytest.mark.parametrize(("kind", "program"), [(o.Prodigy, prodigy), (o.DAdaptAdamW, dadapt)], ids=["prodigy", "dadapt"])
def test_step_sizes_that_grow_are_those_of_the_numpy_program_over_all_layers(kind, program):
    """Gradients that all point one way, so that d grows in each step."""
    slopes = [jax.tree.map(lambda g: np.abs(g) + 0.1, g) for g in gradients(5)]
    optimiser = kind(0.9, 0.8, 0.96, 1e-3, 0.01, 0.2)
    wanted, sizes = zip(*program(flat(start()), [flat(g) for g in slopes], 0.01), strict=True)
    np.testing.assert_allclose([flat(x) for x in all_steps(optimiser, start(), slopes)], wanted, rtol=1e-12)
    assert sizes[-1] > 3 * 0.01


@pytest.mark.longer
def test_a_server_with_prodigy_is_one_with_that_of_optax_and_needs_no_step_size():
    """With one local step and everyone the server sees lr grad f."""
    problem = t.Quadratic.random(6, 3, 1.0, 10.0, seed=4)
    ours, given = (
        t.run(t.FedOpt(t.Full(), o.Sgd(0.1), server, steps=1), problem, rounds=300, every=100, metrics=("distance",))
        for server in (o.Prodigy(), o.Optimiser.coerce(optax.contrib.prodigy()))
    )
    np.testing.assert_allclose(ours.x, given.x, rtol=0, atol=1e-10)
    assert ours.columns["distance"][-1] < 1e-6 * ours.columns["distance"][0]


def test_oasis_finds_its_rate():
    """Started 1000 times too slow on a quadratic of condition 100 it is as fast as Newton's method with the exact diagonal."""
    scale = jnp.array([1.0, 10.0, 100.0])
    x, optimiser = jnp.ones(3), o.Oasis(1e-3)
    state = optimiser.start(x)
    for _ in range(60):
        x, state = optimiser.step(x, scale * x, state, lambda _: scale)
    assert float(jnp.max(jnp.abs(x))) < 1e-6


@settings(max_examples=30, deadline=None)
@given(st.floats(1e-3, 1e3), st.integers(0, 99))
def test_clipping_is_by_the_norm_over_all_layers(clip, seed):
    slope = gradients(seed)[0]
    x, _ = o.Sgd(1.0, clip=clip).step(start(), slope, o.Sgd(1.0).start(start()))
    length = np.sqrt(sum(np.sum(part**2) for part in slope.values()))
    for layer, part in slope.items():
        np.testing.assert_allclose(start()[layer] - x[layer], part * min(1, clip / length), rtol=1e-12, atol=1e-12)


def test_a_gradient_of_zero_is_not_divided_by():
    x, _ = o.Sgd(1.0, clip=0.5).step(jnp.ones(3), jnp.zeros(3), o.Sgd(1.0).start(jnp.ones(3)))
    np.testing.assert_array_equal(x, 1)


@pytest.mark.longer
def test_random_signs_show_the_diagonal():
    """E[z * (H z)] = diag(H); for a diagonal H every sample is exact."""
    matrix = np.random.default_rng(4).normal(size=(4, 4))
    matrix = matrix + matrix.T
    keys = jax.random.split(jax.random.key(0), 20_000)
    result = jax.vmap(lambda key: hessian_diagonal(lambda v: jnp.asarray(matrix) @ v, jnp.zeros(4), key))(keys)
    error = np.sqrt((np.sum(matrix**2, 1) - np.diag(matrix) ** 2) / len(keys))
    assert np.all(np.abs(result.mean(0) - np.diag(matrix)) < 5 * error)
    np.testing.assert_allclose(hessian_diagonal(lambda v: jnp.arange(4.0) * v, jnp.zeros(4), keys[0]), np.arange(4.0))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: o.Sgd(0.0), "Sgd.lr must be greater than 0"),
        (lambda: o.Adam(0.1, beta1=1.0), "Adam.beta1 must be less than 1"),
        (lambda: o.FedAdam(0.1, tau=0.0), "FedAdam.tau must be greater than 0"),
        (lambda: o.Sgd(0.1, clip=-1.0), "Sgd.clip must be greater than 0"),
        (lambda: o.Oasis(0.1).step(jnp.ones(2), jnp.ones(2), o.Oasis(0.1).start(jnp.ones(2))), "Oasis needs products"),
    ],
)
def test_bad_hyperparameters_are_one_sentence(make, words):
    with pytest.raises(t.UserError, match=words):
        make()
