"""A node whose forwarder is a program of its own, with sockets of its own: NFD, or feednet's daemon.

It is configured by management like feednet's forwarder on that node: a face for each link, routes and
strategies. Neighbours see no difference, except for feednet's extensions: long-lived Interests cross it as
classic ones, by the legacy path of docs/controlled-push.md.
"""

import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from base.endpoint import NDN_PORT, Program
from forwarder.daemon.datasets import Client, DatasetError, Unanswered, snapshot
from forwarder.links.link import UDP_IPV4_HEADERS
from forwarder.management.parameters import ControlParameters
from forwarder.tables.face import Persistency
from forwarder.tables.rib import Origin
from forwarder.wire.name import from_uri
from testbed.errors import UserError
from testbed.layerings.nodes.ndn_node import NdnLayering, NdnNode
from testbed.layerings.nodes.node import AppState, Context, Node, Process
from topologies.model import Topology
from topologies.routing import Routing

NFD: Final = "nfd"
INSTALL: Final = "see https://docs.named-data.net/NFD/current/INSTALL.html"

_SOCKET = "../nfd.sock"  # testbed.hosts.local_faces.FORWARDER, from the program's directory
_MTU = 1472
_OK, _EXISTS = 200, 409
_BEGIN_S = 60.0
_ASK_S = 0.5
_POLL_S = 0.05

_FEEDNETD = """\
log_level = "warning"
controlled_push = false
[unix]
path = "{socket}"
[tcp]
addresses = ["0.0.0.0"]
[udp]
addresses = ["0.0.0.0"]
mtu = {mtu}
"""

_NFD = """\
general {{ }}
log {{ default_level WARN }}
tables
{{
  cs_max_packets 65536
  cs_policy lru
  cs_unsolicited_policy drop-all
  strategy_choice
  {{
    / /localhost/nfd/strategy/best-route
    /localhost /localhost/nfd/strategy/multicast
    /localhost/nfd /localhost/nfd/strategy/best-route
  }}
}}
face_system
{{
  general {{ enable_congestion_marking yes }}
  unix {{ path {socket} }}
  tcp {{ listen yes port 6363 enable_v4 yes enable_v6 no }}
  udp {{ listen yes port 6363 enable_v4 yes enable_v6 no unicast_mtu {mtu} mcast no }}
  ether {{ listen no mcast no }}
}}
authorizations
{{
  authorize
  {{
    certfile any
    privileges
    {{
      faces
      fib
      cs
      strategy-choice
    }}
  }}
}}
rib {{ localhost_security {{ trust-anchor {{ type any }} }} }}
"""


class NotManaged(Exception):
    """A forwarder fails to obey a command; the message is one line."""


def check(forwarder: str) -> None:
    """Raise UserError if a forwarder is not installed."""
    if forwarder == NFD and shutil.which(NFD) is None:
        raise UserError(f"{NFD} is not on PATH; {INSTALL}, or set forwarder to feednetd")


def process(network: Topology, node: str, forwarder: str) -> Process:
    """Return the program of a node: "nfd" or "feednetd"."""
    if forwarder == NFD:
        name, text = "nfd.conf", _NFD
        argv: tuple[str, ...] = (shutil.which(NFD) or NFD, "--config", name)
    else:
        name, text = "forward.toml", _FEEDNETD
        argv = (sys.executable, "-m", "feednet", "forward", "--config", name)
    files = {name: text.format(socket=_SOCKET, mtu=_MTU)}
    return Process(argv, files, ready=(network.address(node), NDN_PORT))


def managed_client(path: Path, check: Callable[[], None]) -> Client:
    """Return a client of the program that listens at a path, once its routes can be managed.

    NFD opens its Unix socket after its TCP port, and manages routes in a thread that begins after both.
    `check` raises an error if the program has ended. Raises NotManaged.
    """
    until = time.monotonic() + _BEGIN_S
    while True:
        check()
        client = None
        try:
            client = Client(path)
            client.fetch("/localhost/nfd/rib/list", _ASK_S)
            return client
        except (DatasetError, Unanswered) as error:
            if client is not None:
                client.close()
            if time.monotonic() > until:
                raise NotManaged(f"its forwarder cannot be managed after {_BEGIN_S:.0f} s") from error
        time.sleep(_POLL_S)


