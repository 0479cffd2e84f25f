"""Programs in NumPy that make the test vectors; none of them uses turnout."""
