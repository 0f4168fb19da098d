"""`feednet ssb contract` and `feednet ssb name`: NDN over SSB, stated in its users' logs.

All of these write ordinary messages, with the peer running or not; the running peer acts on them.
"""

from typing import Any

import click

from ssb.graph import CONTACT
from testbed.cli.console import say
from testbed.cli.nodes.ssb import Settings, commands_of
from testbed.cli.nodes.ssb_lines import reference_of, when
from testbed.errors import UserError


@click.group()
def contract() -> None:
    """Contracts with NDN forwarding providers."""


@contract.command("request")
@click.argument("provider")
@click.option("--rate", type=click.IntRange(1, 1_000_000), default=1000, help="Interests/s.")
@click.option("--prefix", "prefixes", multiple=True, default=("/",), help="Names to ask for (repeatable).")
@click.option("--days", type=click.IntRange(1, 366), default=30, help="How long it holds.")
@click.option("--transit", is_flag=True, help="This peer is a provider, too: others are reached by it.")
@click.pass_obj
def request_(
    settings: Settings, provider: str, rate: int, prefixes: tuple[str, ...], days: int, transit: bool
) -> None:
    """Follow PROVIDER, and ask for a contract. Prints the contract's id.

    The provider answers when it has the message: `feednet ssb contract list` shows what it said.
    """
    from forwarder.wire.name import from_uri
    from ndn_over_ssb.contract import Terms, clause

    provider = reference_of(provider)
    try:
        names = tuple(from_uri(prefix) for prefix in prefixes)
    except ValueError as error:
        raise UserError(f"--prefix: {error}") from None
    terms = Terms(rate=rate, prefixes=names, term_s=days * 86_400, transit=transit)
    with commands_of(settings) as commands:
        commands.answer(["publish"], [{"type": CONTACT, "contact": provider, "following": True}])
        say(commands.answer(["publish"], [clause("request", provider=provider, terms=terms)])["key"])


@contract.command("end")
@click.argument("contract_id", metavar="CONTRACT")
@click.pass_obj
def end(settings: Settings, contract_id: str) -> None:
    """End CONTRACT; both sides delete what belongs to it."""
    from ndn_over_ssb.contract import clause

    with commands_of(settings) as commands:
        if contract_id not in {each.id for each in _contracts(commands)}:
            raise UserError(f"{contract_id}: no contract of that id is known here")
        commands.answer(["publish"], [clause("end", contract=contract_id)])


@contract.command("list")
@click.pass_obj
def list_(settings: Settings) -> None:
    """Show the contracts of this identity."""
    import time

    with commands_of(settings) as commands:
        me = commands.answer(["whoami"], [])["id"]
        for each in _contracts(commands):
            if me not in (each.customer, each.provider):
                continue
            role = "customer of" if me == each.customer else "provider of"
            say(f"{each.id}  {role} {each.other(me)}: {_state(each, time.time() * 1000)}")


def _state(each: Any, now_ms: float) -> str:
    if each.refusal is not None:
        return f"refused: {each.refusal}"
    if each.has_ended:
        return "ended"
    if not each.is_accepted:
        return "not answered yet"
    return "in force" if each.holds(now_ms) else "its term is over"


@click.group()
def name() -> None:
    """The NDN name space that logs allocate."""


_root = click.option(
    "--root", metavar="FEED", help="The identity that allocates; the running peer knows its own."
)


@name.command("show")
@_root
@click.option("--void", "with_void", is_flag=True, help="Also statements that count for nothing, and why.")
@click.pass_obj
def show(settings: Settings, root: str | None, with_void: bool) -> None:
    """Show who holds which prefix, who answers for it, and since when."""
    from forwarder.wire.name import to_uri

    with commands_of(settings) as commands:
        space = _name_space(commands, root)
    for prefix, holding in sorted(space.holdings().items()):
        say(f"{to_uri(prefix)}  {holding.holder}  since {when(holding.since)}")
        for each in holding.repositories:
            say(f"    answered for by {each}")
    if with_void:
        for verdict in space.verdicts():
            if verdict.void:
                say(f"{verdict.statement.id}  {verdict.statement.do}: void, {verdict.void}")


