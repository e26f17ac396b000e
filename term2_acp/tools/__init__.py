"""What the model can do: one module a tool.

Rules of the room:

- A tool's arguments are one msgspec Struct: the schema the model sees, the strict decoding and the
  path in an error all come from it.
- A tool reaches files only through ``ToolContext.files``; an import contract forbids ``os`` and its like.
- A tool decides nothing about permission. It says what it will do (``Prepared.actions``); whoever
  dispatches it asks, and only then runs it.
"""
