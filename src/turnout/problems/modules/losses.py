"""Losses of a module's outputs, by name or as a function of the user's own."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from turnout.core.errors import UserError, unknown
from turnout.core.own_code import what_failed

CROSS_ENTROPY, SQUARED_ERROR = "cross-entropy", "squared error"

Loss = str | Callable
"""The name of a loss, or a function of outputs [b, ...] and labels [b] that returns the losses [b]."""


def check_loss(loss: Loss, classes: int | None) -> None:
    """Raise `UserError` where a loss is not known, or goes with no classes.

    Args:
        loss: The loss.
        classes: Number of classes; None where none is given.
    """
    if isinstance(loss, str) and loss not in (CROSS_ENTROPY, SQUARED_ERROR):
        raise unknown("loss", loss, (CROSS_ENTROPY, SQUARED_ERROR))
    if not isinstance(loss, str) and not callable(loss):
        raise UserError(f"a loss is a name or a function of outputs and labels, but this is a {type(loss).__name__}: give one")
    if loss == SQUARED_ERROR and classes is not None:
        raise UserError(f"classes have no {SQUARED_ERROR}: leave classes out, or take the loss {CROSS_ENTROPY!r}")


def refuse_outputs(loss: Loss, shape: tuple[int, ...], rows: int, classes: int | None) -> None:
    """Raise `UserError` where a module's outputs do not fit the labels.

    Args:
        loss: The loss.
        shape: Shape of the outputs.
        rows: The number of rows.
        classes: Number of classes; None where labels are numbers.
    """
    given = f"the module puts out an array of shape {shape} for {rows} rows"
    if classes is not None and (len(shape) != 2 or shape[0] != rows or shape[1] < classes):
        raise UserError(f"{given}, but labels have {classes} classes: let it put out {classes} numbers for each row")
    if loss == SQUARED_ERROR and shape not in ((rows,), (rows, 1)):
        raise UserError(f"{given}, but each label is a number: let it put out one number for each row")


def refuse_losses(what: str, shape: tuple[int, ...] | None, rows: int) -> None:
    """Raise `UserError` where a function of the user's own returns no loss for each row.

    Args:
        what: What it returns, in words.
        shape: Shape of the losses; None where they are no array of floating-point numbers.
        rows: The number of rows.
    """
    if shape != (rows,):
        raise UserError(f"the loss returns {what} for {rows} rows, but is a floating-point number for each row: take no mean")


def check_outputs(loss: Loss, outputs: jax.ShapeDtypeStruct, rows: int, classes: int | None) -> None:
    """Raise `UserError` where a module's outputs for some rows do not fit a loss.

    Args:
        loss: The loss.
        outputs: Shape and type of the outputs.
        rows: The number of rows.
        classes: Number of classes; None where labels are numbers.
    """
    refuse_outputs(loss, outputs.shape, rows, classes)
    labels = jax.ShapeDtypeStruct((rows,), outputs.dtype if classes is None else np.int32)
    losses = loss_failures_told(lambda: jax.eval_shape(lambda a, b: losses_of(loss, a, b), outputs, labels))
    if not isinstance(losses, jax.ShapeDtypeStruct):
        return refuse_losses(f"a {type(losses).__name__}", None, rows)
    shape = losses.shape if jnp.issubdtype(losses.dtype, jnp.floating) else None
    refuse_losses(f"{losses.dtype} of shape {losses.shape}", shape, rows)


def loss_failures_told(losses: Callable) -> Any:
    """Return losses(); `UserError` where that fails.

    Args:
        losses: Computes losses.
    """
    try:
        return losses()
    except UserError:
        raise
    except Exception as error:
        raise UserError(
            f"the loss fails ({what_failed(error)}): let it take the outputs [b, ...] of the module and the labels [b]"
        ) from error


def losses_of(loss: Loss, outputs: Array, labels: Array) -> Any:
    """Return the losses of outputs for b rows [b], or whatever a function of the user's own returns.

    Args:
        loss: The loss.
        outputs: The outputs [b, ...].
        labels: The labels [b].
    """
    if not jnp.issubdtype(labels.dtype, jnp.integer):
        labels = labels.astype(outputs.dtype)
    if loss == CROSS_ENTROPY:
        # Slow to import.
        import optax

        return optax.softmax_cross_entropy_with_integer_labels(outputs, labels)
    if loss == SQUARED_ERROR:
        return jnp.square(outputs.reshape(labels.shape) - labels)
    return loss(outputs, labels)  # type: ignore
