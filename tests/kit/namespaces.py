"""Functions of a test module that are run in mount namespaces of their own: what they mount ends with them.

A process that imports what a test module imports takes half a second of a core, a fork of it nothing. So one
process is made for all calls, in a user namespace where it may mount, and each call is a fork of it with a
mount namespace of its own.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence

import pytest

_NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount")

# glibc has a function for it since ever, Python since 3.12.
_RUN = """
import ctypes, importlib, json, os, sys, traceback
module = importlib.import_module(sys.argv[1])
CLONE_NEWNS = 0x20000
came_to = {}
for name, (function, *arguments) in json.loads(sys.argv[2]).items():
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        said = b"it did not end by itself"
        try:
            if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS) != 0:
                raise OSError(ctypes.get_errno(), "unshare")
            getattr(module, function)(*arguments)
            said = b""
        except BaseException:
            said = traceback.format_exc().encode()
        finally:
            os.write(writing, said[-60_000:])
            os._exit(1 if said else 0)
    os.close(writing)
    with open(reading, errors="replace") as pipe:
        said = pipe.read()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    came_to[name] = said or (f"it ended with {code}" if code else "")
print(json.dumps(came_to))
"""


def in_namespaces(module: str, calls: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Call functions of that module, each in a namespace of its own: by name a function and its arguments.

    Returns what each call came to, by its name: nothing, or the traceback of what it raised. Skips the test
    where there are no such namespaces.
    """
    if subprocess.run((*_NAMESPACE, "true"), capture_output=True).returncode != 0:
        pytest.skip("no mount namespaces here")
    command = (*_NAMESPACE, sys.executable, "-c", _RUN, module, json.dumps(calls))
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    came_to: dict[str, str] = json.loads(done.stdout)
    return came_to
