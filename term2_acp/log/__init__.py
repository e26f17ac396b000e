"""Where log lines go: stderr, and a few files of bounded size beside the sessions.

Rules of the room:

- Every line is redacted after it was put together, tracebacks included.
- A line that cannot be written now is dropped, and never logged about: a full disk, a client that closed
  its end of stderr and one that does not read it must not hold up or end anything.
- Rooms log by ``logging.getLogger(__name__)`` and know nothing of this one.
"""

from term2_acp.log.handlers import FileHandler, LineFormatter, StreamHandler
from term2_acp.log.setup import LEVELS, log_directory, set_up

__all__ = ["LEVELS", "FileHandler", "LineFormatter", "StreamHandler", "log_directory", "set_up"]
