"""Bytes between the editor and us: the descriptors, one reader, one writer, and the calls of both sides.

Rules of the room:

- Nothing but frames is ever written to the protocol's output, and only ``Writer`` writes it.
- The reader accepts in order and inline; it never waits for a handler, and no exception of one leaves it.
- No flag of a descriptor that we share with anyone is ever changed.
- This file and ``claim`` import nothing heavy: they run before anything else does.
"""
