"""The Chat Completions wire, and what vendors made of it."""
