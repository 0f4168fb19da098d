"""`feednet ssb`: a Scuttlebutt peer, and its user's commands."""

import json
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import click

from ssb.graph import CONTACT
from ssb.store.blobs import MAX_SIZE
from testbed.cli.console import say
from testbed.cli.group import LazyGroup
from testbed.cli.nodes.ssb_lines import (
    branches_text,
    label,
    numbers_text,
    reference_of,
)
from testbed.cli.options import Bytes
from testbed.cli.usage import exclude
from testbed.errors import UserError, as_user_error

_LONGEST_TERM_S = 366 * 86_400
_PAUSE_S = 0.1

DIRECTORY = Path("~/.feednet/ssb")
"""Not `~/.ssb`, which a stock peer may use: two peers with one identity fork its feed."""


class Settings:
    """Common options: the account's directory, and whether its feed continues without asking others."""

    def __init__(self, path: Path, *, is_settled: bool) -> None:
        self.path = path.expanduser()
        self.is_settled = is_settled


@click.group(
    cls=LazyGroup,
    places={
        "check": "testbed.cli.nodes.ssb_check:check",
        "suite": "testbed.cli.nodes.ssb_check:suite",
        "notarise": "testbed.cli.nodes.ssb_check:notarise",
        "vouched": "testbed.cli.nodes.ssb_check:vouched",
        "end": "testbed.cli.nodes.ssb_end:end",
        "delete": "testbed.cli.nodes.ssb_end:delete",
        "merge": "testbed.cli.nodes.ssb_device:merge",
        "device": "testbed.cli.nodes.ssb_device:device",
        "get": "testbed.cli.nodes.ssb_view:get",
        "links": "testbed.cli.nodes.ssb_view:links",
        "log": "testbed.cli.nodes.ssb_view:log",
        "group": "testbed.cli.nodes.ssb_group:group",
        "view": "testbed.cli.nodes.ssb_view:view",
        "pubs": "testbed.cli.nodes.ssb_meeting:pubs",
        "rooms": "testbed.cli.nodes.ssb_meeting:rooms",
        "alias": "testbed.cli.nodes.ssb_meeting:alias",
        "contract": "testbed.cli.nodes.ndn_over_ssb:contract",
        "name": "testbed.cli.nodes.ndn_over_ssb:name",
        "import": "testbed.cli.nodes.ssb_transfer:import_",
        "export": "testbed.cli.nodes.ssb_transfer:export",
    },
)
@click.option(
    "--path",
    type=click.Path(path_type=Path),
    default=DIRECTORY,
    help="Directory of the account: its identity, messages and blobs.",
)
@click.option(
    "--new-feed",
    is_flag=True,
    help="Nobody has messages of this identity that are not here: write on without asking other peers first. "
    "If somebody has, its feed is forked for good.",
)
@click.pass_context
def ssb(context: click.Context, path: Path, new_feed: bool) -> None:
    """Run a Scuttlebutt peer, write and read messages, follow others.

    The commands work with the peer running or not. Never use one identity in two peers: give each device one
    of its own, and join them (`device`).
    """
    context.obj = Settings(path, is_settled=new_feed)


