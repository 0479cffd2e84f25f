"""Where randomness comes from: one seed a purpose, one key a round, exchange and client."""

import jax

from turnout.core.records import Index, record


@record
class Seeds:
    """Seeds for drawing cohorts, for the clients' own randomness, for simulated faults and for the first parameters.

    Client i's key in an exchange is `fold_in(exchange_key, i)`, whichever engine runs it and in whatever order.
    """

    example = "t.Seeds.of(0)"

    sampling: Index
    local: Index
    faults: Index
    model: Index

    @classmethod
    def of(cls, seed: int) -> "Seeds":
        """Return `seed` for every purpose."""
        return cls(seed, seed, seed, seed)

    def draw(self, round, count):
        """The key of the `count`-th draw of a round."""
        return _key(self.sampling, round, count)

    def exchange(self, round, count):
        """The key of the `count`-th exchange of a round."""
        return _key(self.local, round, count)

    def fault(self, round, count):
        """The key of what goes wrong in the `count`-th exchange of a round."""
        return _key(self.faults, round, count)


def _key(seed, round, count):
    # The count first: it is mostly a constant, so that the compiler moves this step out of the loop over rounds.
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), count), round)
