"""Papers that compare ways to sample clients, by the variance and the regret of their draws."""
