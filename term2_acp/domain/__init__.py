"""The vocabulary: values that every room speaks, and nothing that does anything.

Rules of the room:

- Values are frozen attrs classes. None of them knows how it is written to the wire, to the store or
  to a provider; the rooms at the borders convert (``to_wire``, ``to_row``, ...).
- Words are ACP's own wherever ACP has one.
- No input or output, no clock, and no Trio.
"""
