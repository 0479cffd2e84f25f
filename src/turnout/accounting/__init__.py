"""The ledger of what a run sent, prices of its events, and targets."""
