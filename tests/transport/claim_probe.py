"""A process that claims its descriptors and then behaves as badly as it can. Run by test_claim.

It says what it found on the protocol's output, one line, and copies one line of the protocol's input.
"""

import sys

from term2_acp.transport.claim import claim

# What the claim needed must have been there before it: it runs first of all.
HEAVY = [
    name
    for name in ("trio", "attrs", "attr", "msgspec", "logging", "socket", "subprocess")
    if name in sys.modules
]

claimed = claim()

import fcntl  # noqa: E402
import os  # noqa: E402
import subprocess  # noqa: E402
import warnings  # noqa: E402

print("printed")  # noqa: T201
sys.stdout.flush()
os.write(1, b"\x1b]0;title\x07\n")
warnings.warn("warned", stacklevel=1)
subprocess.run([sys.executable, "-c", "import sys; print('child got', repr(sys.stdin.read()))"], check=True)
inherited = subprocess.run(
    [sys.executable, "-c", f"import os; os.fstat({claimed.input}); os.fstat({claimed.output})"],
    stderr=subprocess.DEVNULL,
    close_fds=False,
)

found = {
    "heavy": HEAVY,
    "private": claimed.input > 2 and claimed.output > 2 and claimed.input != claimed.output,
    "inherited": inherited.returncode == 0,
    "stdin": os.read(0, 10),
    "stdin is inheritable": os.get_inheritable(0),
    "stdout is stderr": os.path.sameopenfile(1, 2),
    "nonblocking": [
        bool(fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_NONBLOCK) for fd in (claimed.input, claimed.output)
    ],
}
os.write(claimed.output, repr(found).encode() + b"\n")
os.write(claimed.output, b"input: " + repr(os.read(claimed.input, 100)).encode() + b"\n")
