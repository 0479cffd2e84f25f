"""Constants of problems and sampling designs, and the bounds that theorems give for them."""
