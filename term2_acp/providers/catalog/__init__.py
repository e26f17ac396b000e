"""What is known of models: settings, servers' own words and a catalog, laid over one another."""
