"""HTTP: the only client, and the parser of event streams.

Rules of the room:

- Nobody else imports an HTTP library.
- A fault of the network is a value (``HttpFault``), so that whoever asked can decide to try again.
- ``sse`` does no input or output; ``client`` knows nothing of what its bytes mean.
"""
