"""A model that says what its script says."""
