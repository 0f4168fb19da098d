"""Being the user nobody, for tests of what works without root."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).parents[1]
NOBODY = 65534
AS_NOBODY = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--"]


def environment() -> dict[str, str]:
    """Where a Python finds this project and its libraries, without writing into them."""
    libraries = sysconfig.get_paths()["purelib"]
    return os.environ | {"PYTHONPATH": f"{ROOT}:{libraries}", "PYTHONDONTWRITEBYTECODE": "1", "HOME": "/tmp"}


def interpreter() -> str | None:
    """A Python of this version that nobody may run with this project; None if there is none."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for python in (sys.executable, shutil.which(version, path="/usr/bin:/usr/local/bin")):
        # In a user namespace of its own, as the box will be: what nobody inherits from root ends there.
        argv = [*AS_NOBODY, "unshare", "--user", "--", str(python), "-c", "import mininet.net, testbed.cli"]
        if subprocess.run(argv, capture_output=True, check=False, env=environment()).returncode == 0:
            return python
    return None
