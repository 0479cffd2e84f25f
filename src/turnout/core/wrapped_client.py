"""A client with another function in the place of f_i; its loops, passes and branches are those of the client inside."""

from abc import abstractmethod

from turnout.core.client import Client


class WrappedClient(Client):
    """A client around another one, of which a subclass changes the function.

    Args:
        client: The client.
    """

    def __init__(self, client: Client):
        self._client = client
        self.id, self.key, self.state = client.id, client.key, client.state

    @abstractmethod
    def _on(self, rows: Client) -> "WrappedClient":
        """Return this client around another one, such as one with the rows of a batch."""

    def settle(self, x):
        return self._client.settle(x)

    def batch(self, key, size):
        return self._on(self._client.batch(key, size))

    def passes(self, key, count, size, body, carry):
        return self._client.passes(key, count, size, lambda rows, carry: body(self._on(rows), carry), carry)

    def alone(self, f):
        return self._client.alone(f)

    def choose(self, number, branches):
        return self._client.choose(number, branches)

    def loop(self, count, body, carry):
        return self._client.loop(count, body, carry)

    def cond(self, predicate, then, otherwise, carry):
        return self._client.cond(predicate, then, otherwise, carry)
