"""What an algorithm is written in: `Algorithm`, `Ask`, `Client`, `Replies`, and the records, keys and trees beneath them."""
