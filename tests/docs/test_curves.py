"""Measured curves of the pages of algorithms: what is drawn, and the program that is shown beside it."""

import ast
import re

import numpy as np
import pytest

from tests.helpers.site_hooks import hook

pytest.importorskip("latex2mathml", reason="latex2mathml is not installed")

LINE = {"x": [0.0, 10.0, 20.0], "low": [1.0, 0.05, 1e-3], "median": [1.0, 0.1, 2e-3], "high": [1.0, 0.2, 4e-3]}


def programs() -> dict[str, str]:
    curves, page = hook("curves"), hook("algorithm_page")
    examples = {name: page.example(name, cls) for name, cls in hook("reference").algorithms().items()}
    return {
        name: curves.program(call, before, hasattr(algorithm, "in_flight"))
        for name, (call, before, algorithm) in examples.items()
        if curves.drawn(algorithm)
    }


def test_a_figure_has_a_text_and_only_colours_of_the_page():
    made = hook("curves").figure("FedAvg", LINE)
    label = re.search(r'<svg role="img" aria-label="([^"]+)"', made)
    assert label and "ends at 0.002" in label[1] and "starts at 1" in label[1] and "20 exchanges" in label[1]
    assert not re.findall(r"#[0-9a-f]{6}", made)
    assert made.count("role=") == 1


def test_a_curve_takes_the_place_of_its_mark(monkeypatch):
    curves = hook("curves")
    monkeypatch.setattr(curves, "measured", lambda: {"FedAvg": LINE})
    page = curves.inserted("<p>before</p><!-- curve FedAvg --><!-- another comment -->")
    assert page.startswith('<p>before</p><figure class="curve"><svg') and page.endswith("<!-- another comment -->")


def test_the_program_of_every_algorithm_makes_all_names_that_it_uses():
    for name, text in programs().items():
        tree = ast.parse(text)
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
        made = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        imported = {alias.asname or alias.name for node in ast.walk(tree) if hasattr(node, "names") for alias in node.names}
        assert used <= made | imported | {"print", "range"}, name


@pytest.mark.longer
def test_the_curve_of_gradient_descent_is_that_of_a_loop_in_numpy():
    """With all clients and exact gradients the gap falls by f(x_0) - f(x_t)."""
    text = programs()["Gd"]
    made: dict = {}
    exec(compile(text[: text.index("sweep = ")], "program", "exec"), made)
    problem, lr = made["problem"], made["algorithm"].lr
    (features, labels), sizes = (np.asarray(part) for part in problem.rows), np.diff(problem.offsets)
    weights = np.repeat(1 / (len(sizes) * sizes), sizes)
    x, values = np.zeros(features.shape[1]), []
    for _ in range(101):
        margins = labels * (features @ x)
        values.append(weights @ np.logaddexp(0, -margins) + problem.mu / 2 * x @ x)
        x = x - lr * (problem.mu * x - features.T @ (weights * labels / (1 + np.exp(margins))))
    shown = hook("curves").curve(text)
    assert shown["x"] == [float(k) for k in range(101)]
    np.testing.assert_allclose(
        np.subtract(shown["median"][0], shown["median"]), np.subtract(values[0], values), rtol=1e-5, atol=1e-7
    )
    assert shown["low"] == shown["median"] == shown["high"]
