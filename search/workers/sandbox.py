"""Landlock: a worker process writes only where its work lies, and opens no network connection.

Linux 5.13 and later let an unprivileged process give up rights for itself and its children (``man 7 landlock``). Reads
stay free: compilers and drivers read all over the system. What runs in a worker are our printed kernels and the
vendors' compilers and drivers; a kernel that runs wild in a CPU runtime is the case this is for.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import sys
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from ktc.backends.runtimes.file_cache import user_caches

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # the same numbers on every architecture
PR_SET_NO_NEW_PRIVS = 38
RULE_PATH_BENEATH = 1
VERSION_FLAG = 1

WRITES = {  # right -> first ABI version that knows it
    1 << 1: 1,  # write to files
    1 << 4: 1,  # remove directories
    1 << 5: 1,  # remove files
    1 << 6: 1,  # make character devices,
    1 << 7: 1,  # directories,
    1 << 8: 1,  # regular files,
    1 << 9: 1,  # sockets,
    1 << 10: 1,  # fifos,
    1 << 11: 1,  # block devices,
    1 << 12: 1,  # symbolic links
    1 << 13: 2,  # link and rename across directories
    1 << 14: 3,  # truncate
}
ON_FILES = (1 << 1) | (1 << 14)
"""The rights that make sense for a path that is a file."""
NETWORK = {1 << 0: 4, 1 << 1: 4}  # TCP bind, connect
SCOPES = {1 << 0: 6}  # abstract unix sockets of processes outside


class _Ruleset(ctypes.Structure):
    _fields_ = [("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("rights", ctypes.c_uint64), ("fd", ctypes.c_int32)]


@cache
def abi() -> int:
    """The kernel's Landlock version; 0 where there is none."""
    if not sys.platform.startswith("linux"):
        return 0
    with contextlib.suppress(OSError, AttributeError):
        return max(0, _libc().syscall(CREATE_RULESET, None, 0, VERSION_FLAG))
    return 0


def describe() -> str:
    """One sentence for reports: what confines the workers on this machine."""
    version = abi()
    if not version:
        return "workers are not confined: this kernel has no Landlock (limits and process groups still hold)"
    net = " and no TCP" if version >= 4 else "; the network is open (Landlock before version 4)"
    return f"workers write only to their folder, caches and devices{net} (Landlock {version})"


def writable_folders(own: Path) -> list[Path]:
    """Where a worker may write: its folder, temporary files, the compilers' and drivers' caches, devices.

    Caches that a user has not filled yet are made: a confined worker could not, and no rule can name what is not there.
    """
    caches = _cache_folders()
    for folder in caches:
        with contextlib.suppress(OSError):  # a home that cannot be written to: the folder's owner says so
            folder.mkdir(parents=True, exist_ok=True)
    paths = (own, Path(tempfile.gettempdir()), *caches, Path("/dev"), Path("/proc"))
    return [p for p in paths if p.exists()]


def _cache_folders() -> list[Path]:
    home = Path.home()
    named = ("KTC_CACHE", "CUPY_CACHE_DIR", "POCL_CACHE_DIR", "NUMBA_CACHE_DIR", "CUDA_CACHE_PATH")
    folders = [user_caches()]
    folders += [Path(folder) for name in named if (folder := os.environ.get(name))]
    if importlib.util.find_spec("cupy"):
        folders += [home / ".cupy", home / ".nv"]
    return folders


def confine(folders: Iterable[Path]) -> int:
    """Give up writing outside ``folders`` and all TCP, for this process for good. Returns the Landlock version used.

    Call it before threads are started: rights are per thread and inherited. 0: there is no Landlock, nothing changed.

    Raises:
        OSError: the kernel has Landlock but refuses the rules.
    """
    version = abi()
    if not version:
        return 0
    rights = _known(WRITES, version)
    rules = _Ruleset(rights, _known(NETWORK, version), _known(SCOPES, version))
    size = 8 if version < 4 else 16 if version < 6 else 24
    fd = _checked(_libc().syscall(CREATE_RULESET, ctypes.byref(rules), size, 0))
    try:
        for folder in folders:
            _allow(fd, folder, rights)
        _checked(_libc().prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        _checked(_libc().syscall(RESTRICT_SELF, fd, 0))
    finally:
        os.close(fd)
    return version


def _allow(ruleset: int, path: Path, rights: int) -> None:
    parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        beneath = _Beneath(rights if path.is_dir() else rights & ON_FILES, parent)
        _checked(_libc().syscall(ADD_RULE, ruleset, RULE_PATH_BENEATH, ctypes.byref(beneath), 0))
    finally:
        os.close(parent)


def _known(rights: dict[int, int], version: int) -> int:
    return sum(right for right, since in rights.items() if since <= version)


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"Landlock: {os.strerror(code)}")
    return result
