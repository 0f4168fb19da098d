"""A host of Mininet's without a process of its own: a network namespace, and a shell on request.

Mininet starts a shell for every host, which takes most of the time and memory of a large network. Here a host
is a descriptor of its namespace, used to start programs or open sockets in it. Mininet's own calls (`cmd`,
`popen` ...) start the shell when needed.
"""

import os
import subprocess
from collections.abc import Sequence
from typing import Any

import mininet.node

from captures.network.netns import inside, new_netns
from topologies.mininet.sandbox import OWN_SYS


class Namespace:
    """A network namespace that lives as long as this object, or as a process in it.

    Attributes:
        path: for other processes of this user, as long as this process lives.

    Raises OSError if no more can be created.
    """

    def __init__(self) -> None:
        self._descriptor = new_netns()
        self.path = f"/proc/{os.getpid()}/fd/{self._descriptor}"

    def start(self, argv: Sequence[str], **options: Any) -> "subprocess.Popen[Any]":
        """Start a program in it; options are Popen's. Raises OSError."""
        with inside(self.path):
            return subprocess.Popen([*OWN_SYS, *argv], **options)

    def close(self) -> None:
        """Release it. A second call has no effect."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class Host(mininet.node.Host):  # type: ignore[misc]  # Mininet has no types
    """A host in an existing namespace, configured elsewhere."""

    def __init__(self, name: str, namespace: Namespace, **parameters: Any) -> None:
        self.namespace = namespace
        super().__init__(name, **parameters)

    def startShell(self, mnopts: str | None = None) -> None:  # noqa: N802
        """Start no shell yet."""

    def cmd(self, *arguments: Any, **options: Any) -> Any:
        """Run a command in the shell, and return its output."""
        self._begin()
        return super().cmd(*arguments, **options)

    def sendCmd(self, *arguments: Any, **options: Any) -> Any:  # noqa: N802
        """Send a command to the shell."""
        self._begin()
        return super().sendCmd(*arguments, **options)

    def _begin(self) -> None:
        """Start the shell, if needed."""
        if self.shell is None:
            self.inNamespace = False  # or Mininet would create another namespace
            super().startShell()
            self.inNamespace = True

    def popen(self, *arguments: Any, **options: Any) -> "subprocess.Popen[Any]":
        """Start a program."""
        return super().popen(*arguments, **{"mncmd": [], **options})  # type: ignore[no-any-return]

    def _popen(self, cmd: list[str], **options: Any) -> "subprocess.Popen[Any]":
        return self.namespace.start(cmd, **options)

    def config(self, **_parameters: Any) -> dict[str, Any]:
        """No effect: the network has configured it."""
        return {}

    def terminate(self) -> None:
        """End the shell, and release the namespace."""
        super().terminate()
        self.namespace.close()
