"""What a new version of a file keeps of the old one besides its name: owner, access list and mode.

Kept is what the system lets us keep, and never more than the old file allowed: a new version must not be
open to anybody to whom the old one was not.
"""

import contextlib
import errno
import os
import stat

_ACCESS_LIST = "system.posix_acl_access"


def look_like(descriptor: int, name: str, folder: int) -> None:
    """Give the staged file the owner, the access list and the mode of the old one, and no more than those.

    Owner, group and list are kept as far as the system lets us. The mode always is, but for the set-id
    bits of a file that got another owner or group: they would now lend out somebody else's rights.
    """
    old = os.stat(name, dir_fd=folder, follow_symlinks=False)
    mode = stat.S_IMODE(old.st_mode)
    if not _keep_owner(descriptor, old):
        mode &= ~(stat.S_ISUID | stat.S_ISGID)
    # The list before the mode: with a list, the mode's group bits are the bounds of the list, and without
    # it for a moment they would be what the group may do.
    if hasattr(os, "getxattr"):
        with contextlib.suppress(OSError):
            _keep_access_list(descriptor, name, folder)
    os.fchmod(descriptor, mode)


def _keep_owner(descriptor: int, old: os.stat_result) -> bool:
    """Give the file the owner and group of the old one; whether it has both now."""
    new = os.fstat(descriptor)
    if old.st_gid != new.st_gid:
        # On its own: a group that we are in can be kept also where the owner cannot.
        with contextlib.suppress(OSError):
            os.fchown(descriptor, -1, old.st_gid)
    if old.st_uid != new.st_uid:
        with contextlib.suppress(OSError):
            os.fchown(descriptor, old.st_uid, -1)
    new = os.fstat(descriptor)
    return (new.st_uid, new.st_gid) == (old.st_uid, old.st_gid)


def _keep_access_list(descriptor: int, name: str, folder: int) -> None:
    """Give the file the access list of the old one, or none where that has none.

    A new file gets a list from its folder, where the folder has a default one, and the mode would then
    open the file to everybody named there.
    """
    source = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    try:
        access = os.getxattr(source, _ACCESS_LIST)
    except OSError as error:
        if error.errno != errno.ENODATA:
            raise
        os.removexattr(descriptor, _ACCESS_LIST)
    else:
        os.setxattr(descriptor, _ACCESS_LIST, access)
    finally:
        os.close(source)
