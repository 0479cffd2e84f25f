"""The vocabulary of algorithms: `Algorithm`, `Ask`, `Client`, `Replies`, and the records, keys and pytrees below them."""
