"""Papers that compare dual methods with primal ones, by the rounds, exchanges and bytes to a gap."""
