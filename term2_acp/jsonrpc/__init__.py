"""JSON-RPC 2.0 over newline-delimited UTF-8, without any input or output in it.

Rules of the room:

- Bytes go in and messages come out; messages go in and bytes come out. Trio is never imported.
- Nothing that a peer can send raises out of this room: a fault is a value with a code.
- Every limit is a named constant with its unit and its reason.
"""
