"""The text of a page, by a child process: bounded in memory, time and output, and gone with us.

The page goes in through a socket pair, because a pipe's buffer would have to be filled from a thread. See
``page_child`` for what comes out.
"""

import logging
import socket
import sys

import trio

from term2_acp.domain.classes import frozen
from term2_acp.process import Process, dies_with_parent, open_process
from term2_acp.tools.base import ToolError

logger = logging.getLogger(__name__)

# Characters of a page that are read, 2 to 6 s of work. The model is given the beginning of it anyway.
MAX_PAGE = 2 * 1024 * 1024
# Seconds to turn a page into text. Only one that is built to be slow takes as long.
TEXT_S = 30
# Bytes of memory of the child. Each tag becomes an object: nothing but tags takes 250 MB.
MAX_MEMORY = 512 * 1024 * 1024
# Bytes of text that are taken from it: more than the page had, unless its links were built to grow.
MAX_TEXT_BYTES = 8 * 1024 * 1024
# Bytes of text for the model.
MAX_BYTES = 48 * 1024


@frozen
class Cut:
    """The beginning of a text, and how many bytes of UTF-8 were left out after it."""

    text: str
    left_out: int = 0


def cut(text: bytes) -> Cut:
    """As much of a text in UTF-8 as the model is given, ended between two characters."""
    kept = (
        text[:MAX_BYTES].decode(errors="ignore") if len(text) > MAX_BYTES else text.decode(errors="replace")
    )
    return Cut(kept, max(0, len(text) - len(kept.encode())))


async def text_of(page: str, address: str, *, max_memory: int = MAX_MEMORY) -> Cut:
    """Wait for the text of an HTML page that came from ``address``: of its first ``MAX_PAGE`` characters.

    ``max_memory`` is how many bytes the child may have. Cancelled, the child is killed.

    Raises:
        ToolError: it took too long or too much memory, made too much text, or no child can be started.
    """
    try:
        with trio.move_on_after(TEXT_S):
            return cut(await _made(f"{address}\n{page[:MAX_PAGE]}".encode(errors="replace"), max_memory))
    except OSError as error:
        raise ToolError(f"The page could not be turned into text: {error.strerror}.") from None
    raise ToolError(f"The page could not be turned into text within {TEXT_S} seconds.")


async def _made(page: bytes, max_memory: int) -> bytes:
    argv = dies_with_parent([sys.executable, "-P", "-m", "term2_acp.tools.page_child"], max_memory=max_memory)
    # Where our own modules are is all that it needs to know of our environment.
    env = {"PYTHONPATH": ":".join(filter(None, sys.path))}
    ours, theirs = socket.socketpair()
    with theirs:
        async with trio.SocketStream(trio.socket.from_stdlib_socket(ours)) as stream:
            async with open_process(argv, env=env, cwd="/", stdin=theirs.fileno(), stderr="keep") as process:
                theirs.close()
                return await _exchange(process, stream, page)


async def _exchange(process: Process, stream: trio.SocketStream, page: bytes) -> bytes:
    try:
        await stream.send_all(page)
        await stream.send_eof()
    except trio.BrokenResourceError:
        pass  # it has ended already; how it ended tells more
    text = bytearray()
    while data := await process.receive():
        text += data
        if len(text) > MAX_TEXT_BYTES:
            raise ToolError(f"The page becomes more than {MAX_TEXT_BYTES:,} bytes of text.")
    code = await process.wait()
    if code != 0:
        logger.warning("the text of a page was not made: code %d, %r", code, process.errors[-500:])
        raise ToolError("The page could not be turned into text: it needs too much memory, or is damaged.")
    return bytes(text)
