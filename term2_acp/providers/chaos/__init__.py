"""A model that does everything wrong, by a seed."""
