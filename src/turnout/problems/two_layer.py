"""A neural network with one hidden layer, whose parameters are a nested dictionary."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from turnout.core.errors import unknown
from turnout.core.records import Count, record, static
from turnout.problems.classifier import Classifier, affine
from turnout.problems.federate import check_data, federate_classes

ACTIVATIONS = {"tanh": jnp.tanh, "relu": jax.nn.relu}


@record
class Network(Classifier):
    """A network with one hidden layer: a `Classifier` with logits(a) = V^T activation(W^T a + u) + v.

    The parameters are {"hidden": {"weight": W [d, hidden], "bias": u [hidden]}, "output": {"weight": V [hidden, classes],
    "bias": v [classes]}}, without the biases if not `intercept`.

    Args:
        rows: (features [rows, d], labels [rows] of 0, ..., classes - 1).
        offsets: Where each client's rows begin [n + 1].
        population: The clients.
        mu: Weight of the regulariser (mu/2) |x|^2, >= 0.
        classes: Number of classes.
        hidden: Number of hidden units.
        activation: "tanh" or "relu".
        intercept: Whether there are biases u and v.

    Examples:
        >>> import jax
        >>> import turnout as t
        >>> from turnout.data import IidSplit, load
        >>> data = load("digits")
        >>> problem = t.Network.of(data, IidSplit(clients=10).split(data), hidden=16)
        >>> problem.start(jax.random.key(0))["hidden"]["weight"].shape
        (64, 16)
    """

    hidden: Count = static()
    activation: str = static(default="tanh")
    intercept: bool = static(default=True)

    def __post_init__(self):
        if self.activation not in ACTIVATIONS:
            raise unknown("activation", str(self.activation), ACTIVATIONS)

    @classmethod
    def of(cls, dataset, split, hidden: int = 32, mu: float = 0.0, weights=None, activation: str = "tanh", intercept=True):
        """Build the problem of a data set; its classes are numbered in increasing order of their labels.

        Args:
            dataset: The data set.
            split: How its rows are split into clients.
            hidden: Number of hidden units.
            mu: Weight of the regulariser, >= 0.
            weights: Client weights lambda [n] up to their sum, uniform if None.
            activation: "tanh" or "relu".
            intercept: Whether there are biases.

        Raises:
            UserError: A label is not a whole number, the activation is unknown, or the weights do not fit.
        """
        check_data(dataset, split)
        parts = federate_classes(dataset.flat(), split, weights)
        return cls(**parts, mu=mu, hidden=hidden, activation=activation, intercept=intercept)

    def logits(self, x, features):
        return two_layers(x, features, ACTIVATIONS[self.activation])

    def start(self, key):
        """Return weights from the Glorot-uniform distribution, and zero biases."""
        return draw_layers(key, self.rows[0].shape[-1], self.hidden, self.classes, self.intercept)


def two_layers(x: dict, features, activation: Callable) -> Float[Array, "b classes"]:
    """Return V^T activation(W^T a + u) + v for each of b rows a, with the parameters x of a `Network`.

    Args:
        x: Parameters of a `Network`.
        features: Feature rows [b, d].
        activation: Activation function.
    """
    return affine(x["output"], activation(affine(x["hidden"], features)))


def draw_layers(key, inputs: int, hidden: int, classes: int, intercept: bool = True) -> dict:
    """Return parameters of a `Network`: weights from the Glorot-uniform distribution, and zero biases if `intercept`.

    Args:
        key: Random key.
        inputs: Number of features.
        hidden: Number of hidden units.
        classes: Number of classes.
        intercept: Whether there are biases.
    """
    glorot, dtype = jax.nn.initializers.glorot_uniform(), jnp.result_type(float)

    def layer(key, inputs, outputs):
        weight = {"weight": glorot(key, (inputs, outputs), dtype)}
        return {**weight, "bias": jnp.zeros(outputs, dtype)} if intercept else weight

    first, second = jax.random.split(key)
    return {"hidden": layer(first, inputs, hidden), "output": layer(second, hidden, classes)}
