"""What a run sent and what that costs: events, counters, prices and targets."""
