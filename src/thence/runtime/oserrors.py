"""What the operating system says of files, in the words of `core.storage`.

Code that goes on after an error needs to know one thing: whether what was asked for certainly did not
happen. Most refusals come before anything is done; only those are called definite.
"""

import errno
from typing import Final

from thence.core.storage import DiskError

FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})

REFUSED: Final = FULL | {
    errno.EACCES, errno.EBADF, errno.EBUSY, errno.EFBIG, errno.EINVAL, errno.EISDIR, errno.ELOOP,
    errno.EMFILE, errno.ENAMETOOLONG, errno.ENFILE, errno.ENODEV, errno.ENOENT, errno.ENOTDIR, errno.EPERM,
    errno.EROFS, errno.ETXTBSY,
}  # fmt: skip
"""Said before anything is done. `EIO` and the like may come after half of it."""


def failed(error: OSError, file: str, *, certain: bool = True) -> DiskError:
    """What the operating system said, in our words. `certain`: a refusal means that nothing was done."""
    definite = certain and error.errno in REFUSED
    return DiskError(error.strerror or str(error), file=file, definite=definite, full=error.errno in FULL)
