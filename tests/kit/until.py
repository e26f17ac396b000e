"""Waiting for what threads and processes do, where there is no event to wait for."""

import trio


async def until(condition, *, seconds=10):
    """Look until ``condition()`` holds; fails after ``seconds``."""
    with trio.fail_after(seconds):
        while True:
            await trio.sleep(0.01)
            if condition():
                return
