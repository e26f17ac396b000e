"""Language models: one protocol, one error tree, one module for each wire.

Rules of the room:

- A provider turns a ``Request`` into a stream of deltas and nothing else. It knows no session, no
  tool and no editor.
- A stream that did not see its terminal event ends in ``Failed``; nobody runs a tool call from it.
- Errors leave as values of one tree (``base.ProviderError``), each with a sentence for the person that
  holds no key, no header and no body.
"""
