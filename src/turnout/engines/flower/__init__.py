"""The flower engine: clients are nodes of a Flower federation, each on a machine of its own."""
