"""Random keys: one seed for each purpose, one key for each round, exchange and client."""

from functools import partial

import jax
import numpy as np

from turnout.core.records import Index, record


@record
class Seeds:
    """Seeds of a run, one for each purpose.

    The key of an exchange is the local seed folded with the number of the exchange in its round and with the number of the
    round; client i's key is `fold_in(key, i)`. Keys depend neither on the engine nor on the order in which clients run.

    Args:
        sampling: Seed of the draws of cohorts.
        local: Seed of the clients' own randomness, such as batches.
        faults: Seed of simulated faults.
        model: Seed of the initial parameters.

    Examples:
        >>> import turnout as t
        >>> t.Seeds.of(3)
        Seeds(sampling=3, local=3, faults=3, model=3)
    """

    example = "t.Seeds.of(0)"

    sampling: Index
    local: Index
    faults: Index
    model: Index

    @classmethod
    def of(cls, seed: int) -> "Seeds":
        """Return `seed` for every purpose.

        Args:
            seed: Whole number, 0 <= seed < 2^63; below 2^31 in single precision.
        """
        return cls(seed, seed, seed, seed)

    def draw(self, round, count):
        """Return the key of draw number `count` of a round.

        Args:
            round: Number of the round, from 1; 0 for the start.
            count: Number within the round, from 0.
        """
        return _key(self.sampling, round, count)

    def exchange(self, round, count):
        """Return the key of exchange number `count` of a round.

        Args:
            round: Number of the round, from 1; 0 for the start.
            count: Number within the round, from 0.
        """
        return _key(self.local, round, count)

    def fault(self, round, count):
        """Return the key of the faults in exchange number `count` of a round.

        Args:
            round: Number of the round, from 1; 0 for the start.
            count: Number within the round, from 0.
        """
        return _key(self.faults, round, count)


# Outside of compiled programs this is one dispatch; inside, the function is inlined.
@partial(jax.jit, inline=True)
def _key(seed, round, count):
    # The count first: it is mostly a constant, so the compiler moves this step out of the loop over rounds.
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), count), round)


def host_key(seed: int):
    """Return `jax.random.key(seed)` for a number at hand, which takes no program."""
    if jax.config.values["jax_default_prng_impl"] != "threefry2x32":
        return jax.random.key(seed)
    return jax.random.wrap_key_data(np.array([seed >> 32, seed & 0xFFFFFFFF], "uint32"))
