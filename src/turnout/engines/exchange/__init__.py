"""Steps of an exchange that all engines share: drawing, counting, consulting, protecting and judging."""
