"""Low-rank adapters of matrices, which are trained and sent in the place of these."""
