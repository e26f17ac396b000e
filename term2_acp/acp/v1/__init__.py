"""ACP v1, which today's editors speak: what goes over the wire, and how it maps to the core.

Rules of the package:

- Everything is closed: no update, status, kind or stop reason that v1's schema does not list is ever sent,
  and nothing that only newer clients know goes to a client that did not say so.
- It is a projection of the core's events, which have v2's shape; nothing inside knows that it exists.
- A method of the client's is called only when its own flag was set.

Source: ACP v1 as published with the official SDKs.
"""
