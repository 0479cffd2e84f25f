"""What a client has spent of its privacy, on its node's disk, and the most that it may spend."""

import json
from collections import Counter
from pathlib import Path

from turnout.core.errors import UserError
from turnout.engines.request import Refused
from turnout.io.atomic import exclusive, write
from turnout.privacy.accounting import local_epsilon


class Budget:
    """The replies that left a client, by run and noise multiplier, in a `file`; a reply is written down before it is computed.

    Args:
        file: The file; a missing one is that of a client that has spent nothing.
        run: Digest of the configuration for which the client answers.
        limit: Most epsilon to spend.
        delta: The delta for which epsilon is told.
        overall: Whether the limit is for all runs together, or for this one.
    """

    def __init__(self, file: Path, run: str, limit: float, delta: float, overall: bool = False):
        self.file, self.run, self.limit, self.delta, self.overall = file, run, limit, delta, overall
        self._read()

    def spent(self) -> float:
        """Return the epsilon spent so far."""
        return self._epsilon(self._read())

    def charge(self, noise_multiplier: float) -> None:
        """Write down one more reply with this noise multiplier; raise `Refused` where the limit does not allow it."""
        with exclusive(self.file):
            runs = self._read()
            own = runs.setdefault(self.run, {})
            own[noise_multiplier] = own.get(noise_multiplier, 0) + 1
            if self._epsilon(runs) > self.limit:
                raise Refused(
                    f"the privacy of this client is spent: one more reply would exceed epsilon = {self.limit:.4g} for "
                    f"delta = {self.delta:g}; the owner of its node may allow more (epsilon in its policy)"
                )
            write(self.file, json.dumps(runs), private=True)

    def _epsilon(self, runs: dict[str, dict[float, int]]) -> float:
        counted = runs.values() if self.overall else [runs.get(self.run, {})]
        return local_epsilon(sum(map(Counter, counted), Counter()), self.delta)

    def _read(self) -> dict[str, dict[float, int]]:
        try:
            runs = json.loads(self.file.read_text())
            return {run: {float(z): int(count) for z, count in own.items()} for run, own in runs.items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise UserError(f"{self.file} cannot be read as what a client spent of its privacy: {error}") from None
