"""Files: atomic writes, serialisation of messages, models on disk."""
