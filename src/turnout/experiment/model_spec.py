"""The `[problem]` table of a module that a Python file of the user makes."""

from collections.abc import Callable
from dataclasses import field
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar

from turnout import problems
from turnout.core.errors import UserError
from turnout.core.named_class import named_function, named_object
from turnout.core.records import Count, NonNegative, config
from turnout.data.dataset import Dataset
from turnout.data.splits import Split
from turnout.experiment.problem_specs import DataSpec
from turnout.problems.base import Precision, Problem


@config
class ModelSpec(DataSpec):
    """A module of the user's own: see `problems.Model.of`.

    Args:
        module: "file.py:name" in the current folder or "package.module:name", of a module or of a function that makes one.
        loss: "cross-entropy", "squared error", or as `module` the name of a function of outputs and labels.
        mu: Weight of the regulariser.
        classes: Number of classes.
    """

    module: str = field(kw_only=True)
    loss: str = field(kw_only=True)
    mu: NonNegative = 0.0
    classes: Count | None = None

    precision: ClassVar[Precision] = problems.Model.precision

    @property
    def numbers_labels(self) -> bool:
        return self.loss == "cross-entropy" and self.classes is None

    @property
    def digest(self) -> str:
        """A digest of the files that `module` and `loss` name."""
        files = [Path(place) for name in (self.module, self.loss) if (place := name.rpartition(":")[0]).endswith(".py")]
        return "".join(sha256(file.read_bytes()).hexdigest() for file in files if file.is_file())

    def build(self, dataset: Dataset, split: Split) -> Problem:
        weights = self.client_weights(split)
        return problems.Model.of(self._module(), self._loss(), dataset, split, self.mu, weights, self.classes)

    def _module(self) -> Any:
        found = named_object(self.module, Path.cwd())
        if found is None:
            place, _, name = self.module.rpartition(":")
            raise UserError(f"{place or self.module!r} has no {name!r}: write file.py:name or package.module:name of a module")
        return found

    def _loss(self) -> str | Callable:
        return named_function(self.loss, Path.cwd()) if ":" in self.loss else self.loss
