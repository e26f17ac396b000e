"""What every program of attempts imports: its text is handed on with theirs, by ``-c``.

They import nothing of the package, for no file of ours need be visible in a sandbox. A program gets the
places as JSON in its first argument. Each attempt is a function that gets them as attributes, and is made in
a child of its own, so that none can spoil or hang the next. What came of it is a word: ``done``, or what the
function returned; the name of the error that stopped it; the name of the signal that ended it. All of them
are printed as one line of JSON, behind a word by which that line is known among other output.
"""

import ctypes
import errno
import json
import os
import signal
import sys
from types import SimpleNamespace

ANSWER = "the attempts came to: "

# Seconds for one attempt.
PATIENCE_S = 5

ATTEMPTS = {}

libc = ctypes.CDLL(None, use_errno=True)


def attempt(function):
    """Take a function for an attempt, under its own name."""
    ATTEMPTS[function.__name__] = function
    return function


def call(number, *arguments):
    """A system call by its number; an argument is a number or bytes, which are passed by address.

    Raises:
        OSError: the kernel refused it.
    """
    kept = [
        ctypes.create_string_buffer(one, len(one)) if isinstance(one, bytes) else one for one in arguments
    ]
    words = [ctypes.c_ulong(one if isinstance(one, int) else ctypes.addressof(one)) for one in kept]
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *words)
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def link_descriptor(descriptor, name):
    """Give the file of a descriptor a name, by following the link that the kernel shows for it."""
    number = 37 if os.uname().machine == "aarch64" else 265
    call(number, -100, f"/proc/self/fd/{descriptor}".encode() + b"\0", -100, name.encode() + b"\0", 0x400)


def first_to_work(*attempts):
    """Make attempts until one works; what the last of them was refused with, when none does."""
    for one in attempts[:-1]:
        try:
            return one()
        except OSError:
            continue
    return attempts[-1]()


def tried(function, at):
    """What came of one attempt."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        signal.alarm(PATIENCE_S)
        try:
            said = str(function(at) or "done")
        except OSError as error:
            said = errno.errorcode.get(error.errno or 0, type(error).__name__)
        except Exception as error:  # noqa: BLE001 -- whatever it is, it is told
            said = repr(error)
        os.write(writing, said.encode(errors="replace"))
        os._exit(0)
    os.close(writing)
    _child, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        said = signal.Signals(os.WTERMSIG(status)).name
    else:
        said = os.read(reading, 4096).decode()
    os.close(reading)
    return said


def main():
    at = SimpleNamespace(**json.loads(sys.argv[1]))
    os.chdir(at.workspace)
    # Outside, one of the attempts signals the group that this program is in.
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    found = {name: tried(function, at) for name, function in ATTEMPTS.items()}
    sys.stdout.write(f"{ANSWER}{json.dumps(found)}\n")
