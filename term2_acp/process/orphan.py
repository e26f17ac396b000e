"""A child that does not outlive us, even when we are killed by SIGKILL.

Linux can send a child a signal when its parent goes, but only the child can ask for it. A ``preexec_fn``
would ask between fork and exec, in a copy of a process that has threads (Python 3.12 warns of it), so a
stub of a few lines is started in its place and becomes the program: 15 to 25 ms. Elsewhere than on Linux
the program runs until its next write finds the pipe closed.
"""

import os
import sys

# The number of SIGKILL, and PR_SET_PDEATHSIG. The parent may have gone before the request was made.
_STUB = """\
import ctypes, os, resource, sys
ctypes.CDLL(None).prctl(1, 9)
if os.getppid() != int(sys.argv[1]):
    os._exit(1)
most = int(sys.argv[2])
if most:
    _soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
os.execv(sys.argv[3], sys.argv[3:])
"""


def dies_with_parent(argv: list[str], *, max_memory: int = 0) -> list[str]:
    """The command that runs ``argv`` (whose program is an absolute path) and is killed when we end.

    ``max_memory`` is how many bytes of its own it may have; 0 sets no bound. What asks for more is refused,
    and most programs then abort.
    """
    if sys.platform != "linux":
        return argv
    return [sys.executable, "-I", "-S", "-c", _STUB, str(os.getpid()), str(max_memory), *argv]
