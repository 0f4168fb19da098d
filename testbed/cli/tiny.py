"""`feednet tiny` and `feednet isp`: tinySSB on this machine's interfaces: a chat, and a provider."""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from testbed.cli.usage import exclude
from testbed.errors import UserError

_Function = TypeVar("_Function", bound=Callable[..., None])
_TINY, _ISP = Path("~/.feednet/tiny"), Path("~/.feednet/isp")


def _common(directory: Path) -> Callable[[_Function], _Function]:
    """Return the options that both commands have."""

    def decorate(command: _Function) -> _Function:
        options = (
            click.option(
                "--path",
                type=click.Path(path_type=Path),
                default=directory,
                show_default=True,
                help="Directory of the key and of all that is stored.",
            ),
            click.option("--key", "shows_key", is_flag=True, help="Print the key, and end."),
            click.option(
                "--interface",
                "interfaces",
                multiple=True,
                metavar="NAME",
                help="Interface to use, such as eth0 or lo (repeatable). By default all but loopback.",
            ),
            click.option(
                "--size",
                type=click.IntRange(3, 1_000_000),
                help="Term: entries of a data feed (50). Provider and clients must give the same.",
            ),
            click.option(
                "--unread",
                type=click.IntRange(2, 1000),
                help="Term: data feeds that may be unread (3). Provider and clients must give the same.",
            ),
        )
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


@click.command()
@_common(_TINY)
@click.option("--isp", "provider", metavar="KEY", help="Chat through this provider, not directly.")
@click.option("--contact", "contacts", multiple=True, metavar="KEY", help="Whom to chat with (repeatable).")
@click.option(
    "--save",
    "saved",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write all that was said directly to a file of packets, and end.",
)
@click.option(
    "--load",
    "loaded",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Take in such a file, show what is new, and end.",
)
def tiny(
    path: Path,
    shows_key: bool,
    interfaces: tuple[str, ...],
    size: int | None,
    unread: int | None,
    provider: str | None,
    contacts: tuple[str, ...],
    saved: Path | None,
    loaded: Path | None,
) -> None:
    """Chat by tinySSB: lines that are typed go to others, and theirs are shown. Ends with Ctrl-C.

    Directly, all on the local network read everything. Through a provider, lines go to contacts only. What is
    typed is stored first, and comes to those who are away now when they are back. Nothing is encrypted.
    """
    from ssb.tiny.daemon.account import Account
    from ssb.tiny.daemon.chat import Chat, DirectChat, ProviderChat
    from ssb.tiny.daemon.service import RANDOM, ports_of, run
    from ssb.tiny.node import Node

    path = path.expanduser()
    exclude("provider", "saved")
    exclude("provider", "loaded")
    exclude("saved", "loaded")
    if provider is None and (contacts or size is not None or unread is not None):
        raise click.UsageError("--contact, --size and --unread need --isp")
    isp = None if provider is None else _key("--isp", provider)
    wanted = [_key("--contact", contact) for contact in contacts]
    with Account(path) as account:
        if shows_key:
            click.echo(account.identity.ref)
            return
        if saved is not None or loaded is not None:
            _carry(account, saved, loaded)
            return
        ports = ports_of(interfaces)
        terms = _terms(account, size, unread)
        chat: Chat

        def make(now: int) -> tuple[Node, Chat]:
            nonlocal chat
            node = Node(account.store, RANDOM, ports=ports)
            if isp is None:
                chat = DirectChat(node, account.identity, _show, now)
            else:
                try:
                    chat = ProviderChat(node, account.identity, isp, wanted, _show, _tell, terms, RANDOM, now)
                except ValueError as error:
                    raise UserError(f"--contact: {error}") from None
            return node, chat

        def write(line: str, now: int) -> None:
            if line.strip():
                try:
                    chat.write(line, now)
                except ValueError as error:
                    click.echo(f"feednet: not sent: {error}", err=True)

        asyncio.run(run(make, ports, lambda: _ready(account.identity.ref, ports), sys.stdin, write))


