"""The requests that can be made of an open file (``ioctl``), and what the filters answer to each.

Theory of operation. A file system has requests of its own, and some of them make names, or copy a whole tree,
with no right but to read the folders they are made of. btrfs is one: a snapshot of the home directory shows
what is hidden in it under a name that is not, and one of a folder of the workspace can be put anywhere.
Landlock is not asked about them; mounts are. So the families that are known for this are refused everywhere,
and where there are no mounts only what is listed here is left: the next file system has requests that nobody
looked at.

A request is refused as a file system refuses one that it does not know: programs are prepared for that.
"""

import errno
from collections.abc import Iterator

_ALL = 0xFFFF_FFFF
_FAMILY = 0xFF00  # the bits that tell who made a request

# Of btrfs and bcachefs.
_SUBVOLUMES = (0x9400, 0xBC00)

# Of terminals, pipes and whatever is read as a stream.
_STREAMS = 0x5400

# TIOCSTI and TIOCLINUX: typing into a terminal, and pasting into one.
_TYPING = (0x5412, 0x541C)

# FICLONE, FICLONERANGE: btrfs's by their numbers, and every file system's. The target is open for writing.
_CLONING = (0x4004_9409, 0x4020_940D)

# FIBMAP, FIGETBSZ, flags and version (each of a long and of an int), FS_IOC_FSGETXATTR, FS_IOC_FIEMAP.
_LOOKING = (0x1, 0x2, 0x8008_6601, 0x8004_6601, 0x8008_7601, 0x8004_7601, 0x801C_581F, 0xC020_660B)

# What changes a file that is open for reading only, and not what is in it: flags (of a long, of an int,
# FS_IOC_FSSETXATTR), versions (of both), verity, how it is encrypted, and FIDEDUPERANGE.
_SETTING = (
    *(0x4008_6602, 0x4004_6602, 0x401C_5820, 0x4008_7602, 0x4004_7602),
    *(0x4080_6685, 0x800C_6613, 0xC018_9436),
)


def answers(*, by_mounts: bool, keeps_attributes: bool) -> Iterator[tuple[int, int, int]]:
    """Bits of a request, their mask, and the error; 0: it is allowed. The first that fits counts.

    ``by_mounts``: mounts keep the files; ``keeps_attributes``: nothing about a file may be changed. What fits
    none is allowed.
    """
    yield from ((request, _ALL, errno.EPERM) for request in _TYPING)
    yield from ((request, _ALL, errno.EACCES if keeps_attributes else 0) for request in _SETTING)
    yield from ((request, _ALL, 0) for request in _CLONING)
    if by_mounts:
        yield from ((family, _FAMILY, errno.ENOTTY) for family in _SUBVOLUMES)
        return
    yield _STREAMS, _FAMILY, 0
    yield from ((request, _ALL, 0) for request in _LOOKING)
    yield 0, 0, errno.ENOTTY
