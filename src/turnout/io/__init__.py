"""Files: atomic writes, serialisation of messages, and models on disk."""
