"""Temporary entry into another network namespace: a socket stays in the namespace in which it was opened."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def inside(netns: str) -> Iterator[None]:
    """Enter the network namespace at the path `netns` for the `with` block.

    This affects the current thread only, so never await in it. Raises OSError if the namespace is gone or may
    not be entered.
    """
    with open("/proc/thread-self/ns/net", "rb") as home, open(netns, "rb") as there:
        _setns(there.fileno())
        try:
            yield
        finally:
            _setns(home.fileno())


def new_netns() -> int:
    """Make a network namespace; return a descriptor that keeps it. Raises OSError."""
    with open("/proc/thread-self/ns/net", "rb") as home:
        if _libc.unshare(_CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        try:
            return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        finally:
            _setns(home.fileno())


def _setns(descriptor: int) -> None:
    if _libc.setns(descriptor, _CLONE_NEWNET):  # os.setns exists from Python 3.12 on
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
