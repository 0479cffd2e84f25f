"""`FlowerOracle`: a client of Flower, which trains on its own."""

import time
from typing import Any, ClassVar, NoReturn

import jax
import numpy as np
from jaxtyping import PyTree

from turnout.core.errors import UserError
from turnout.problems.oracles.base import ALL, Oracle

WHAT = {"fit": "train", "evaluate": "evaluate"}
"""The function of an app for each method of a client."""

TTL = 86400.0
"""Seconds for which a message is valid."""

LOSSES, ACCURACIES = ("loss", "eval_loss"), ("accuracy", "eval_acc")
"""Names under which an app tells its loss and its accuracy; the second ones are those of Flower's templates."""


class FlowerOracle(Oracle):
    """A client that is a `NumPyClient` or a `ClientApp` of Flower: its own code trains, and turnout sees no gradient.

    An algorithm that asks for a trained model alone, such as `FedAvg`, `MbLocalGd` or `FedOpt`, has `fit`, or the app's function
    `train`, make the local steps. It is told what the algorithm asks for, under "lr", "steps", "batch" and "epochs" as far as
    they are given, in the config, and may do otherwise. Its queries are not counted. `evaluate` gives the metrics value and
    accuracy, on all of its rows.

    For a `NumPyClient` the parameters are a list of arrays. For a `ClientApp` they are that, or a dictionary of arrays by name;
    the records are "arrays" and "config", as those of Flower's strategies. An app that was made of a `client_fn` is given as the
    `NumPyClient` that this returns.

    Args:
        client: The `NumPyClient` or the `ClientApp`.
        size: n_i, its number of rows, >= 1.
        node_config: The `node_config` of the app's context, such as {"partition-id": 0}.
        run_config: The `run_config` of the app's context.

    Raises:
        UserError: The client is neither, or its size is below 1; in a run, the algorithm wants gradients.

    Examples:
        >>> import numpy as np, turnout as t
        >>> class Halves:
        ...     def fit(self, parameters, config):
        ...         return [parameters[0] / 2], 1, {}
        ...
        ...     def evaluate(self, parameters, config):
        ...         return float(np.sum(parameters[0] ** 2)), 1, {}
        >>> problem = t.Remote.of([np.ones(2)], [t.FlowerOracle(Halves(), size=1) for _ in range(3)])
        >>> t.run(t.FedAvg(t.Full(), lr=0.1), problem, rounds=2, engine="nodes").x[0].tolist()
        [0.25, 0.25]
    """

    has_gradients: ClassVar[bool] = False

    def __init__(self, client: Any, size: int, node_config: dict | None = None, run_config: dict | None = None):
        if size < 1:
            raise UserError(f"a client has at least one row, but FlowerOracle was given size = {size}")
        if not callable(client) and not hasattr(client, "fit"):
            raise UserError(f"{type(client).__name__} has no fit and is no ClientApp: give a client of Flower")
        self.client, self.size = client, size
        self._call = _by_methods if hasattr(client, "fit") else _AppCall(node_config or {}, run_config or {})

    def trained(self, x, work):
        return self._call(self.client, "fit", x, work)

    def value(self, x, rows):
        if rows is not ALL:
            raise UserError("a client of Flower evaluates all of its rows: take an algorithm that wants no values of batches")
        return self._measured(x, LOSSES)

    def accuracy(self, x):
        return self._measured(x, ACCURACIES)

    def value_and_grad(self, x, rows) -> NoReturn:
        raise UserError(
            "a client of Flower trains on its own and has no gradients: take an algorithm that asks for a trained model alone, "
            "such as FedAvg, MbLocalGd or FedOpt"
        )

    def _measured(self, x: PyTree, names: tuple[str, ...]) -> float:
        metrics = self._call(self.client, "evaluate", x, {})
        for name in names:
            if name in metrics:
                return float(metrics[name])
        raise UserError(f"evaluate of a client of Flower tells no {names[0]}, but {', '.join(metrics) or 'nothing'}: add it")


def _by_methods(client: Any, what: str, x: PyTree, config: dict) -> Any:
    """Return the parameters that `fit` of a `NumPyClient` returns, or the metrics of `evaluate`."""
    leaves, structure = jax.tree.flatten(x)
    first, _, metrics = getattr(client, what)(leaves, config)
    return {**metrics, "loss": first} if what == "evaluate" else jax.tree.unflatten(structure, first)


class _AppCall:
    """Calls a `ClientApp` by messages.

    Args:
        node_config: Configuration of the node.
        run_config: Configuration of the run.
    """

    def __init__(self, node_config: dict, run_config: dict):
        try:
            from flwr.app import Context, RecordDict
        except ImportError as error:
            raise UserError(f"an app of Flower needs flwr ({error}): pip install 'turnout[flower]'") from None
        self.context = Context(0, 0, node_config, RecordDict(), run_config)

    def __call__(self, app: Any, what: str, x: PyTree, config: dict) -> Any:
        """Return the parameters that the app's `train` replies with, or the metrics of its `evaluate`."""
        from flwr.app import Array, ArrayRecord, ConfigRecord, Message, Metadata, RecordDict

        leaves, structure = jax.tree.flatten(x)
        names = list(x) if isinstance(x, dict) else [str(k) for k in range(len(leaves))]
        arrays = x if isinstance(x, dict) else dict(zip(names, leaves, strict=True))
        record = ArrayRecord({name: Array(np.asarray(array)) for name, array in arrays.items()})
        content = RecordDict({"arrays": record, "config": ConfigRecord(config)})
        # A message without a SuperLink, which would number it.
        head = Metadata(
            run_id=0, message_id="0", src_node_id=0, dst_node_id=0, reply_to_message_id="", group_id="", created_at=time.time(),
            ttl=TTL, message_type=WHAT[what],
        )  # fmt: skip
        reply = app(Message(content=content, metadata=head), self.context)
        if reply.has_error():
            raise UserError(f"{what} of a client of Flower failed: {reply.error.reason}")
        reply = reply.content
        if what == "evaluate":
            return {name: value for metrics in reply.metric_records.values() for name, value in metrics.items()}
        (made,) = reply.array_records.values()
        if isinstance(x, dict):
            return {name: made[name].numpy() for name in names}
        return jax.tree.unflatten(structure, [array.numpy() for array in made.values()])
