"""Model servers: those that are known by name, and what servers say of their models."""
