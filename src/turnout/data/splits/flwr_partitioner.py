"""Splits by a partitioner of flwr-datasets."""

import warnings
from typing import Any, Literal

import numpy as np

from turnout.core.errors import UserError, unknown
from turnout.core.extras import extra
from turnout.core.records import config
from turnout.data.dataset import Dataset
from turnout.data.splits.split import Split


@config
class FlwrSplit:
    """The partitions of a partitioner of flwr-datasets, on a table with the columns "label" and "client".

    Args:
        partitioner: The name of its class, such as "DirichletPartitioner".
        options: Its options, such as num_partitions = 10, partition_by = "label", alpha = 0.5.
        kind: The name of the split in configurations.

    Examples:
        >>> from turnout.data import FlwrSplit
        >>> FlwrSplit("IidPartitioner", {"num_partitions": 10}).partitioner
        'IidPartitioner'
    """

    partitioner: str
    options: dict[str, Any]
    kind: Literal["flwr"] = "flwr"

    def split(self, dataset: Dataset) -> Split:
        """Return the split of `dataset`."""
        datasets, partitioners = (
            extra(name, "split 'flwr'", "hugging-face") for name in ("datasets", "flwr_datasets.partitioner")
        )
        names = [name for name in partitioners.__all__ if name != "Partitioner"]
        if self.partitioner not in names:
            raise unknown("partitioner", self.partitioner, names)
        columns = {"label": dataset.labels, "client": dataset.ids, "row": np.arange(dataset.rows)}
        table = datasets.Dataset.from_dict({name: column for name, column in columns.items() if column is not None})
        try:
            with warnings.catch_warnings():
                # Raised by libraries that flwr-datasets calls.
                warnings.simplefilter("ignore", FutureWarning)
                partitioner = getattr(partitioners, self.partitioner)(**self.options)
                partitioner.dataset = table
                parts = [np.array(partitioner.load_partition(i)["row"], np.int64) for i in range(partitioner.num_partitions)]
        except Exception as error:
            raise UserError(f"{self.partitioner} cannot cut {dataset.name} ({error}): change its options") from None
        return Split.of(parts, dataset.rows)
