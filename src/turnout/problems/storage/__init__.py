"""How the clients' rows of a JAX problem are stored, and the oracle and the client that work on them."""
