"""What a draw of 100 clients costs inside a compiled loop, whatever the number of clients."""

from statistics import median

import jax
import jax.numpy as jnp

import turnout as t
from benchmarks.timing import SEED, Line, alternate, seconds
from turnout.core.seeds import Seeds

COHORT, DRAWS = 100, 20_000
ROUND = (10**4, 10**6, 10**8)
AWKWARD = tuple(n + 1 for n in ROUND)
"""Just above a square, where some points of the sampler's permutation fall outside and are drawn on."""

REFERENCE = "jax.random.choice"


def measure() -> list[Line]:
    """Return the spread of the costs over population sizes, and the cost of JAX's own draw for reference."""
    timed = {str(n): timer(nice(n), DRAWS) for n in (*ROUND, *AWKWARD)}
    timed[REFERENCE] = timer(choice(ROUND[0]), DRAWS // 20)
    taken = alternate(timed)
    each = {name: median(times) / DRAWS * 1e6 for name, times in taken.items()}
    each[REFERENCE] *= 20
    return [
        spread("of 10^4, 10^6, 10^8 clients", ROUND, each, taken),
        spread("of one client more than those", AWKWARD, each, taken),
        Line("draws", f"{REFERENCE} over turnout's draw, of 10^4 clients", each[REFERENCE] / each[str(ROUND[0])],
             note=f"{each[REFERENCE]:.0f} microseconds a draw", timings={REFERENCE: taken[REFERENCE]},
             settings={"cohort": COHORT, "draws": DRAWS // 20, "seeds": [SEED]}),
    ]  # fmt: skip


def spread(of: str, counts, each: dict[str, float], taken: dict[str, list[float]]) -> Line:
    """Compare the slowest draw with the fastest."""
    costs = [each[str(n)] for n in counts]
    note = " / ".join(f"{cost:.2f}" for cost in costs) + " microseconds a draw"
    settings = {"cohort": COHORT, "draws": DRAWS, "seeds": [SEED]}
    timings = {str(n): taken[str(n)] for n in counts}
    return Line("draws", f"slowest over fastest draw {of}", max(costs) / min(costs), 2.0, note=note,
                settings=settings, timings=timings)  # fmt: skip


def nice(n: int):
    """Return `draw(number)` of turnout's sampler from n clients, key included."""
    sampler, population, seeds = t.Nice(COHORT), t.Population(count=n), Seeds.of(SEED)
    return lambda number: sampler.draw(None, seeds.draw(number, 0), population).ids


def choice(n: int):
    """Return `draw(number)` of JAX's own draw without replacement from n clients."""
    seeds = Seeds.of(SEED)
    return lambda number: jax.random.choice(seeds.draw(number, 0), n, (COHORT,), replace=False)


def timer(draw, draws: int):
    """Return a function that gives the seconds of `draws` draws in one compiled loop."""
    loop = jax.jit(lambda: jax.lax.fori_loop(0, draws, lambda k, total: total + draw(k), jnp.zeros(COHORT, "int32")))
    return lambda: seconds(lambda: loop().block_until_ready())
