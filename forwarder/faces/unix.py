"""Unix sockets: where applications of this machine come in."""

import os
import socket
import stat
from pathlib import Path

SYSTEM_PATH = Path("/run/nfd/nfd.sock")
"""Default path of the forwarder's socket."""
_MODE = 0o666  # whoever may reach it may use it, as NFD has it
_PATIENCE_S = 1.0


def default_path() -> Path:
    """Return the path to listen at: SYSTEM_PATH if this user may, else one of this user's own."""
    parent = SYSTEM_PATH.parent
    nearest = next(each for each in (parent, *parent.parents) if each.exists())
    if os.access(nearest, os.W_OK | os.X_OK):
        return SYSTEM_PATH
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return (Path(runtime) if runtime else Path.home() / ".ndn") / "nfd" / "nfd.sock"


def bind(path: Path) -> socket.socket:
    """Bind a stream socket to a path, replacing a stale socket file.

    Raises OSError, whose text says why for the user.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        pass
    else:
        if not stat.S_ISSOCK(mode):
            raise FileExistsError(f"{path} is there and is no socket; remove it, or choose another path")
        if _is_answered(path):
            raise FileExistsError(f"{path}: another forwarder listens there; stop it, or choose another path")
        path.unlink()
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(str(path))
        path.chmod(_MODE)
    except OSError as error:
        sock.close()
        raise OSError(f"{path}: {error.strerror or error}") from error
    return sock


def _is_answered(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_PATIENCE_S)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return False
        except OSError:
            return True  # it may be there, and busy
    return True


def unlink(sock: socket.socket, path: Path, inode: int) -> None:
    """Close a socket that bind() has made and remove its file, if it is still the one with that inode."""
    sock.close()
    try:
        if path.lstat().st_ino == inode:
            path.unlink()
    except OSError:
        pass  # it is gone already, or not ours any more
