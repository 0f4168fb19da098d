"""Commands on an account, with its peer running or not.

Calls that stock peers have, too, have the same names: whoami, publish, get, links, createLogStream, status,
blobs.want, blobs.size, invite.create, friends.isBlocking, friends.isFollowing; connect takes an address,
blobs.add a path, and settle declares that nobody has more of the own feed than this peer. detached.publish
writes a detached message, and detached.delete deletes the content of one. pubs lists those that logs name,
rooms those that are visited. room.registerAlias and room.revokeAlias take the room, too, and are to be
repeated until they return something. Those of private groups begin with groups, those about the devices of
one identity with devices, those about feeds whose branches are merged with branches, and those about
countersignatures and notaries with suites.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from secrets import token_bytes
from typing import TYPE_CHECKING, Any

from ssb.canonical import Value, parse
from ssb.daemon.account import Account
from ssb.daemon.backlinks import answers
from ssb.daemon.device_calls import DeviceCalls
from ssb.daemon.group_calls import GroupCalls
from ssb.daemon.suite_calls import SuiteCalls
from ssb.detached import reference_of, request
from ssb.groups.envelope import Key
from ssb.keys import InvalidRef, parse_feed, parse_message
from ssb.message import ForkedFeed, InvalidMessage, Message
from ssb.rooms.room import REVOKE
from ssb.store.blobs import RefusedBlob
from ssb.store.feeds import Stored
from ssb.transport.address import InvalidAddress, PeerAddress, parse_address
from ssb.transport.calls import not_allowed
from ssb.uri import plain

if TYPE_CHECKING:  # large, and needed only by a running peer
    from ssb.daemon.local_peer import LocalPeer


_NOT_RUNNING = "the peer is not running: start it with `feednet ssb peer`"


class CommandError(ValueError):
    """A command failed; the message gives the reason in one line."""


class Commands:
    """The calls.

    Args:
        account: the user's.
        clock: the time, ms since 1970.
        running: the peer, if it is running, and the clock of its network, ns.
        address: where the peer can be reached, for invites.
        more: returns additions to the status.
    """

    def __init__(
        self,
        account: Account,
        clock: Callable[[], float],
        running: "tuple[LocalPeer, Callable[[], int]] | None" = None,
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
                    return self._publish(content, rest[0] if rest else None, "box2" in rest[1:])
                case ("groups", call), _:
                    return self._groups.answer(call, arguments)
                case ("devices", call), _:
                    return self._devices.answer(call, arguments)
                case ("branches", call), _:
                    return self._merge_branches(call, arguments)
                case ("suites", call), _:
                    return SuiteCalls(self._account, self._write).answer(call, arguments)
                case ("detached", "publish"), [dict() as content]:
                    return self._publish_detached(content)
                case ("detached", "delete"), [str() as id_]:
                    return self._delete(plain(id_))
                case ("settle",), _:
                    return self._settle()
                case ("status",), _:
                    return self._status()
                case ("forks",), _:
                    return self._forks()
                case ("pubs",), _:
                    return self._pubs()
                case ("rooms",), _:
                    return self._rooms()
                case ("room", "registerAlias" | "revokeAlias" as what), [str() as room, str() as alias]:
                    return self._alias(plain(room), alias, is_revoked=what == "revokeAlias")
                case ("check",), [list() as places]:
                    return self._check_damaged(places)
                case ("connect",), [str() as text]:
                    self._connect(parse_address(plain(text)))
                    return True
                case ("get",), [str() as id_] | [{"id": str() as id_}]:
                    options = arguments[0] if isinstance(arguments[0], dict) else {}
                    return self._get(plain(id_), is_wanted=options.get("ooo") is not False)
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
                case ("friends", "isFollowing"), [{"source": str() as source, "dest": str() as feed}]:
                    return self._account.graph.is_following(source, feed)
        except (InvalidMessage, ForkedFeed, InvalidRef, InvalidAddress, ValueError) as error:
            raise CommandError(str(error)) from None
        raise CommandError(not_allowed(name))

    def stream(self, name: Sequence[str], arguments: Sequence[Value]) -> Iterator[Value]:
        """Yield the answers to a call of form source; raise CommandError and StoreError."""
        if tuple(name) == ("groups", "log"):
            yield from self._group_log(arguments)
            return
        options = arguments[0] if arguments else {}
        if tuple(name) not in (("links",), ("createLogStream",)):
            raise CommandError(not_allowed(name))
        if not isinstance(options, dict):
            raise CommandError(f"{name[0]} takes an object of options")
        if name[0] == "links":
            yield from self._links(options)
            return
        feed, limit, kind = options.get("id"), options.get("limit"), options.get("type")
        if not (
            isinstance(feed, str | None) and isinstance(kind, str | None) and isinstance(limit, int | None)
        ):
            raise CommandError("createLogStream takes id, limit and type")
        namer = self._account.views.namer() if options.get("names") is True else None
        feeds: Collection[str] | None = None if feed is None else (feed,)
        if feed is not None and options.get("devices") is True:
            feeds = self._account.views.fusions.devices(feed)
        for stored in self._account.log.messages(feeds, limit, kind):
            entry = _entry(stored)
            if options.get("contents") is True:
                entry |= self._content_of(stored)
            if namer is not None:
                entry["name"] = namer(entry["value"]["author"])
            if options.get("private") is True and isinstance(entry["value"]["content"], str):
                entry["opened"] = self._account.open_private(stored.message)
            yield entry

    def _links(self, options: Mapping[str, Value]) -> Iterator[Value]:
        try:
            yield from answers(self._account.backlinks, options)
        except ValueError as error:
            raise CommandError(str(error)) from None

    def _group_log(self, arguments: Sequence[Value]) -> Iterator[Value]:
        match list(arguments):
            case [{"id": str() as group, **rest}]:
                limit = rest.get("limit")
            case _:
                raise CommandError("groups.log takes an object with an id")
        try:
            yield from self._groups.log(group, limit if isinstance(limit, int) else None)
        except ValueError as error:
            raise CommandError(str(error)) from None

    @property
    def _groups(self) -> GroupCalls:
        return GroupCalls(self._account.groups, self._write_sealed, self._account.views.namer)

    @property
    def _devices(self) -> DeviceCalls:
        return DeviceCalls(self._account, self._write, self._clock)

    def _write(self, content: Mapping[str, Any] | str, to: list[str] | None = None) -> Message:
        if self._running is None:
            return self._account.publish(content, self._clock(), to)
        peer, clock = self._running
        return peer.publish(content, clock(), to)

    def _write_sealed(self, content: Mapping[str, Any], keys: Sequence[Key]) -> Message:
        return self._write(self._account.sealed(content, self._clock(), keys))

    def _publish(self, content: dict[str, Value], recipients: Value, is_box2: bool = False) -> Value:
        to = [str(feed) for feed in recipients] if isinstance(recipients, list) else None
        if to and is_box2:
            keys = self._account.groups.keys_of([*to, self._account.identity.ref])
            message = self._write_sealed(content, keys)
        else:
            message = self._write(content, to)
        return {"key": message.id, "value": parse(message.text), "timestamp": self._clock()}

    def _publish_detached(self, content: dict[str, Value]) -> Value:
        named = self._account.detach(content)
        try:
            return self._publish(named, None)
        except BaseException:
            self._account.blobs.remove(str(named["hash"]))
            raise

    def _delete(self, id_: str) -> Value:
        """Delete a content: of a message of this account by a request to all, of another's here alone; return
        the request, or None. If the own feed has ended, it can ask nobody, and the content goes here alone.
        """
        parse_message(id_)
        message = self._account.log.get(id_)
        if message is None or reference_of(message) is None:
            raise CommandError(f"{id_}: no detached message here; only a detached content can be deleted")
        _ = self._account.contents  # opened before the request, which acts on it
        own = self._account.identity.ref
        if message.author == own and own not in self._account.feeds.ends():
            return self._publish(request([id_]), None)
        self._account.drop(id_)
        if self._running is not None:
            peer, clock = self._running
            peer.blobs.update_contents()
            peer.peer.connections.update(clock())
        return None

    def _content_of(self, stored: Stored) -> dict[str, Value]:
        """Return the state of a detached message's content, and the content if it is present."""
        if reference_of(stored.message) is None:
            return {}
        contents = self._account.contents
        return {"state": contents.state(stored.id).value, "detached": contents.content(stored.id)}

    def _settle(self) -> bool:
        """Continue the own feed after the last message held here."""
        (self._account.own if self._running is None else self._running[0]).settle()
        return True

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
            self._account.own_blobs.add(blob)
        except RefusedBlob as error:
            raise CommandError(f"{path}: {error}") from None
        if self._running is not None:
            peer, clock = self._running
            peer.blobs.announce(blob)
            peer.peer.connections.update(clock())
        return blob

    def _get(self, id_: str, *, is_wanted: bool) -> Value:
        """Return a message's value; None if it is not here, and looked for."""
        parse_message(id_)
        if self._running is None or not is_wanted:
            message = self._account.log.get(id_)
            if message is None and not is_wanted:
                raise CommandError(f"{id_} is not here")
            if message is None:
                raise CommandError("the message is not here, and the peer that could fetch it is not running")
        else:
            peer, clock = self._running
            message = self._account.merged.get(id_) or peer.loose.want(id_)
            peer.peer.connections.update(clock())
        return None if message is None else parse(message.text)

    def _want_blob(self, blob: str) -> bool:
        if self._account.blobs.size(blob) is not None:
            self._account.blobs.touch(blob)
            return True
        if self._running is None:
            raise CommandError("the blob is not here, and the peer that could fetch it is not running")
        peer, clock = self._running
        peer.blobs.want(blob)
        peer.peer.connections.update(clock())
        return False

    def _invite(self, uses: int) -> Value:
        if self._running is None or self._address is None:
            raise CommandError(_NOT_RUNNING)
        if uses < 1:
            raise CommandError("an invite can be used once at least")
        return str(self._running[0].invite(self._address, uses, token_bytes(32)))

    def _status(self) -> Value:
        account = self._account
        account.restate()
        disputed = account.graph.disputed()
        status: dict[str, Value] = {
            "id": account.identity.ref,
            "running": self._running is not None,
            "feeds": len(account.feeds.tips()),
            "messages": sum(account.feeds.tips().values()),
            "own": account.own.tip,
            "doubt": account.why(),
            "replicated": len(account.graph.replicated()),
            "forked": self._forks(),
            "merged": self._merged(),
            "ended": {
                feed: None if feed in disputed else end.successor
                for feed, end in sorted(account.feeds.ends().items())
            },
            "disputed": {feed: [*successors] for feed, successors in disputed.items()},
            "damaged": {feed: [*numbers] for feed, numbers in account.feeds.damaged().items()},
            "blobs": account.blobs.used,
        }
        if self._running is not None:
            peer, clock = self._running
            status["blob_storage_limit"] = peer.blob_storage_limit
            status["replicated"] = len(peer.peer.protocol.wanted)  # members of groups among them
            now = clock()
            status["connections"] = [
                {
                    "peer": connection.remote,
                    "called": connection.called is not None,
                    "seconds": (now - connection.since) // 1_000_000_000,
                    "new": connection.useful,
                    "ebt": connection.replication is not None,
                    "room": connection.room,
                    "apart": connection.is_apart is True,
                }
                for connection in peer.peer.connections.values()
                if connection.remote
            ]
            status["refused"] = dict(peer.peer.connections.refused)
            status["troubles"] = dict(peer.peer.connections.troubles)
            status["set_aside"] = [
                {"feed": feed, "from": remote, "reason": reason}
                for feed, (remote, reason) in peer.peer.replication.set_aside.items()
            ]
            status["unreached"] = [
                {
                    "peer": feed,
                    "address": "its rooms" if address is None else f"{address[0]}:{address[1]}",
                    "times": times,
                    "reason": reason,
                }
                for feed, (address, times, reason) in peer.peer.connections.scheduler.unreached().items()
            ]
        if self._more is not None:
            status |= self._more()
        return status | {"names": self._names()}

    def _forks(self) -> dict[str, Value]:
        """Return the number of the first ignored message of each forked feed that is not merged."""
        firsts = ((feed, self._account.merged.fork_of(feed)) for feed in sorted(self._account.feeds.forks()))
        return {feed: first for feed, first in firsts if first is not None}

    def _merged(self) -> dict[str, Value]:
        """Return the branches and the messages of each feed that is merged, and where it is forked."""
        merged, found = self._account.merged, dict[str, Value]()
        for feed in sorted(merged.feeds):
            tree = merged.tree(feed) if merged.is_forked(feed) else None
            found[feed] = {
                "branches": 1 if tree is None else len(tree.tips),
                "messages": self._account.feeds.last(feed) if tree is None else len(tree),
                "fork": None if tree is None else tree.fork,
                "overgrown": tree is not None and tree.is_overgrown,
            }
        return found

    def _merge_branches(self, call: str, arguments: Sequence[Value]) -> Value:
        """Merge the branches of a feed from now on, or no more; return those of all merged feeds."""
        match call, list(arguments):
            case "list", _:
                return self._merged()
            case "merge" | "split", [str() as text]:
                feed = plain(text)
                parse_feed(feed)
                if call == "split":
                    self._account.split(feed)
                elif feed == self._account.identity.ref and self._account.own_key.key is not None:
                    raise ValueError("your feed has a second key, which vouches for one branch only")
                else:
                    self._account.merged.merge(feed)
                if self._running is not None:
                    peer, clock = self._running
                    peer.merge_branches(clock())
                return self._merged()
        raise ValueError(not_allowed(("branches", call)))

    def _names(self) -> dict[str, Value]:
        """Return the names of those that a status is about."""
        account = self._account
        namer = account.views.namer()
        shown = {account.identity.ref, *account.feeds.forks(), *account.feeds.damaged()}
        shown |= {*account.merged.feeds}
        for feed, end in account.feeds.ends().items():
            shown |= {feed, end.successor or feed}
        shown = shown.union(*account.graph.disputed().values())
        if self._running is not None:
            peer, _ = self._running
            aside = peer.peer.replication.set_aside
            shown |= {one.remote for one in peer.peer.connections.values() if one.remote}
            shown |= {
                *peer.peer.connections.scheduler.unreached(),
                *aside,
                *(remote for remote, _ in aside.values()),
            }
        names = {feed: namer(feed) for feed in sorted(shown)}
        return {feed: name for feed, name in names.items() if name}

    def _pubs(self) -> Value:
        """Return the pubs that logs name, and whether they are connected with this peer."""
        namer = self._account.views.namer()
        connected: set[str] = set()
        unreached: Mapping[str, Any] = {}
        if self._running is not None:
            connections = self._running[0].peer.connections
            connected = {connection.remote for connection in connections.values()}
            unreached = connections.scheduler.unreached()
        return [
            {
                "pub": pub,
                "name": namer(pub),
                "address": str(address),
                "authors": authors,
                "connected": pub in connected,
                "trouble": unreached[pub].reason if pub in unreached else "",
            }
            for address, authors in self._account.pubs()
            for pub in (address.peer,)
        ]

    def _rooms(self) -> Value:
        """Return the rooms that the peer visits and who is there, and what it does as a room."""
        if self._running is None:
            raise CommandError(_NOT_RUNNING)
        peer, _ = self._running
        namer = self._account.views.namer()
        connected = {connection.remote: connection.room for connection in peer.peer.connections.values()}
        visited: list[Value] = [
            {
                "room": visit.line.remote,
                "name": visit.name,
                "member": visit.is_member,
                "features": list(visit.features),
                "attendants": [
                    {
                        "peer": other,
                        "name": namer(other),
                        "connected": other in connected,
                        "tunnelled": bool(connected.get(other)),
                    }
                    for other in sorted(visit.attendants)
                ],
            }
            for visit in peer.visits.rooms
        ]
        room = peer.room
        own = None if room is None else {"attendants": sorted(room.attendants), "tunnels": room.tunnels}
        return {"visited": visited, "own": own}

    def _alias(self, room: str, alias: str, *, is_revoked: bool) -> Value:
        if self._running is None:
            raise CommandError(_NOT_RUNNING)
        peer, clock = self._running
        answer = peer.visits.ask(room, REVOKE, [alias]) if is_revoked else peer.alias(room, alias)
        peer.peer.connections.update(clock())
        return answer

    def _check_damaged(self, places: list[Value]) -> bool:
        """Check messages found damaged by another process: pairs of a feed and a number."""
        for place in places:
            match place:
                case [str() as feed, int() as sequence] if sequence > 0:
                    self._account.feeds.check_message(feed, sequence)
                case _:
                    raise CommandError("check takes pairs of a feed and a number")
        return True


def _entry(stored: Stored) -> dict[str, Any]:
    return {"key": stored.id, "value": parse(stored.text.decode()), "timestamp": stored.received}
