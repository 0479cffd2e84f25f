"""What the test vectors are: for each the program, its parameters, and what its file says."""
