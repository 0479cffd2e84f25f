"""Constants of a problem and of a design, and the bounds that theorems give for them."""