class ForwarderNode(Node):
    """A node with another forwarder: configures it, and takes no part in forwarding.

    It has no applications, and the state of the program is not sampled. The program has counters of its own
    (`feednet exec RUN NODE -- feednet status`).

    Args:
        context, layering: of the run.

    Attributes: see Node.
    """

    def __init__(self, context: Context, layering: NdnLayering) -> None:
        self.name = context.name
        self.state = AppState()
        self.programs: list[Program] = []
        self._twin = NdnNode(context, layering)  # never run: it has the desired configuration
        self._links = context.network.links
        self._ends = {end.peer: end for end in context.network.ends_of(context.name)}
        self._faces: dict[str, int] = {}  # by neighbour
        self._routes: dict[str, dict[str, int]] = {}
        self._client: Client | None = None

    def manage(self, path: Path, check: Callable[[], None] = lambda: None) -> None:
        """Configure the program that listens at a path, once it is ready, until all routes are active.

        `check` raises an error if the program has ended. Raises NotManaged.
        """
        self._client = managed_client(path, check)
        for peer, end in self._ends.items():
            wanted = ControlParameters(
                uri=f"udp4://{end.peer_ipv4}:{NDN_PORT}",
                persistency=Persistency.PERMANENT,
                mtu=self._links[end.link].mtu - UDP_IPV4_HEADERS,
            )
            made = self._command("faces/create", wanted, {_OK, _EXISTS})
            if made.face is None:
                raise NotManaged(f"its forwarder says nothing of the face to {peer}")
            self._faces[peer] = made.face
            if made.persistency != Persistency.PERMANENT:  # the neighbour has written first
                lasting = ControlParameters(face=made.face, persistency=Persistency.PERMANENT)
                self._command("faces/update", lasting, {_OK})
        for prefix, strategy in self._twin.strategies().items():
            self._choose(prefix, strategy)
        self._set_routes()
        self._until_routes_stand(check)

    def reroute(self, network: Topology, routing: Routing) -> None:
        """Replace the routes over links by the best ones now."""
        self._twin.reroute(network, routing)
        if self._client is not None:
            self._set_routes()

    def choose_strategy(self, prefix: str, strategy: str) -> None:
        """See StrategyNode. The program does not receive the parameters."""
        self._twin.choose_strategy(prefix, strategy)
        if self._client is not None:
            self._choose(prefix, self._twin.strategies()[prefix])

    def _choose(self, prefix: str, strategy: str) -> None:
        chosen = ControlParameters(name=from_uri(prefix), strategy=from_uri(strategy))
        self._command("strategy-choice/set", chosen, {_OK})

    def routes(self) -> dict[str, dict[str, int]]:
        """See RoutesNode: the configured routes."""
        return self._routes

    def _set_routes(self) -> None:
        before, self._routes = self._routes, self._twin.routes()
        for prefix, ways in before.items():
            for peer in ways.keys() - self._routes.get(prefix, {}).keys():
                self._route("rib/unregister", prefix, peer, None)
        for prefix, ways in self._routes.items():
            for peer, cost in ways.items():
                if before.get(prefix, {}).get(peer) != cost:
                    self._route("rib/register", prefix, peer, cost)

    def _route(self, verb: str, prefix: str, peer: str, cost: int | None) -> None:
        name = from_uri(prefix)
        wanted = ControlParameters(name=name, face=self._faces[peer], origin=Origin.STATIC, cost=cost)
        self._command(verb, wanted, {_OK})

    def _command(self, verb: str, wanted: ControlParameters, good: set[int]) -> ControlParameters:
        assert self._client is not None
        try:
            answer = self._client.command(verb, wanted, _BEGIN_S)
        except Unanswered as error:
            raise NotManaged(f"its forwarder does not answer {verb}") from error
        except DatasetError as error:
            raise NotManaged(str(error)) from error
        if answer.code not in good:
            raise NotManaged(f"its forwarder refuses {verb}: {answer.code} {answer.text}")
        return answer.body or ControlParameters()

    def _until_routes_stand(self, check: Callable[[], None]) -> None:
        """NFD acknowledges a route before it forwards by it."""
        assert self._client is not None
        wanted = {(prefix, self._faces[peer]) for prefix, ways in self._routes.items() for peer in ways}
        until = time.monotonic() + _BEGIN_S
        while True:
            check()
            try:
                fib = snapshot(self._client, with_own=False)["fib"]
            except DatasetError as error:
                raise NotManaged(str(error)) from error
            if wanted <= {(row["prefix"], hop["face"]) for row in fib for hop in row["hops"]}:
                return
            if time.monotonic() > until:
                raise NotManaged(f"its forwarder has not made all routes after {_BEGIN_S:.0f} s")
            time.sleep(_POLL_S)
