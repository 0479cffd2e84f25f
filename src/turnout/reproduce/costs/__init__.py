"""Papers that compare methods by what it costs them to reach a target."""
