"""How fast turnout is and how much memory it takes, as ratios with bars: `python -m benchmarks`."""
