"""What `turnout new-federation` copies."""
