"""What counts as a secret, and taking it out of text. Pure.

Two strengths, for two readers:

- ``redact`` takes out the keys that we were *given*, and nothing else. It is applied before an event is
  made, so the wire, the journal and the model agree.
- ``redact_log`` also takes out what only *looks* like a secret. It is for logs and audit: a person who
  is asked must see what runs, and a journal must hold what was said.
"""

from term2_acp.redact.redactor import PLACEHOLDER, ByteStreamRedactor, Redactor, StreamRedactor

__all__ = ["PLACEHOLDER", "ByteStreamRedactor", "Redactor", "StreamRedactor"]
