"""The Messages wire."""
