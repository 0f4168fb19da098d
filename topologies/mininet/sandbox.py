"""The box: namespaces that confine a Mininet run, so that nothing outlives it.

`box()` runs a program as the first process of fresh network, mount and process namespaces. When that
process ends, or the box is killed, even with SIGKILL, the kernel ends every process in it, and removes
their interfaces and namespaces. There is nothing to clean up by name, so nothing else can be affected.
Without root a user namespace is added, in which the program is root.

The program calls `prepare()` before anything else.
"""

import contextlib
import importlib
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

_GRACE_S = 10.0
"""Time limit for a box to end after SIGTERM."""


class BoxError(OSError):
    """A box that cannot be entered, or is missing."""


def command(argv: Sequence[str]) -> list[str]:
    """The command line that runs `argv` in a box.

    Killing that command, even with SIGKILL, kills all processes in the box.
    """
    return [*_unshare("--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"), *argv]


def _unshare(*namespaces: str) -> list[str]:
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", *user, *namespaces, "--"]


def box(argv: Sequence[str], meanwhile: Callable[[Callable[[], bool]], None] = lambda _: None) -> int:
    """Run `argv` in a box, on this process's standard streams; return its exit status.

    `meanwhile` is called after the start, with a function that returns whether the program still runs; if it
    raises an exception, the box is killed.

    The status of a program that a signal ended is 128 + the signal. SIGTERM and a KeyboardInterrupt here
    terminate the program; it is killed if it has not ended after 10 s, or on a second one. If this
    process is killed, so is the box. To be called from the main thread. Raises BoxError if `unshare` or
    `setpriv` cannot be started.
    """
    previous = signal.getsignal(signal.SIGTERM)
    if previous is signal.SIG_DFL:  # otherwise the caller has its own handler
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        try:
            process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *command(argv)])
        except FileNotFoundError as error:
            raise BoxError(f"{error.filename} is not on PATH; install util-linux") from None
        try:
            meanwhile(lambda: process.poll() is None)
            process.wait()
        except KeyboardInterrupt:
            _terminate(process)
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            process.kill()
            process.wait()
    finally:
        signal.signal(signal.SIGTERM, previous)
    return _status(process.returncode)


def _terminate(process: subprocess.Popen[bytes]) -> None:
    """Terminate the program; wait until it ends, the time limit, or a second signal."""
    # unshare ignores SIGTERM itself: it has to reach its only child, the first process in the box.
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    with contextlib.suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
        with contextlib.suppress(OSError):  # it may be ending already
            for child in children.read_text(encoding="ascii").split():
                os.kill(int(child), signal.SIGTERM)
        process.wait(_GRACE_S)


def _status(returncode: int) -> int:
    return returncode if returncode >= 0 else 128 - returncode


def entering(pid: int, netns: str, argv: Sequence[str], directory: str) -> list[str]:
    """The command line that runs `argv` in a network namespace of a box, and in a working directory.

    `pid` is of any process in the box, as seen by this process; `netns` is the namespace's path in the box.
    It has the exit status of `argv`, or 125 if the directory is missing. Only the box's creator may do that,
    or root. Raises BoxError if there is no `nsenter` here.
    """
    if shutil.which("nsenter") is None:
        raise BoxError("nsenter is not on PATH; install util-linux")
    user = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
    inside = [
        "nsenter",
        f"--target={pid}",
        *user,
        "--mount",
        "--pid",
        "--",
        "nsenter",
        f"--net={netns}",
        "--",
    ]
    return [*inside, *OWN_SYS, "sh", "-c", 'cd "$0" || exit 125; exec "$@"', directory, *argv]


OWN_SYS = ("unshare", "--mount", "--", "sh", "-c", 'mount -t sysfs sysfs /sys 2>/dev/null; exec "$@"', "sh")
"""Command prefix that mounts /sys for the program's own network namespace."""


def prepare() -> None:
    """Prepare this process, just started by `box()`, for the run; to be called before any thread starts.

    It forks. The first process of the box stays behind: it forwards SIGTERM, reaps orphans, and ends, and the
    box with it, when the program does, with its exit status. The call returns in the child, which therefore
    is the only one to reap its subprocesses, and in which SIGTERM and SIGINT raise KeyboardInterrupt, once.
    Then the loopback interface is up, and the limit of open files is the user's maximum. Raises BoxError if
    this process is not the first of a box.
    """
    if os.getpid() != 1:
        raise BoxError("prepare() must be called by a process that box() started")
    sys.stdout.flush()
    sys.stderr.flush()
    program = os.fork()
    if program:
        _supervise(program)
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGINT, _interrupt)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def _supervise(program: int) -> None:
    """Run the first process: forward SIGTERM, reap orphans, end with the program."""

    def pass_on(_signal: int, _frame: FrameType | None) -> None:
        with contextlib.suppress(ProcessLookupError):  # a signal may arrive just after the program's end
            os.kill(program, signal.SIGTERM)

    signal.signal(signal.SIGTERM, pass_on)
    # A terminal's Ctrl-C reaches the program directly.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        ended, status = os.wait()
        if ended == program:
            os._exit(_status(os.waitstatus_to_exitcode(status)))


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    # Ctrl-C is delivered by the terminal and again, as SIGTERM, by box(); the second must not interrupt
    # the clean-up that the first began.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


def missing() -> dict[str, str]:
    """Return the programs that Mininet needs and PATH lacks, each with its package in Debian."""
    return {program: package for program, package in _PROGRAMS.items() if shutil.which(program) is None}


_PROGRAMS = {
    "unshare": "util-linux",
    "setpriv": "util-linux",
    "ip": "iproute2",
    "bash": "bash",
    "ifconfig": "net-tools",
    "mnexec": "mininet",
}


def why_not() -> str | None:
    """Return why Mininet cannot run here, in one line with the remedy; None if it can."""
    for program, package in missing().items():
        remark = " (with --no-install-recommends); PyPI's mininet lacks it" if program == "mnexec" else ""
        return (
            f"{program} is not on PATH; install it, on Debian and Ubuntu with apt install {package}{remark}"
        )
    try:
        importlib.import_module("mininet.net")
    except ImportError as error:
        return f"Mininet cannot be imported ({error}); pip install mininet setuptools"
    if error_text := _complaint(command(["true"])):
        return (
            f"no namespaces may be made here ({error_text}); run as root, in a container as a privileged one,"
            " or allow user namespaces: sysctl kernel.unprivileged_userns_clone=1"
            " kernel.apparmor_restrict_unprivileged_userns=0"
        )
    veth = ["ip", "link", "add", "name", "probe0", "type", "veth", "peer", "name", "probe1"]
    if error_text := _complaint(command(veth)):
        return f"no veth interfaces can be made ({error_text}); load the kernel's module: modprobe veth"
    return None


def why_no_netem() -> str | None:
    """Return why the kernel's netem cannot impair links here, in one line; None if it can.

    Check before using Mininet's own links: without netem they drop and delay nothing, and report it only in a
    log.
    """
    if shutil.which("tc") is None:
        return "tc is not on PATH"
    probe = ["tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"]
    if error_text := _complaint([*_unshare("--net"), *probe]):
        return f"this kernel has no netem ({error_text})"
    return None


def has_netem() -> bool:
    """Whether links can be impaired by the kernel's netem here."""
    return why_no_netem() is None


def _complaint(argv: Sequence[str]) -> str | None:
    """Return a failed command's error, in one line; None if it succeeds."""
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    return " ".join(done.stderr.split()) or f"exit status {done.returncode}"
