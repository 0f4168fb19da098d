"""The module strategy-choice (NFD StrategyChoice): set, unset, list.

A strategy's name is /localhost/nfd/strategy/<name>[/v=<version>][/<parameter>~<value>...].
"""

from collections.abc import Callable, Mapping, Sequence

from forwarder.management.module import Call, Command, Module, Refusal, done
from forwarder.management.parameters import STRATEGY, ControlResponse
from forwarder.strategies import STRATEGIES
from forwarder.strategies.strategy import Strategy
from forwarder.strategies.strategy_choice import StrategyChoice
from forwarder.wire.name import GENERIC, NAME, VERSION, component, components
from forwarder.wire.tlv import MalformedPacket, element, nni, read_nni

_CHOICE = 0x80
_PREFIX = tuple((GENERIC, part) for part in (b"localhost", b"nfd", b"strategy"))

Choose = Callable[[bytes, type[Strategy], Mapping[str, str]], None]


class StrategiesModule(Module):
    """strategy-choice/set, strategy-choice/unset, strategy-choice/list.

    Args:
        choice: strategies by prefix.
        choose: Forwarder.choose_strategy.
    """

    name = "strategy-choice"

    def __init__(self, choice: StrategyChoice, choose: Choose) -> None:
        self._choice = choice
        self._choose = choose
        # As asked for: with the parameters, which the strategy does not keep.
        self._names: dict[bytes, tuple[Strategy, bytes]] = {}
        self.commands = {
            "set": Command(self._set, frozenset({"name", "strategy"})),
            "unset": Command(self._unset, frozenset({"name"})),
        }
        self.datasets = {"list": self._list}

    def _set(self, call: Call) -> ControlResponse:
        prefix = call.prefix()
        strategy, parameters, full = find_strategy(call.parameters.strategy or b"")
        if self._names.get(prefix) == (dict(self._choice.items()).get(prefix), full):
            return done(name=prefix, strategy=full)  # unchanged, with its measurements
        try:
            self._choose(prefix, strategy, parameters)
        except ValueError as error:
            raise Refusal(409, str(error)) from error
        self._names[prefix] = (dict(self._choice.items())[prefix], full)
        return done(name=prefix, strategy=full)

    def _unset(self, call: Call) -> ControlResponse:
        prefix = call.prefix()
        if not prefix:
            raise Refusal(400, "the strategy of / can be set only")
        self._choice.unset(prefix)
        self._names.pop(prefix, None)
        return done(name=prefix)

    def _list(self, _rest: Sequence[tuple[int, bytes]], _now: int) -> bytes:
        return b"".join(
            element(_CHOICE, element(NAME, prefix) + element(STRATEGY, element(NAME, name)))
            for prefix, name in self.chosen()
        )

    def chosen(self) -> list[tuple[bytes, bytes]]:
        """Return all choices: (prefix, name of the strategy)."""
        chosen = []
        for prefix, strategy in self._choice.items():
            known, full = self._names.get(prefix, (None, b""))
            chosen.append((prefix, full if known is strategy else name_of(type(strategy))))
        return chosen


def name_of(strategy: type[Strategy]) -> bytes:
    """Return a strategy's name, with its version."""
    return _joined((*_PREFIX, (GENERIC, strategy.NAME.encode()), (VERSION, nni(strategy.VERSION))))


def _joined(parts: Sequence[tuple[int, bytes]]) -> bytes:
    return b"".join(component(*part) for part in parts)


def find_strategy(name: bytes) -> tuple[type[Strategy], dict[str, str], bytes]:
    """Return a strategy's class, parameters and full name by its name in a command.

    Raises Refusal for another version: 404 above ours, 409 below, as NFD does.
    """
    unknown = Refusal(404, "there is no such strategy")
    parts = components(name)
    if tuple(parts[:3]) != _PREFIX or len(parts) < 4 or parts[3][0] != GENERIC:
        raise unknown
    try:
        strategy = STRATEGIES.get(parts[3][1].decode())
    except ValueError:  # no text, or a strategy of another distribution that cannot be loaded
        strategy = None
    if strategy is None:
        raise unknown
    rest = parts[4:]
    if not rest:
        return strategy, {}, name_of(strategy)
    kind, version = rest[0]
    if kind != VERSION:
        raise unknown
    try:
        asked = read_nni(version)
    except MalformedPacket as error:
        raise unknown from error
    if asked > strategy.VERSION:
        raise unknown
    if asked < strategy.VERSION:
        raise Refusal(409, f"{strategy.NAME} is of version {strategy.VERSION}, not {asked}")
    return strategy, _parameters(rest[1:]), name


def _parameters(parts: Sequence[tuple[int, bytes]]) -> dict[str, str]:
    parameters = {}
    for _, value in parts:
        try:
            key, tilde, text = value.decode().partition("~")
        except UnicodeDecodeError:
            key = tilde = text = ""
        if not (key and tilde and text):
            raise Refusal(409, "a strategy's parameters are written as <parameter>~<value>")
        parameters[key] = text
    return parameters
