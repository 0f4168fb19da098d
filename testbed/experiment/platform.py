"""The platform of a run: the emulator, or Mininet on this machine."""

from typing import Literal, NamedTuple, Self

from testbed.errors import UserError, shown
from testbed.layerings.nodes.node import MOSQUITTO, SSB_SERVER
from testbed.scenario.model import Scenario
from topologies.mininet import sandbox

Net = Literal["emulated", "mininet"]
Impairment = Literal["auto", "netem", "relay"]

MOST_DILATION = 1000


class Platform(NamedTuple):
    """The platform of a run.

    Attributes:
        net: its kind.
        reason: the reason for its choice, in a few words.
        impairment: the component that delays and loses frames, in Mininet.
        dilation: the machine's seconds for each second of the run, in Mininet (captures.network.clock).
        is_held: whether a run in Mininet continues after its end, until a request
            (testbed.experiment.control) or an interrupt.
    """

    net: Net
    reason: str
    impairment: Impairment = "auto"
    dilation: int = 1
    is_held: bool = False

    @classmethod
    def chosen(
        cls,
        net: Net | Literal["auto"],
        impairment: Impairment = "auto",
        dilation: int = 1,
        *,
        is_held: bool = False,
    ) -> Self:
        """Return the requested platform; auto is Mininet if available.

        Raises UserError, also for an impairment or a dilation with the emulator.
        """
        found = cls(*_available(net), impairment, dilation, is_held)
        if type(dilation) is not int or not 1 <= dilation <= MOST_DILATION:
            raise UserError(f"--dilation {dilation}: a whole number from 1 to {MOST_DILATION}")
        for name, value, default in (("impairment", impairment, "auto"), ("dilation", dilation, 1)):
            if found.net == "emulated" and value != default:
                raise UserError(
                    f"--{name} {value}: for Mininet only, and this would be emulated; leave it out, or add"
                    " --net mininet"
                )
        return found

    def check(self, scenario: Scenario) -> None:
        """Raise UserError if a scenario cannot be run here."""
        if scenario.cost.costs is not None and self.net == "mininet":
            raise UserError("cost: in Mininet operations take the time that they take; add --net emulated")
        if scenario.stock_peers:
            from testbed.layerings.nodes import stock_peer

            stock_peer.check()
        if scenario.other_forwarders:
            from testbed.layerings.nodes import other_forwarder

            for forwarder in scenario.other_forwarders.values():
                other_forwarder.check(forwarder)
        if _has_mosquitto(scenario):
            from testbed.layerings.kinds import broker

            broker.mosquitto()
        for place, program in _programs_in_real_time(scenario).items():
            if self.net == "emulated":
                raise UserError(f"{place}: {program} runs in real time, in Mininet only; {self.reason}")
            if self.dilation > 1:
                raise UserError(
                    f"--dilation {self.dilation}: {program} ({place}) would not follow the slower clock"
                )
        if self.is_held and self.net == "emulated":
            raise UserError(f"--hold: emulated nodes are not there to be entered; {self.reason}")
        if self.is_held and len(scenario.layerings) > 1:
            raise UserError("--hold: choose one --layering; it is held till Ctrl-C")


EMULATED = Platform("emulated", "asked for")


def _available(asked: Net | Literal["auto"]) -> tuple[Net, str]:
    if asked == "emulated":
        return "emulated", "asked for"
    why_not = sandbox.why_not()
    if why_not is None:
        return "mininet", "asked for" if asked == "mininet" else "Mininet can run here"
    reason = f"Mininet cannot run here: {why_not}"
    if asked == "mininet":
        raise UserError(f"{reason}; or use --net emulated")
    return "emulated", reason


def _has_mosquitto(scenario: Scenario) -> bool:
    given = scenario.parameters.get("broker", {})
    return "broker" in scenario.layerings and given.get("program") == MOSQUITTO


def _programs_in_real_time(scenario: Scenario) -> dict[str, str]:
    """Return the third-party programs, by their place in the scenario."""
    peers = {f"nodes.{node}.peer": SSB_SERVER for node in sorted(scenario.stock_peers)}
    forwarders = {f"nodes.{node}.forwarder": name for node, name in scenario.other_forwarders.items()}
    found = peers | forwarders | ({"broker.program": MOSQUITTO} if _has_mosquitto(scenario) else {})
    if scenario.programs:
        found["[[programs]]"] = shown(" ".join(scenario.programs[0].run))
    return found
