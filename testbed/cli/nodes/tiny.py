"""`feednet tiny` and `feednet isp`: tinySSB on a real network, for two terminals or two laptops."""

import asyncio
import os
import stat
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from testbed.errors import UserError, as_user_error

_DAY_NS = 86_400_000_000_000

_interface_option = click.option(
    "--interface",
    "interfaces",
    multiple=True,
    help="Only this network interface (repeatable); default all, or lo if there is no network.",
)


def _path_option(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option(
        "--path",
        type=click.Path(path_type=Path),
        default=Path(f"~/.feednet/{name}"),
        help="Directory with the identity and all feeds; one program uses it at a time.",
    )


@click.command()
@_path_option("tiny")
@click.option("--isp", metavar="KEY", help="Chat through this provider; it is remembered.")
@click.option(
    "--unproven",
    is_flag=True,
    help="Take contacts at the provider's word: tinyISP's prototypes pass on no proofs of who asks.",
)
@_interface_option
def tiny(path: Path, isp: str | None, unproven: bool, interfaces: tuple[str, ...]) -> None:
    """Chat by tinySSB: packets of 120 bytes to all on the local network (UDP 239.5.5.8, port 1558).

    Without a provider, everybody in reach reads everything. Through a provider, contacts agree to each other.
    A text is signed and stored before it is sent: after /quit, Ctrl-C, the end of the input or
    a crash all goes on.
    """
    from ssb.tiny.daemon.account import parse_key
    from ssb.tiny.daemon.customer import Customer
    from ssb.tiny.daemon.hall import Hall

    key = None if isp is None else _read(parse_key, isp)

    def desk(account: Any, node: Any, now: int) -> Any:
        provider = account.provider(key)
        if provider is not None:
            return Customer(account, node, provider, now, takes_unproven=unproven)
        if unproven:
            raise ValueError("--unproven has no effect without a provider; leave it out, or give --isp")
        return Hall(account, node, now)

    _run(path, interfaces, desk)


@click.command()
@_path_option("isp")
@click.option(
    "--allow", "allowed", metavar="KEY", multiple=True, help="Let this key be a client (repeatable)."
)
@click.option("--days", type=click.IntRange(1, 3660), help="Length of a contract; default no end.")
@_interface_option
def isp(path: Path, allowed: tuple[str, ...], days: int | None, interfaces: tuple[str, ...]) -> None:
    """Run a tinyISP provider on the local network: its clients exchange feeds with each other through it.

    It has to know the keys of its clients, and they its own. Contracts and what is under way survive a crash.
    It ends with /quit, Ctrl-C or the end of its input.
    """
    from ssb.tiny.daemon.account import parse_key
    from ssb.tiny.daemon.counter import Counter
    from ssb.tiny.isp.terms import Terms

    terms = Terms(term=None if days is None else days * _DAY_NS)

    keys = [_read(parse_key, each) for each in allowed]

    def desk(account: Any, node: Any, now: int) -> Any:
        counter = Counter(account, node, terms, now)
        for key in keys:
            counter.allow(key, now)
        return counter

    _run(path, interfaces, desk)


def _read(parse_key: Callable[[str], bytes], key: str) -> bytes:
    """Return a parsed key, before anything is written. Raises UserError."""
    with as_user_error(ValueError):
        return parse_key(key)


def _has_input() -> bool:
    """Return whether there is an input: services have the null device in its place."""
    return sys.stdin.isatty() or not stat.S_ISCHR(os.fstat(sys.stdin.fileno()).st_mode)


def _run(path: Path, interfaces: tuple[str, ...], make: Callable[..., Any]) -> None:
    import time
    from random import SystemRandom

    from ssb.tiny.daemon.account import Account
    from ssb.tiny.daemon.service import LAN, media, run
    from ssb.tiny.node import Node

    try:
        ports = media(interfaces)
    except ValueError as error:
        raise UserError(f"--interface: {error}") from None
    with closing(Account(path.expanduser())) as account:
        node = Node(account.store, SystemRandom(), LAN, ports=tuple(ports))
        with as_user_error(ValueError):
            desk = make(account, node, time.time_ns())
        asyncio.run(run(desk, ports, sys.stdin, click.echo, ends_with_lines=_has_input()))
