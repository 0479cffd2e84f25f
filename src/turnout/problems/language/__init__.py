"""Language models of transformers as functions of JAX: GPT-NeoX and DistilBERT, their weights on disk, and texts as tokens."""
