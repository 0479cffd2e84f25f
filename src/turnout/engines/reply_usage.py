"""What a server makes of the replies to each call: one weighted sum of them, or more than that."""

from collections.abc import Iterable

from turnout.accounting.ledger import Site
from turnout.core.errors import UserError
from turnout.core.replies import Replies, Weight

SUMS: tuple[Weight, ...] = ("share", "weight")

ALONE, EACH, WHO, MEAN = "alone", "each", "who", "mean"
"""Uses of replies beside the weights that sums of them were taken with: one client alone was asked, they were looked at one by
one, the server took notice of who had answered, and a sum was divided by the sum of its weights."""


class Watched(Replies):
    """Replies that note in `uses` what is made of them."""

    held: Replies
    uses: set[str]

    def __init__(self, held: Replies, uses: set[str]):
        object.__setattr__(self, "held", held)
        object.__setattr__(self, "uses", uses)
        if held.cohort.selection == "delegate" or held.cohort.places == 1:
            uses.add(ALONE)

    @property
    def values(self):
        self.uses.add(EACH)
        return self.held.values

    @property
    def cohort(self):
        self.uses.add(WHO)
        return self.held.cohort

    @property
    def answered(self):
        self.uses.add(WHO)
        return self.held.answered

    def each(self, of):
        self.uses.add(EACH)
        return self.held.each(of)

    def map(self, change):
        self.uses.add(EACH)
        return self.held.map(change)

    def average(self):
        self.uses.add("weight")
        return self.held.average()

    def total(self):
        self.uses.add("share")
        return self.held.total()

    def mean(self):
        self.uses.update(("share", MEAN))
        return self.held.mean()

    def summed(self, by):
        self.uses.add(by)
        return self.held.summed(by)


def obstacle(uses: Iterable[str]) -> str | None:
    """Return why a server that makes these `uses` of replies wants more than one weighted sum; None if it does not."""
    uses = {*uses}
    if ALONE in uses:
        return "it asks one client alone"
    if EACH in uses:
        return "the server looks at each reply"
    if uses >= {*SUMS}:
        return "the server takes sums with two kinds of weights, lambda_i and lambda_i / p_i"
    return None


def weights_of(sites: Iterable[Site], uses: dict[str, set[str]], algorithm: str, instead: str) -> dict[str, Weight]:
    """Return what the one sum at each call weighs replies by; `UserError` names the first call that wants more than a sum, and
    says what to do `instead`."""
    found: dict[str, Weight] = {}
    for site in sites:
        mine = uses.get(site.path, ())
        why = obstacle(mine)
        if why is not None:
            raise UserError(
                f"{algorithm} needs more than sums of replies: of its call {site.method!r} ({site.selection}) {why}; "
                f"take another algorithm or sampler (turnout describe tells which qualify), or {instead}"
            )
        found[site.path] = "weight" if "weight" in mine else "share"
    return found
