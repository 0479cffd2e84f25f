"""The price of the paper's tables, which count rounds."""

from typing import ClassVar

from turnout.core.records import config


@config
class Rounds:
    """Every round costs one, however many exchanges it has."""

    unit: ClassVar[str] = "rounds"

    @property
    def label(self) -> str:
        return "rounds"

    def cost(self, events):
        return events["round"]
