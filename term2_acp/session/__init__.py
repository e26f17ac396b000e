"""One conversation: its state, its nursery, the order of what its client sees, and what is kept of it."""
