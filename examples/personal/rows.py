"""The first rows of a known data set."""

from dataclasses import replace

import turnout as t
from turnout.data import Source, load


@t.record
class FirstRows(Source):
    """The first `rows` rows of the data set `name`."""

    name: str
    rows: int

    def load(self, folder=None):
        data = load(self.name, folder)
        return replace(data, features=data.features[: self.rows], labels=data.labels[: self.rows], ids=None)
