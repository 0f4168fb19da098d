"""What a user's commands ask of an account, with its peer running or not.

The calls have the names that they have in stock peers where these have them: whoami, publish,
createLogStream, status, blobs.want, blobs.size, invite.create, friends.isBlocking; connect takes an address,
blobs.add a path.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from secrets import token_bytes

from ssb.canonical import Value, parse
from ssb.daemon.account import Account
from ssb.daemon.local_peer import LocalPeer
from ssb.keys import InvalidRef
from ssb.message import ForkedFeed, InvalidMessage
from ssb.store.blobs import RefusedBlob
from ssb.store.feeds import Stored
from ssb.transport.address import InvalidAddress, PeerAddress, parse_address
from ssb.uri import plain


class CommandError(ValueError):
    """What was asked for cannot be done; the message says why, in one line."""


class Commands:
    """The calls.

    Args:
        account: whose commands they are.
        clock: the time, ms since 1970.
        running: the peer, if it is running, and the clock of its network, ns.
        address: where the peer can be reached, for invites.
        more: returns what is to be added to the status.
    """

    def __init__(
        self,
        account: Account,
        clock: Callable[[], float],
        running: tuple[LocalPeer, Callable[[], int]] | None = None,
        address: PeerAddress | None = None,
        more: Callable[[], Mapping[str, Value]] | None = None,
    ) -> None:
        self._account = account
        self._clock = clock
        self._running = running
        self._address = address
        self._more = more

    def answer(self, name: Sequence[str], arguments: Sequence[Value]) -> Value:
        """Answer a call of form async; raise CommandError and StoreError."""
        try:
            match tuple(name), list(arguments):
                case ("whoami",), _:
                    return {"id": self._account.identity.ref}
                case ("publish",), [dict() as content, *rest]:
                    return self._publish(content, rest[0] if rest else None)
                case ("status",), _:
                    return self._status()
                case ("connect",), [str() as text]:
                    self._connect(parse_address(plain(text)))
                    return True
                case ("blobs", "add"), [str() as path]:
                    return self._add_blob(Path(path))
                case ("blobs", "want"), [str() as blob]:
                    return self._want_blob(plain(blob))
                case ("blobs", "size"), [str() as blob]:
                    return self._account.blobs.size(plain(blob))
                case ("invite", "create"), [int() as uses]:
                    return self._invite(uses)
                case ("friends", "isBlocking"), [{"source": str() as source, "dest": str() as feed}]:
                    return self._account.graph.is_blocked(feed, by=source)
        except (InvalidMessage, ForkedFeed, InvalidRef, InvalidAddress, ValueError) as error:
            raise CommandError(str(error)) from None
        raise CommandError(f"method:{','.join(name)} is not in list of allowed methods")

    def stream(self, name: Sequence[str], arguments: Sequence[Value]) -> Iterator[Value]:
        """Yield the answers to a call of form source; raise CommandError and StoreError."""
        if tuple(name) != ("createLogStream",):
            raise CommandError(f"method:{','.join(name)} is not in list of allowed methods")
        options = arguments[0] if arguments else {}
        if not isinstance(options, dict):
            raise CommandError("createLogStream takes an object of options")
        feed, limit, kind = options.get("id"), options.get("limit"), options.get("type")
        if not (
            isinstance(feed, str | None) and isinstance(kind, str | None) and isinstance(limit, int | None)
        ):
            raise CommandError("createLogStream takes id, limit and type")
        for stored in self._account.messages(feed, limit, kind):
            yield _entry(stored)

    def _publish(self, content: dict[str, Value], recipients: Value) -> Value:
        to = [str(feed) for feed in recipients] if isinstance(recipients, list) else None
        if self._running is None:
            message = self._account.publish(content, self._clock(), to)
        else:
            peer, clock = self._running
            message = peer.publish(content, clock(), to)
        return {"key": message.id, "value": parse(message.text), "timestamp": self._clock()}

    def _connect(self, address: PeerAddress) -> None:
        if self._account.graph.is_blocked(address.peer):
            raise CommandError(f"you block {address.peer}: `feednet ssb follow --block --undo` ends that")
        if self._running is None:
            self._account.remember(address)
        else:
            peer, clock = self._running
            peer.connect(address, clock())

    def _add_blob(self, path: Path) -> str:
        try:
            data = path.read_bytes()
        except OSError as error:
            raise CommandError(f"{path}: {error.strerror}") from None
        try:
            blob = self._account.blobs.add(data)
        except RefusedBlob as error:
            raise CommandError(f"{path}: {error}") from None
        if self._running is not None:
            peer, clock = self._running
            peer.peer.added_blob(blob, clock())
        return blob

    def _want_blob(self, blob: str) -> bool:
        if self._account.blobs.size(blob) is not None:
            return True
        if self._running is None:
            raise CommandError("the blob is not here, and the peer that could fetch it is not running")
        peer, clock = self._running
        peer.peer.want_blob(blob, clock())
        return False

    def _invite(self, uses: int) -> Value:
        if self._running is None or self._address is None:
            raise CommandError("the peer is not running: start it with `feednet ssb peer`")
        if uses < 1:
            raise CommandError("an invite can be used once at least")
        return str(self._running[0].invite(self._address, uses, token_bytes(32)))

    def _status(self) -> Value:
        account = self._account
        status: dict[str, Value] = {
            "id": account.identity.ref,
            "running": self._running is not None,
            "feeds": len(account.feeds.tips()),
            "messages": account.feeds.end,
            "own": account.feeds.tips().get(account.identity.ref, 0),
            "replicated": len(account.graph.replicated()),
            "forked": sorted(account.feeds.forks()),
            "blobs": account.blobs.used,
        }
        if self._running is not None:
            peer, clock = self._running
            now = clock()
            status["connections"] = [
                {
                    "peer": connection.remote,
                    "called": connection.called is not None,
                    "seconds": (now - connection.since) // 1_000_000_000,
                    "new": connection.useful,
                    "ebt": connection.replication is not None,
                }
                for connection in peer.peer.connections.values()
                if connection.remote
            ]
            status["refused"] = dict(peer.peer.refused)
            status["troubles"] = dict(peer.peer.troubles)
            status["set_aside"] = [
                {"feed": feed, "from": remote, "reason": reason}
                for feed, (remote, reason) in peer.peer.replication.set_aside.items()
            ]
            status["unreached"] = [
                {"peer": feed, "address": f"{address[0]}:{address[1]}", "times": times, "reason": reason}
                for feed, (address, times, reason) in peer.peer.unreached.items()
            ]
        if self._more is not None:
            status |= self._more()
        return status


def _entry(stored: Stored) -> Value:
    return {"key": stored.id, "value": parse(stored.text.decode()), "timestamp": stored.received}
