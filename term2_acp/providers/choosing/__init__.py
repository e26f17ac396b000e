"""Which provider and model answers: what the settings mean, and where it is found."""
