"""From a configuration to runs and their results on disk."""
