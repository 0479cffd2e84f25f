"""Local methods of PyTorch clients that share a module, in lockstep: one call of `torch.func` for each step of all of them."""

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import groupby
from queue import SimpleQueue
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from turnout.problems.oracles.base import NotParallel, Oracle
from turnout.problems.oracles.parallel_torch import generators, local, run_parallel, set_generators
from turnout.problems.oracles.torch_together import NoCommonCall, Stacks, answers
from turnout.problems.row_sums import Point

MOST_ON_CPU = 1 << 15
"""Parameters up to which a CPU takes less time for one call about all clients than for one each; an accelerator always does."""

FEWEST = 4
"""Questions of one kind from which one call is faster than one each: last batches of passes often have a size of their own."""

AT_ONCE = 256
"""Clients in one call."""


class Question:
    """What one client's local method asks of its loss, about one batch.

    Args:
        place: Place of the client among those that run at once.
        oracle: Its `TorchOracle`.
        order: The oracle's method.
        rows: Numbers of the rows.
        x: Parameters by name, or a `Point`.
        arguments: What else the method is called with, by name: the factor of a step, or the direction v of a product.
    """

    def __init__(self, place: int, oracle: Any, order: str, rows: np.ndarray, x: Any, **arguments):
        self.place, self.oracle, self.order, self.rows, self.x, self.arguments = place, oracle, order, rows, x, arguments
        self.answer: Future = Future()

    def fetch(self) -> None:
        """Read the batch, and tell its kind: questions of one kind have one call."""
        self.tensors, self.structure = jax.tree.flatten(self.oracle.batch(self.rows))
        if not all(isinstance(leaf, torch.Tensor) for leaf in self.tensors):
            raise NoCommonCall("batches are not of tensors alone")
        along = self.arguments.get("v", self.x.varied if isinstance(self.x, Point) else ())
        shapes = [(str(leaf.dtype), *leaf.shape) for leaf in self.tensors]
        self.kind = str((self.order, self.arguments.get("factor"), [*along], self.structure, shapes))

    def alone(self) -> Any:
        """Return what the oracle itself answers."""
        with self.oracle.borrow() as oracle:
            return getattr(oracle, self.order)(x=self.x, rows=self.rows, **self.arguments)


class LockstepOracle(Oracle):
    """The oracle of a local method in lockstep: an answer is computed when each of the local methods has asked or ended.

    Args:
        oracle: The client's `TorchOracle`.
        ask: Returns the answer to a `Question` of which it knows the place.
    """

    returns_new_arrays = True
    in_parallel = True

    def __init__(self, oracle: Any, ask: Callable):
        self.oracle, self.ask, self.size = oracle, partial(ask, oracle), oracle.size

    @property
    def running(self):
        return self.oracle.running

    def value(self, x, rows):
        return _mean((share, self.ask("value", part, x)) for share, part in self.oracle.parts(rows))

    def value_and_grad(self, x, rows):
        return _mean((share, self.ask("value_and_grad", part, x)) for share, part in self.oracle.parts(rows))

    def training(self, x, rows):
        moved, parts = {}, []
        for share, part in self.oracle.parts(rows):
            at = Point(x.varied, {**x.fixed, **moved}, x.key)
            (value, moved), gradient = self.ask("training", part, at)
            parts.append((share, (value, gradient)))
        value, gradient = _mean(parts)
        return (value, moved), gradient

    def step(self, x, rows, factor):
        (_, part), *more = self.oracle.parts(rows)
        return None if more else self.ask("step", part, x, factor=factor)

    def hvp(self, x, v, rows):
        return _mean((share, self.ask("hvp", part, x, v=v)) for share, part in self.oracle.parts(rows))


def _mean(parts: Iterable[tuple[float, Any]]) -> Any:
    """Return the sum of trees, each times its share."""
    terms = [tree if share == 1 else jax.tree.map(lambda leaf, share=share: share * leaf, tree) for share, tree in parts]
    return terms[0] if len(terms) == 1 else jax.tree.map(lambda *leaves: sum(leaves), *terms)


def can_step_together(oracles: list[Any]) -> bool:
    """Return whether one call for all clients is worth a try: one module without other buffers, small where a CPU computes.

    Args:
        oracles: The `TorchOracle` of each client.
    """
    first = oracles[0]
    if any(one.module is not first.module or one.loss is not first.loss for one in oracles) or first.kept():
        return False
    return first.device.type != "cpu" or sum(p.numel() for p in first.parameters.values()) <= MOST_ON_CPU


def run_in_lockstep(tasks: list[Callable]) -> list:
    """Run `tasks`, each in its own thread, answer what they ask together, and return their results; few run side by side.

    `NotParallel` if one fails, draws from a global generator, or asks for what has no common call.
    """
    if len(tasks) < FEWEST:
        return run_parallel(tasks)
    before = generators()
    try:
        parts = [tasks[k : k + AT_ONCE] for k in range(0, len(tasks), AT_ONCE)]
        results = [result for part in parts for result in _run_part(part)]
        if generators() != before:
            raise NoCommonCall("they draw random numbers")
        return results
    # A user's loss may raise anything. The tasks then run one after another, where the first that fails raises its error.
    except Exception as error:
        set_generators(before)
        why = f"PyTorch clients are computed one by one, since no call of torch.func computes all of them ({error}): "
        raise NotParallel(why + "they take longer, with the same results" if isinstance(error, NoCommonCall) else "") from error


def _run_part(tasks: list[Callable]) -> list:
    asked: SimpleQueue[Question | None] = SimpleQueue()
    double = jnp.result_type(float) == jnp.float64

    def ask(*question, **arguments) -> Any:
        one = Question(*question, **arguments)
        asked.put(one)
        return one.answer.result()

    def run(place: int, task: Callable):
        local.ask = partial(ask, place)
        try:
            # JAX's precision settings hold for one thread.
            with jax.enable_x64(double):
                return task()
        finally:
            local.ask = None
            asked.put(None)

    with ThreadPoolExecutor(len(tasks)) as pool:
        futures = [pool.submit(run, place, task) for place, task in enumerate(tasks)]
        _serve(asked, len(tasks))
    return [future.result() for future in futures]


def _serve(asked: SimpleQueue, running: int) -> None:
    """Answer questions together whenever all of the local methods that run have asked; the first failure answers all others."""
    waiting: list[Question] = []
    failure, stacks = None, Stacks()
    while running:
        question = asked.get()
        if question is None:
            running -= 1
        else:
            waiting.append(question)
        if len(waiting) == running:
            failure = _answer(waiting, stacks, failure)
            waiting = []
    if failure is not None:
        raise failure


def _answer(waiting: list[Question], stacks: Stacks, failure: Exception | None) -> Exception | None:
    """Answer questions, each kind by one call, and return the failure, which is the answer where there was one."""
    given: list[tuple[Question, Any]] = []
    try:
        for question in waiting if failure is None else ():
            question.fetch()
        # Threads arrive in any order, which must not tell in the last bits.
        for _, group in groupby(sorted(waiting, key=lambda one: (one.kind, one.place)), lambda one: one.kind):
            questions = list(group)
            found = answers(questions, stacks) if len(questions) >= FEWEST else [one.alone() for one in questions]
            given += zip(questions, found, strict=True)
    except Exception as error:
        failure = failure or error
    for question, answer in given if failure is None else ():
        question.answer.set_result(answer)
    for question in waiting if failure is not None else ():
        question.answer.set_exception(failure)
    return failure