@contextmanager
def commands_of(settings: Settings, *, begins: bool = False) -> Iterator[Any]:
    """Connect to the running peer, or else open its account; only a command that `begins` one creates it."""
    from ssb.daemon.account import Account, is_account, refuse_stock
    from ssb.daemon.commands import CommandError, Commands
    from ssb.daemon.running import RunningPeer

    refuse_stock(settings.path)  # its socket may answer
    with as_user_error(CommandError):
        try:
            running = RunningPeer(settings.path)
        except ConnectionError:
            if not begins and not is_account(settings.path):
                begin = "publish, follow, connect, import or peer begins one"
                raise UserError(f"{settings.path}: there is no account: {begin}") from None
            with closing(Account(settings.path)) as account:
                commands = Commands(account, lambda: time.time_ns() // 1_000_000)
                if settings.is_settled:
                    commands.answer(["settle"], [])
                yield commands
        else:
            with closing(running):
                if settings.is_settled:
                    running.answer(["settle"], [])
                yield running


def awaited(commands: Any, call: list[str], arguments: list[Any], patience_s: float, problem: str) -> Any:
    """Repeat a call until it has an answer, and return that; raise UserError(problem) if none comes."""
    ends = time.monotonic() + patience_s
    while (answer := commands.answer(call, arguments)) is None:
        if time.monotonic() >= ends:
            raise UserError(problem)
        time.sleep(_PAUSE_S)
    return answer


@ssb.command()
@click.option("--host", default="0.0.0.0", help="Address to listen at.")
@click.option("--port", type=click.IntRange(1, 65535), default=8008, help="TCP port.")
@click.option(
    "--external",
    default="",
    show_default=False,
    metavar="HOST",
    help="Host by which others reach it, for invites.",
)
@click.option("--lan", is_flag=True, help="Announce the peer in local networks, and call those announced.")
@click.option(
    "--hops",
    type=click.IntRange(0, 4),
    default=2,
    help="Whose feeds are kept: 1 for those followed, 2 for those that they follow.",
)
@click.option("--network", metavar="BASE64", help="Key of another network than the main one.")
@click.option("--connections", type=click.IntRange(1, 65_535), default=200, help="Most connections at once.")
@click.option(
    "--blob-storage-limit",
    "blob_limit",
    type=Bytes(MAX_SIZE),
    metavar="BYTES",
    help="Drop the blobs that were wanted least recently if all have more (20GB, say), but none of your own.",
)
@click.option("--room", metavar="NAME", help="Be a room of this name, where peers meet over tunnels.")
@click.option("--members-only", is_flag=True, help="Only those whom this peer follows may use its room.")
@click.option(
    "--ndn",
    metavar="LAYERING",
    help="Be a gateway: feeds of peers that connect cross NDN by this layering, and so do those they want.",
)
@click.option(
    "--ndn-over-ssb",
    "root",
    metavar="FEED",
    help="Carry NDN over contracts with other peers; FEED allocates the name space (self: this identity).",
)
@click.option(
    "--provide",
    type=click.IntRange(1, 1_000_000),
    metavar="RATE",
    help="Be a forwarding provider: accept customers, and RATE Interests a second from each.",
)
@click.option(
    "--anchor",
    type=(click.Path(exists=True, path_type=Path), click.Path(exists=True, path_type=Path)),
    metavar="SCHEMA CERTIFICATE",
    help="As a provider, pass on Data only if the LightVerSec schema and the anchor's certificate allow it.",
)
@click.pass_obj
def peer(
    settings: Settings,
    host: str,
    port: int,
    external: str,
    lan: bool,
    hops: int,
    network: str | None,
    connections: int,
    blob_limit: int | None,
    room: str | None,
    members_only: bool,
    ndn: str | None,
    root: str | None,
    provide: int | None,
    anchor: tuple[Path, Path] | None,
) -> None:
    """Run the peer until interrupted.

    Says on standard output when it is ready, and its address; events are logged to standard error.
    """
    import asyncio
    import logging

    from ssb.applications.pubs import is_loopback
    from ssb.daemon.account import Account
    from ssb.daemon.service import run
    from ssb.peer.options import PeerOptions
    from ssb.rooms.room import RoomOptions

    # A socket bound to this machine's own address reaches no other hosts.
    options = PeerOptions(
        connections=connections, calls_loopback=is_loopback(host), blob_storage_limit=blob_limit
    )
    if network is not None:
        options = options._replace(network=_network_key(network))
    exclude("ndn", "root")
    if root is None and (provide is not None or anchor is not None):
        raise click.UsageError("--provide and --anchor need --ndn-over-ssb")
    if members_only and room is None:
        raise click.UsageError("--members-only needs --room")
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    with closing(Account(settings.path, hops)) as account:
        if settings.is_settled:
            account.own.settle()
        if why := account.why():
            logging.warning("nothing is published yet: %s", why)
        asyncio.run(
            run(
                account,
                host,
                port,
                options,
                lambda address: say(f"feednet: ready, {address}"),
                external,
                announces=lan,
                room=None if room is None else partial(RoomOptions, room, not members_only),
                surroundings=_surroundings(account, ndn, root, provide, anchor),
            )
        )


def _surroundings(
    account: Any, ndn: str | None, root: str | None, provide: int | None, anchor: tuple[Path, Path] | None
) -> Any:
    """Return the gateway or the participant around an account's peer; None if it is a plain peer."""
    if ndn is not None:
        return _gateway(account, ndn)
    return None if root is None else _participant(account, root, provide, anchor)


def _network_key(text: str) -> bytes:
    from ssb.keys import InvalidRef, decode_base64

    try:
        key = decode_base64(text)
    except InvalidRef as error:
        raise UserError(f"--network: {error}") from None
    if len(key) != 32:
        raise UserError(f"--network: a key of 32 bytes in base64, not of {len(key)}")
    return key


def _gateway(account: Any, layering: str) -> Any:
    """Return the gateway around an account's peer."""
    from feednet.gateway import GatewayProgram
    from testbed.layerings.kinds.ndn import NDN_LAYERINGS

    # Multicast Interests would need routes per feed in all forwarders on the path.
    known = {name: kind for name, kind in NDN_LAYERINGS.items() if kind.multicast is None}
    if layering not in known:
        raise UserError(f"--ndn: {layering!r} is none of {', '.join(known)}")
    kind = known[layering]
    parameters = kind.parameters.model_validate({}).model_dump()
    announcer = kind.announcer
    return GatewayProgram(
        account,
        layering,
        partial(kind.subscription, **parameters),
        lambda feed, rng: None if announcer is None else announcer(feed, rng, parameters),
    )


def _participant(account: Any, root: str, provide: int | None, anchor: tuple[Path, Path] | None) -> Any:
    """Return the NDN participant around an account's peer."""
    from feednet.participant import Anchor, ParticipantProgram
    from forwarder.management.keys import read_certificate
    from ndn_over_ssb.contract import Terms
    from ndn_over_ssb.trust import TrustError

    root = account.identity.ref if root == "self" else reference_of(root, "--ndn-over-ssb: ")
    offer = None if provide is None else Terms(rate=provide, term_s=_LONGEST_TERM_S, transit=True)
    judge = None
    try:
        if anchor is not None:
            schema, certificate = anchor
            judge = Anchor(schema.read_text(encoding="utf-8"), read_certificate(certificate))
        return ParticipantProgram(account, root, offer, judge)
    except (TrustError, OSError, ValueError) as error:
        raise UserError(f"--anchor: {error}") from None


@ssb.command()
@click.argument("text", required=False)
@click.option("--content", metavar="JSON", help="The whole content, in place of a post with TEXT.")
@click.option("--to", multiple=True, metavar="FEED", help="Recipient of a private message (repeatable).")
@click.option(
    "--detached",
    is_flag=True,
    help="The log gets the content's hash only, so that `delete` can delete it. Stock peers show no content.",
)
@click.option(
    "--box2",
    "is_box2",
    is_flag=True,
    help="Seal it in the format of private groups: for up to 15 recipients, whose peers have to know it.",
)
@click.pass_obj
def publish(
    settings: Settings,
    text: str | None,
    content: str | None,
    to: tuple[str, ...],
    detached: bool,
    is_box2: bool,
) -> None:
    """Write a message: a post with TEXT, or any content. Prints its id."""
    exclude("detached", "to")
    body = body_of(text, content)
    if is_box2 and not to:
        raise click.UsageError("--box2 needs recipients: --to")
    recipients = [reference_of(feed) for feed in to]
    with commands_of(settings, begins=True) as commands:
        if is_box2:
            me = commands.answer(["whoami"], [])["id"]
            recipients = [feed for feed in recipients if feed != me]
            body = {**body, "recps": [*recipients, me]}
        elif recipients:
            body = {**body, "recps": recipients}
        form = ["box2"] if is_box2 else []
        call = ["detached", "publish"] if detached else ["publish"]
        arguments = [body] if detached else [body, recipients or None, *form]
        say(commands.answer(call, arguments)["key"])


def body_of(text: str | None, content: str | None) -> dict[str, Any]:
    """Return the content that a user gives, as a post's TEXT or as JSON; raise UserError."""
    exclude("text", "content")
    if text is not None and not text.strip():
        raise UserError("TEXT is empty: nothing is published, as a message can never be taken back")
    if content is not None:
        try:
            body = json.loads(content)
        except json.JSONDecodeError as error:
            raise UserError(f"--content: not JSON: {error}") from None
        if not isinstance(body, dict):
            raise UserError("--content: not an object")
        return body
    if text is None:
        raise click.UsageError("give a TEXT or --content")
    return {"type": "post", "text": text}


@ssb.command()
@click.argument("feed")
@click.option("--undo", is_flag=True, help="Follow no more, or block no more.")
@click.option("--block", is_flag=True, help="Block the feed: do not replicate it, nor connect with its peer.")
@click.pass_obj
def follow(settings: Settings, feed: str, undo: bool, block: bool) -> None:
    """Follow FEED: say so in a message, and replicate it from now on."""
    feed = reference_of(feed)
    content = {"type": CONTACT, "contact": feed, "following": not undo and not block}
    if block:
        content["blocking"] = not undo
    with commands_of(settings, begins=True) as commands:
        say(commands.answer(["publish"], [content])["key"])


@ssb.command()
@click.argument("address")
@click.pass_obj
def connect(settings: Settings, address: str) -> None:
    """Call the peer at ADDRESS (net:HOST:PORT~shs:KEY), now if this peer runs, and whenever it does.

    `status` says if it cannot be reached, and why. With the URI of an alias (ssb:experimental?...), the peer
    calls the room, and follows the alias's owner, whom it meets there once the owner follows, too.
    """
    from ssb.rooms.alias import InvalidAlias, is_alias_uri, parse_uri
    from ssb.transport.address import InvalidAddress, parse_address
    from ssb.uri import plain

    owner = None
    with as_user_error(InvalidAddress, InvalidAlias):
        if is_alias_uri(address):
            known, (_, owner, _) = parse_uri(address)
        else:
            known = parse_address(plain(address))
    with commands_of(settings, begins=True) as commands:
        commands.answer(["connect"], [str(known)])
        me = commands.answer(["whoami"], [])["id"]
        if owner not in (None, me) and not commands.answer(
            ["friends", "isFollowing"], [{"source": me, "dest": owner}]
        ):
            commands.answer(["publish"], [{"type": CONTACT, "contact": owner, "following": True}])
            say(f"following {owner}")


@ssb.command()
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.pass_obj
def status(settings: Settings, as_json: bool) -> None:
    """Show who this peer is, what it holds, and with whom it is connected."""
    with commands_of(settings) as commands:
        state = commands.answer(["status"], [])
    if as_json:
        say(json.dumps(state))
        return
    names = state["names"]
    say(f"identity     {label(state['id'], names)}")
    say(f"peer         {'running' if state['running'] else 'not running'}")
    say(f"messages     {state['messages']:,} of {state['feeds']:,} feeds, {state['own']:,} of its own")
    limit = state.get("blob_storage_limit")
    most = "" if limit is None else f" (limit {limit:,})"
    say(f"replicates   {state['replicated']:,} feeds; blobs of {state['blobs']:,} bytes{most}")
    _show_feeds(state, names)
    for one in state.get("connections", []):
        direction = "called" if one["called"] else "called this peer"
        way = "EBT" if one["ebt"] else "history streams"
        if one["apart"]:
            way = "only to meet others in a room"
        elif one["room"]:
            way += f" through the room {label(one['room'], names)}"
        say(
            f"connected    {label(one['peer'], names)}  {direction}, {one['seconds']} s, {way}, "
            f"{one['new']} new messages"
        )
    if "gateway" in state:
        gateway = state["gateway"]
        served, followed = len(gateway["homes"]), len(gateway["follows"])
        say(f"gateway      {gateway['layering']}: {served} feeds served over NDN, {followed} followed")
        for trouble, times in gateway["troubles"].items():
            say(f"trouble      {times} x {trouble}")
    if "ndn" in state:
        ndn = state["ndn"]
        role = "provider" if ndn["provides"] else "customer"
        say(
            f"NDN          {role}: {len(ndn['contracts'])} contracts, {ndn['prefixes']} prefixes allocated; "
            f"{ndn['pit']} PIT entries, {ndn['cached']} Data cached"
        )
        for trouble, times in ndn["troubles"].items():
            say(f"trouble      {times} x {trouble}")
    for one in state.get("set_aside", []):
        say(
            f"set aside    {label(one['feed'], names)}, a message from {label(one['from'], names)}: "
            f"{one['reason']}"
        )
    for one in state.get("unreached", []):
        say(f"not reached  {label(one['peer'], names)} at {one['address']}, {one['times']} x {one['reason']}")
    for reason, times in state.get("troubles", {}).items():
        say(f"trouble      {times} x {reason}")
    for reason, times in state.get("refused", {}).items():
        say(f"refused      {times} x {reason}")


def _show_feeds(state: dict[str, Any], names: dict[str, str | None]) -> None:
    """Print the feeds that are not as they should be, or not as others."""
    if state["doubt"]:
        say(f"in doubt     {state['doubt']}")
    for feed, number in state["forked"].items():
        say(f"forked       {label(feed, names)}; ignored from message {number} on")
    for feed, merged in state["merged"].items():
        say(f"merged       {label(feed, names)}: {branches_text(merged)}")
    for feed, successor in state["ended"].items():
        on = "" if successor is None else f"; goes on as {label(successor, names)}"
        if named := [label(each, names) for each in state["disputed"].get(feed, ())]:
            on = f"; forked, so no follow passes to {' or '.join(named)}: follow the right one"
        say(f"ended        {label(feed, names)}{on}")
    for feed, numbers in state["damaged"].items():
        say(f"damaged      {numbers_text(numbers)} of {label(feed, names)}; comes again from others")


@ssb.group()
def invite() -> None:
    """Let others in, or be let in by a peer."""


@invite.command()
@click.option("--uses", type=click.IntRange(1, 1_000_000), default=1, help="How often it works.")
@click.pass_obj
def create(settings: Settings, uses: int) -> None:
    """Make an invite: whoever uses it is followed by this peer, which must be running."""
    with commands_of(settings) as commands:
        say(commands.answer(["invite", "create"], [uses]))


@invite.command()
@click.argument("code")
@click.pass_obj
def accept(settings: Settings, code: str) -> None:
    """Use an invite: its peer follows this feed, and this feed follows it."""
    from ssb.daemon.guest import GuestError, use_invite
    from ssb.peer.invites import entry
    from ssb.transport.address import InvalidAddress, parse_invite

    with as_user_error(InvalidAddress):
        given = parse_invite(code)
    pub = given.address.peer
    with commands_of(settings, begins=True) as commands:
        state = commands.answer(["status"], [])
        if state["doubt"]:
            raise UserError(f"the invite is not used up: {state['doubt']}")
        if commands.answer(["friends", "isBlocking"], [{"source": state["id"], "dest": pub}]):
            raise UserError(f"you block {pub}, which gave the invite: `follow --block --undo` ends that")
        with as_user_error(GuestError):
            use_invite(given, state["id"])
        for content in entry(given.address):
            commands.answer(["publish"], [content])
        commands.answer(["connect"], [str(given.address)])
    say(f"followed by {pub}, and following it")