@click.command()
@_common(_ISP)
@click.option(
    "--client",
    "clients",
    multiple=True,
    metavar="KEY",
    help="A client that has signed up (repeatable); those of earlier times stay.",
)
def isp(
    path: Path,
    shows_key: bool,
    interfaces: tuple[str, ...],
    size: int | None,
    unread: int | None,
    clients: tuple[str, ...],
) -> None:
    """Be a tinyISP provider until Ctrl-C: clients exchange feeds with each other through it.

    Only clients that are named get a contract. Contracts, and what is under way, are kept in the directory.
    """
    from ssb.tiny.daemon.account import Account
    from ssb.tiny.daemon.service import RANDOM, ports_of, run
    from ssb.tiny.isp.provider import Provider
    from ssb.tiny.node import Node

    path = path.expanduser()
    wanted = [_key("--client", client) for client in clients]
    with Account(path) as account:
        if account.identity.public_key in wanted:
            raise UserError("--client: the provider is no client of itself")
        if shows_key:
            click.echo(account.identity.ref)
            return
        ports = ports_of(interfaces)
        terms = _terms(account, size, unread)

        def make(now: int) -> tuple[Node, _Desk]:
            node = Node(account.store, RANDOM, ports=ports)
            provider = Provider(node, account.identity, RANDOM, terms, now)
            with account.store.transaction():
                for client in wanted:
                    provider.allow(client)
                    provider.follow(client, now)
            if not provider.whitelist:
                raise UserError("--client: there are no clients; name one at least")
            provider.announce(now)
            return node, _Desk(provider)

        asyncio.run(run(make, ports, lambda: _ready(account.identity.ref, ports)))


def _carry(account: Any, saved: Path | None, loaded: Path | None) -> None:
    """Write a file of packets, or take one in."""
    from forwarder.faces.driver import steady_clock
    from ssb.tiny.daemon import carried
    from ssb.tiny.daemon.chat import DirectChat
    from ssb.tiny.daemon.service import RANDOM
    from ssb.tiny.goset import COMMON
    from ssb.tiny.node import Node

    now = steady_clock()()
    node = Node(account.store, RANDOM, checksum=False)
    chat = DirectChat(node, account.identity, _show, now)
    if saved is not None:
        packets = carried.packets_of(account.store, node.keys(COMMON))
        size = carried.save(packets, saved)
        click.echo(f"feednet: {len(packets)} packets, {size} bytes")
    elif loaded is not None:
        try:
            packets = carried.load(loaded)
        except carried.MalformedFile as error:
            raise UserError(f"--load {loaded}: not a file of packets: {error}") from None
        for packet in packets:
            node.receive(1, packet, None, now)
        chat.go_on(now)
        new = sum(node.taken[kind] for kind in ("entry", "chunk"))
        click.echo(f"feednet: {len(packets)} packets, {new} of them new")


class _Desk:
    """Tells what happens to contracts."""

    def __init__(self, provider: Any) -> None:
        self._provider = provider

    def go_on(self, now: int) -> None:
        """See Application."""
        from ssb.keys import feed_ref

        for event in self._provider.take_events():
            _tell(event.kind, feed_ref(event.peer))

    def next_deadline(self) -> int | None:
        """See Application."""
        return None


def _key(option: str, text: str) -> bytes:
    from ssb.keys import InvalidRef, parse_feed

    try:
        return parse_feed(text)
    except InvalidRef as error:
        raise UserError(f"{option}: {text}: {error}") from None


def _terms(account: Any, size: int | None, unread: int | None) -> Any:
    try:
        return account.terms(size, unread)
    except ValueError as error:
        raise UserError(f"--size, --unread: {error}") from None


def _ready(ref: str, ports: Any) -> None:
    names = ", ".join(port.interface.name for port in ports.values())
    click.echo(f"feednet: ready, {ref} on {names}")


def _show(ref: str, text: str) -> None:
    click.echo(f"{ref[:9]}  {text}")


def _tell(what: str, ref: str) -> None:
    click.echo(f"feednet: {what} {ref}")