@name.command("give")
@click.argument("prefix")
@click.argument("holder")
@_root
@click.pass_obj
def give(settings: Settings, prefix: str, holder: str, root: str | None) -> None:
    """Give PREFIX, which this identity holds or which is under one that it holds, to HOLDER."""
    holder = reference_of(holder)
    wanted = _read_name(prefix)
    with commands_of(settings) as commands:
        space, me = _name_space(commands, root), commands.answer(["whoami"], [])["id"]
        holding = space.find(wanted)
        if holding is not None and holding.prefix == wanted:
            _state_it(commands, _own(holding, me, prefix), "transfer", to=holder)
        elif holding is not None:
            _state_it(commands, _own(holding, me, prefix), "delegate", prefix=wanted, to=holder)
        else:
            _state_it(commands, _own(space.office, me, "the root"), "allocate", prefix=wanted, to=holder)


@name.command("revoke")
@click.argument("prefix")
@_root
@click.pass_obj
def revoke(settings: Settings, prefix: str, root: str | None) -> None:
    """Take back PREFIX, which this identity has given away, and all that was given away under it."""
    wanted = _read_name(prefix)
    with commands_of(settings) as commands:
        space, me = _name_space(commands, root), commands.answer(["whoami"], [])["id"]
        holding = space.holdings().get(wanted)
        if holding is None:
            raise UserError(f"{prefix}: nobody holds it")
        title = _own(space.giver(holding), me, f"what {prefix} was given out of")
        _state_it(commands, title, "revoke", allocation=holding.allocation)


@name.command("repository")
@click.argument("prefix")
@click.argument("repositories", nargs=-1, metavar="[FEED]...")
@_root
@click.pass_obj
def repository(settings: Settings, prefix: str, repositories: tuple[str, ...], root: str | None) -> None:
    """Say which identities answer for PREFIX, which this identity holds; none if no FEED is given."""
    repositories = tuple(map(reference_of, repositories))
    wanted = _read_name(prefix)
    with commands_of(settings) as commands:
        space, me = _name_space(commands, root), commands.answer(["whoami"], [])["id"]
        holding = space.holdings().get(wanted)
        if holding is None:
            raise UserError(f"{prefix}: nobody holds it")
        _state_it(commands, _own(holding, me, prefix), "repository", repositories=repositories)


def _own(holding: Any, me: str, prefix: str) -> str:
    """Return the title under which this identity acts; raise UserError if it has none."""
    if holding.holder != me:
        raise UserError(f"{prefix} is held by {holding.holder}")
    return str(holding.title)


def _state_it(commands: Any, title: str, do: str, **parts: Any) -> None:
    from ndn_over_ssb.name_space import statement

    say(commands.answer(["publish"], [statement(do, title=title, **parts)])["key"])


def _messages(commands: Any, kind: str) -> Any:
    from ssb.message import Message

    for entry in commands.stream(["createLogStream"], [{"type": kind}]):
        yield Message.from_value(entry["value"])


def _contracts(commands: Any) -> Any:
    from ndn_over_ssb.contract import CONTRACT, Contracts

    contracts = Contracts()
    for message in _messages(commands, CONTRACT):
        contracts.read(message)
    return contracts


def _name_space(commands: Any, root: str | None) -> Any:
    from ndn_over_ssb.name_space import NAME_SPACE, NameSpace

    if root is None:
        root = commands.answer(["status"], []).get("ndn", {}).get("root")
        if root is None:
            raise UserError("no peer runs with --ndn-over-ssb: name the --root")
    if root == "self":
        root = commands.answer(["whoami"], [])["id"]
    space = NameSpace(reference_of(root))
    for message in _messages(commands, NAME_SPACE):
        space.read(message)
    return space


def _read_name(uri: str) -> bytes:
    from forwarder.wire.name import from_uri

    try:
        found = from_uri(uri)
    except ValueError as error:
        raise UserError(f"{uri}: {error}") from None
    if not found:
        raise UserError(f"{uri}: a name with one component at least")
    return found
