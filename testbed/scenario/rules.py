"""Checks across the tables of a scenario, its network and its layerings."""

from collections import Counter
from collections.abc import Container, Sequence
from operator import attrgetter
from random import Random

from pydantic import ValidationError

from forwarder.forwarder import Forwarder
from forwarder.toml_file import problem_of
from testbed.errors import UserError, shown, suggestion
from testbed.layerings.nodes.ndn_node import choose_strategies
from testbed.layerings.nodes.node import SSB_SERVER
from testbed.layerings.nodes.workload import Feature
from testbed.layerings.registry import LAYERINGS
from testbed.scenario.conversation import LONGEST
from testbed.scenario.mobility import read_trace
from testbed.scenario.model import Scenario
from testbed.scenario.overrides import InvalidScenario, Key, Override, override_of
from topologies.model import Topology, TopologyError
from topologies.ranges import expand_ranges
from topologies.routing import coordinates, routes


def complete(scenario: Scenario, following: str | int | None, wanted: Sequence[Override]) -> Scenario:
    """Derive defaults from the topology, and check dependencies on it.

    `following` selects the subscribers, unless the scenario names them; `wanted` has the options' overrides.
    Raises TopologyError for the topology, InvalidScenario for the rest.
    """
    nodes = scenario.network.nodes
    publishers = scenario.publishers
    if not publishers:
        chosen = "publisher" in scenario.model_fields_set
        publishers = (scenario.publisher if chosen or scenario.publisher in nodes else nodes[0],)
    _check_nodes("publisher", publishers, nodes, ("publisher",))
    _check_nodes("archive", [scenario.archive.node] if scenario.archive else [], nodes, ("archive",))
    _check_nodes("fork", [scenario.fork.publisher] if scenario.fork else [], nodes, ("fork",))
    heir = scenario.ending.successor if scenario.ending else None
    _check_nodes("ending", [heir] if heir else [], nodes, ("ending",))
    others = {*publishers, *([heir] if heir else [])}
    others |= {scenario.archive.node} if scenario.archive else set()
    others |= {scenario.fork.publisher} if scenario.fork else set()
    subscribers = scenario.subscribers or _following(scenario, following, others)
    _check_nodes("subscriber", subscribers, nodes, ("subscribers",))
    whole = scenario.model_copy(
        update={"publisher": publishers[0], "publishers": publishers, "subscribers": subscribers}
    )
    _check_parameters(whole, wanted)
    _check_feeds(whole)
    _choose_one(whole, "workload.pictures", "workload.feed", "fork", "archive")
    _check_application(whole)
    _check_deletion(whole)
    _check_paths(whole)
    _check_events(whole)
    _check_plans(whole)
    _check_gateways(whole)
    _check_stock_peers(whole)
    _check_ndn_over_ssb(whole)
    _check_link(whole)
    _check_hub(whole)
    _check_tiny_isp(whole)
    _check_lli(whole)
    for layering in {"broker", "room", "invite"}.intersection(whole.layerings):
        _check_middle(whole, layering)
    for node, forwarder in whole.other_forwarders.items():
        if whole.roles[node] != "forwarder":
            said = f"nodes.{node}.forwarder: {node!r} is a {whole.roles[node]}, and {forwarder} only forwards"
            raise InvalidScenario(said, ("nodes", node, "forwarder"))
    for number, program in enumerate(whole.programs, start=1):
        _check_nodes(f"[[programs]] number {number}:", [program.node], nodes, ("programs",))
    if whole.sessions is not None and whole.network.media:
        said = "sessions: people go offline with their links, and a broadcast medium has none"
        raise InvalidScenario(said, ("sessions",), ("topology", "media"))
    _check_features(whole)
    return whole


def _check_nodes(what: str, names: Sequence[str], nodes: tuple[str, ...], key: Key) -> None:
    for name in names:
        if name not in nodes:
            said = f"{what} {name!r} is not a node; {suggestion(name, nodes)}"
            raise InvalidScenario(said, key, ("topology",))
        if names.count(name) > 1:
            raise InvalidScenario(f"{what} {name!r} is named twice; leave one out", key)


def _check_gateways(scenario: Scenario) -> None:
    _check_nodes("nodes:", [*scenario.nodes], scenario.network.nodes, ("nodes",))
    _check_nodes("gateway", [*{*scenario.gateways.values()}], scenario.network.nodes, ("nodes",))
    for node, gateway in scenario.gateways.items():
        where = ("nodes", node, "gateway")
        if scenario.roles[gateway] != "gateway" or gateway in scenario.gateways:
            said = f"nodes.{node}.gateway: {gateway!r} publishes, follows or has a gateway itself"
            raise InvalidScenario(said, where)
        if scenario.roles[node] not in ("publisher", "subscriber", "peer"):
            said = f"nodes.{node}.gateway: {node!r} neither publishes nor follows"
            raise InvalidScenario(said, where)


def _check_stock_peers(scenario: Scenario) -> None:
    for node in scenario.stock_peers:
        for layering in scenario.layerings:
            if LAYERINGS[layering].protocol != "ssb" and node not in scenario.gateways:
                said = f"nodes.{node}.peer: under {layering}, a Scuttlebutt peer needs a gateway"
                raise InvalidScenario(said, ("nodes", node, "peer"), ("layerings",))
        if scenario.workload.pictures is not None:
            said = f"nodes.{node}.peer: {SSB_SERVER} is given no pictures; leave one of both out"
            raise InvalidScenario(said, ("nodes", node, "peer"), ("workload", "pictures"))
        if not scenario.layering_parameters("ssb").model_dump()["encrypt"]:
            said = f"nodes.{node}.peer: {SSB_SERVER} speaks with those who encrypt only"
            raise InvalidScenario(said, ("nodes", node, "peer"), ("parameters", "ssb", "encrypt"))


def _check_ndn_over_ssb(scenario: Scenario) -> None:
    """Check that NDN over SSB has a provider next to each publishing or requesting node."""
    if "ndn-over-ssb" not in scenario.layerings:
        return
    ends = {*scenario.sources, *scenario.subscribers}
    for node in sorted(ends):
        if not scenario.network.neighbours(node) - ends:
            said = f"ndn-over-ssb: {node!r} is next to no provider, a node that neither publishes nor asks"
            raise InvalidScenario(said, ("layerings",), ("topology",))


def _check_link(scenario: Scenario) -> None:
    """Check that `link` has a node for its services, and the signing keys of its records."""
    if "link" not in scenario.layerings:
        return
    from testbed.layerings.kinds.link import candidates

    if not candidates(scenario.network, {*scenario.sources, *scenario.subscribers}):
        said = "link: its services need a node that neither publishes nor follows"
        raise InvalidScenario(said, ("layerings",), ("topology",), ("subscribers",))
    if scenario.workload.feed is not None:
        said = "workload.feed: under link an author signs where its feed is, and an export has no secret key"
        raise InvalidScenario(said, ("workload", "feed"), ("layerings",))
    if scenario.gateways:
        node = next(iter(scenario.gateways))
        said = f"nodes.{node}.gateway: gateways do not know link; leave one of both out"
        raise InvalidScenario(said, ("nodes", node, "gateway"), ("layerings",))


def _check_hub(scenario: Scenario) -> None:
    """Check that the node in the middle of layerings exists."""
    for layering in scenario.layerings:
        at = scenario.parameters.get(layering, {}).get("at")
        place = ("parameters", layering, "at")
        if at:
            _check_nodes(
                "hub" if layering == "hub" else f"{layering}: at", [at], scenario.network.nodes, place
            )


def _check_tiny_isp(scenario: Scenario) -> None:
    """Check that tinyISP's providers exist and reach each other, that each client has one, and that an attack
    has an attacker.
    """
    if "tiny-isp" not in scenario.layerings:
        return
    from testbed.layerings.tiny.assignment import Assignment

    place = ("parameters", "tiny-isp")
    parameters = scenario.layering_parameters("tiny-isp").model_dump()
    for part, what in (("providers", "provider"), ("hostile", "hostile client")):
        _check_nodes(f"tiny-isp: {what}", parameters[part], scenario.network.nodes, (*place, part))
    try:
        Assignment.of(scenario.network, parameters, sorted({*scenario.sources, *scenario.subscribers}))
    except UserError as error:
        where = ("layerings",), ("publishers",), ("subscribers",)
        raise InvalidScenario(str(error), place, *where) from None
    attack, hostile = parameters["attack"], parameters["hostile"]
    if len(hostile) == 1 and attack in ("crowd", "ignore-pause", "replay"):
        said = f"tiny-isp.hostile: {attack} takes two clients, which subscribe to each other"
        raise InvalidScenario(said, (*place, "hostile"), (*place, "attack"))
    _check_attack(scenario, "tiny-isp", hostile, ("attack", "attack_ms"))


def _check_middle(scenario: Scenario, layering: str) -> None:
    """Check that the broker, the room or the pub has a node, and that further pubs are no ends."""
    from testbed.layerings.nodes.node import middle_of

    parameters = scenario.layering_parameters(layering).model_dump()
    ends = {*scenario.sources, *scenario.subscribers}
    where = ("publishers",), ("subscribers",)
    try:
        middle_of(layering, scenario.network, ends, parameters["at"])
    except UserError as error:
        raise InvalidScenario(str(error), ("parameters", layering, "at"), *where) from None
    place = ("parameters", layering, "pubs")
    pubs = parameters.get("pubs", [])
    _check_nodes(f"{layering}: pub", pubs, scenario.network.nodes, place)
    for pub in ends.intersection(pubs):
        said = f"{layering}: pubs: {pub!r} publishes or follows, and a pub does neither"
        raise InvalidScenario(said, place, *where)


def _check_lli(scenario: Scenario) -> None:
    """Check that hostile neighbours under controlled push exist, have no other part, and can attack."""
    if "lli" not in scenario.layerings:
        return
    place = ("parameters", "lli")
    parameters = scenario.layering_parameters("lli").model_dump()
    hostile = parameters["hostile"]
    _check_nodes("lli: hostile node", hostile, scenario.network.nodes, (*place, "hostile"))
    for node in hostile:
        if node in {*scenario.sources, *scenario.subscribers}:
            said = f"lli: {node!r} is hostile, and can neither publish nor follow"
            raise InvalidScenario(said, (*place, "hostile"))
    _check_attack(scenario, "lli", hostile, ("attack", "attack_ms", "checks_addresses"))
    if parameters["attack"] == "idle" and not scenario.workload.idle_feeds:
        said = "lli.attack: idle asks for idle feeds; set workload.idle_feeds"
        raise InvalidScenario(said, (*place, "attack"), ("workload", "idle_feeds"))


def _check_attack(scenario: Scenario, layering: str, hostile: Sequence[str], names: Sequence[str]) -> None:
    """Check that parameters of an attack have an attacker."""
    for name in names:
        if not hostile and name in scenario.parameters.get(layering, {}):
            said = f"{layering}.{name}: it has no effect without hostile nodes; name some, or leave it out"
            raise InvalidScenario(said, ("parameters", layering, name))


def _check_feeds(scenario: Scenario) -> None:
    workload = scenario.workload
    feeds = scenario.feed_count
    if feeds < len(scenario.sources):
        said = f"{len(scenario.sources)} publishers share {feeds} feeds; give each one at least"
        raise InvalidScenario(said, ("workload", "feeds"))
    if workload.feed is not None and (feeds > 1 or scenario.fork):
        said = "workload.feed: an export is one feed, and cannot be forked; leave it out"
        raise InvalidScenario(said, ("workload", "feed"), ("workload", "feeds"), ("fork",))
    if workload.fetch is not None and scenario.fork is not None:
        said = "workload.fetch: objects are complete from the start, and do not fork; leave one of both out"
        raise InvalidScenario(said, ("workload", "fetch"), ("fork",))
    if workload.items < feeds:
        said = f"workload.items: {workload.items} items are too few for {feeds} feeds; give each one at least"
        raise InvalidScenario(said, ("workload", "items"), ("workload", "feeds"))
    if workload.item_bytes is not None and (workload.feed is not None or workload.fetch is not None):
        other = "feed" if workload.feed is not None else "fetch"
        said = f"workload.item_bytes: it concerns made feeds; leave it or workload.{other} out"
        raise InvalidScenario(said, ("workload", "item_bytes"), ("workload", other))
    if workload.follows is not None and workload.follows > feeds:
        said = f"workload.follows: {workload.follows}, but there are only {feeds} feeds; lower it"
        raise InvalidScenario(said, ("workload", "follows"), ("workload", "feeds"))
    for one, other in (("follows", "graph"), ("feed", "fetch"), ("follows", "fetch")):
        _choose_one(scenario, f"workload.{one}", f"workload.{other}")
    taken = {scenario.fork.publisher: "fork"} if scenario.fork else {}
    if scenario.archive:
        taken[scenario.archive.node] = "archive"
    for node, what in taken.items():
        if node in scenario.sources:
            said = f"{what} {node!r} is the publisher; name another node"
            raise InvalidScenario(said, ("publisher",), (what,))
        if node in scenario.subscribers:
            said = f"{what} {node!r} is a subscriber; name another node"
            raise InvalidScenario(said, ("subscribers",), (what,))
    for what in ("fork", "archive"):
        _check_one_feed(scenario, what)
    _choose_one(scenario, "fork", "archive")
    _check_ending(scenario)
    _check_after(scenario, "fork")
    publishing = Counter(scenario.sources[feed % len(scenario.sources)] for feed in range(feeds))
    for node in scenario.subscribers:
        if publishing[node] == feeds:
            said = f"subscriber {node!r} is the publisher; leave it out"
            raise InvalidScenario(said, ("subscribers",), ("publisher",))


def _choose_one(scenario: Scenario, one: str, *others: str) -> None:
    """Check that a scenario does not have one key ("workload.feed") and one of some others, too."""
    given = [place for place in (one, *others) if attrgetter(place)(scenario) is not None]
    if one in given and given[1:]:
        paths = (tuple(place.split(".")) for place in given[:2])
        raise InvalidScenario(f"{one}, {given[1]}: choose one", *paths)


def _check_one_feed(scenario: Scenario, what: str) -> None:
    """Check that what happens to the feed happens to the only one."""
    if getattr(scenario, what) is not None and scenario.feed_count > 1:
        said = f"{what}: there must be one feed, not {scenario.feed_count}"
        raise InvalidScenario(said, ("workload", "feeds"), (what,))


def _check_after(scenario: Scenario, what: str) -> None:
    """Check that what happens after an item happens before the last one."""
    told, items = getattr(scenario, what), scenario.workload.items
    if told is not None and told.after >= items:
        said = f"{what}.after: {told.after}, but there are only {items} items; lower it"
        raise InvalidScenario(said, ("workload", "items"), (what, "after"))


def _check_application(scenario: Scenario) -> None:
    """Check that an application's messages are generated, each once in the log of its author, and few."""
    workload = scenario.workload
    if workload.application is None:
        return
    others = ("workload.feed", "workload.fetch", "fork", "ending", "deletion")
    _choose_one(scenario, "workload.application", *others)
    if workload.items > LONGEST:
        said = f"workload.items: {workload.items}, but an application has at most {LONGEST:,}; lower it"
        raise InvalidScenario(said, ("workload", "items"), ("workload", "application"))


def _check_ending(scenario: Scenario) -> None:
    ending = scenario.ending
    if ending is None:
        return
    _choose_one(scenario, "ending", "fork", "archive", "deletion")
    for key in ("feed", "fetch", "graph", "pictures"):
        _choose_one(scenario, f"workload.{key}", "ending")
    _check_one_feed(scenario, "ending")
    _check_after(scenario, "ending")
    if ending.suite != "ed25519" and (ending.successor is None or not ending.is_told):
        key = "successor" if ending.successor is None else "told"
        said = f"ending.suite: {ending.suite!r} is the successor's, whom the end names; mend ending.{key}"
        raise InvalidScenario(said, ("ending", "suite"), ("ending", key))
    if ending.successor in scenario.subscribers:
        said = f"ending: successor {ending.successor!r} is a subscriber; name another node"
        raise InvalidScenario(said, ("subscribers",), ("ending", "successor"))


def _check_deletion(scenario: Scenario) -> None:
    deletion, workload = scenario.deletion, scenario.workload
    if deletion is None:
        return
    _check_one_feed(scenario, "deletion")
    for key in ("feed", "fetch", "graph", "pictures"):
        if getattr(workload, key) is not None:
            said = f"deletion: it concerns a made feed; leave it or workload.{key} out"
            raise InvalidScenario(said, ("deletion",), ("workload", key))
    if deletion.items > deletion.after:
        said = f"deletion.items: {deletion.items}, but the request follows item {deletion.after}; lower it"
        raise InvalidScenario(said, ("deletion", "items"), ("deletion", "after"))
    _check_after(scenario, "deletion")


def _check_paths(scenario: Scenario) -> None:
    heir = scenario.ending.successor if scenario.ending else None
    for to in (*scenario.sources, *([heir] if heir else [])):
        _check_reach(scenario.network, scenario.subscribers, to)
    if scenario.archive:
        _check_reach(scenario.network, [scenario.archive.node], scenario.publisher)
    for number, traffic in enumerate(scenario.cross_traffic, start=1):
        for node in (traffic.source, traffic.to):
            place = f"[[cross_traffic]] number {number}:"
            _check_nodes(place, [node], scenario.network.nodes, ("cross_traffic",))
        _check_reach(scenario.network, [traffic.to], traffic.source)


def _check_reach(network: Topology, nodes: Sequence[str], to: str) -> None:
    unreachable = {*nodes} - {to, *routes(network, to)}
    if unreachable:
        said = f"no path joins {to} and {', '.join(sorted(unreachable))}"
        raise InvalidScenario(said, ("subscribers",), ("publisher",), ("topology",))


def _check_events(scenario: Scenario) -> None:
    nodes = scenario.network.nodes
    for number, change in enumerate(scenario.events, start=1):
        place = f"[[events]] number {number}"
        if change.node is not None:
            _check_nodes(f"{place}: {change.event}:", [change.node], nodes, ("events",))
        elif change.partition is not None:
            some = change.partition.split()
            _check_nodes(f"{place}: partition:", some, nodes, ("events",))
            if not any((link.a in some) != (link.b in some) for link in scenario.network.links):
                said = f"{place}: partition: no link joins {' '.join(some) or 'nothing'} with the others"
                raise InvalidScenario(said, ("events",), ("topology",))
        elif change.strategy is not None:
            _check_nodes(f"{place}: on:", (change.on or "").split(), nodes, ("events",))
            try:  # strategies of files are known only after execution: testbed.experiment.code
                if not scenario.strategy_files:
                    choose_strategies(Forwarder(rng=Random(0), controlled_push=False), change.choice)
            except ValueError as error:
                raise InvalidScenario(f"{place}: strategy: {error}", ("events",)) from None
        elif change.membership is not None:
            try:
                scenario.network.attachment_of(*change.membership)
            except TopologyError as error:
                said = f"{place}: {change.event}: {error}"
                raise InvalidScenario(said, ("events",), ("topology",)) from None
        elif not change.heal:
            try:
                link = scenario.network.links[scenario.network.link_between(*change.ends)]
                change.changed(link)
            except TopologyError as error:
                raise InvalidScenario(f"{place}: {error}", ("events",), ("topology",)) from None
    try:
        if scenario.mobility is not None:
            read_trace(scenario.mobility, scenario.network)
    except TopologyError as error:
        raise InvalidScenario(f"[mobility] {error}", ("mobility",), ("topology",)) from None
    if scenario.routing.metric == "hyperbolic":
        try:
            coordinates(scenario.network)
        except TopologyError as error:
            raise InvalidScenario(f"[routing] {error}", ("routing", "metric"), ("topology",)) from None


def _check_plans(scenario: Scenario) -> None:
    following = [*scenario.subscribers, *([scenario.archive.node] if scenario.archive else [])]
    for node in scenario.plans:
        if node not in following:
            said = f"[plans.{node}]: not a subscriber; {suggestion(node, following)}"
            raise InvalidScenario(said, ("plans", node), ("subscribers",), ("publisher",), ("topology",))


def _check_features(scenario: Scenario) -> None:
    """Check that each layering supports the scenario's features."""
    plans = scenario.plans.items()
    wanted = {
        Feature.FORK: ("fork",) if scenario.fork and scenario.fork.cure == "none" else None,
        Feature.MERGE: ("fork", "cure") if scenario.fork and scenario.fork.cure == "merge" else None,
        Feature.ENDING: ("ending",) if scenario.ending else None,
        Feature.DELETION: ("deletion",) if scenario.deletion else None,
        Feature.ARCHIVE: ("archive",) if scenario.archive else None,
        Feature.CROSS_TRAFFIC: ("cross_traffic",) if scenario.cross_traffic else None,
        Feature.PAUSES: next((("plans", node, "pauses_ms") for node, plan in plans if plan.pauses_ms), None),
        Feature.SLOW_SUBSCRIBERS: next(
            (("plans", node, "drain_per_s") for node, plan in plans if plan.drain_per_s), None
        ),
        Feature.MEDIUM: ("topology", "media") if scenario.network.media else None,
        Feature.RADIO: ("topology", "radio") if any(each.radio for each in scenario.network.media) else None,
        Feature.FOLLOWING: ("workload",) if scenario.workload.fetch is None else None,
        Feature.GATEWAYS: ("nodes",) if scenario.gateways else None,
        Feature.EXPORT: ("workload", "feed") if scenario.workload.feed is not None else None,
        Feature.PICTURES: ("workload", "pictures") if scenario.workload.pictures is not None else None,
        Feature.REQUESTS: ("workload", "fetch") if scenario.workload.fetch is not None else None,
    }
    for layering in scenario.layerings:
        carried, who = LAYERINGS[layering].carries, layering
        if scenario.gateways:
            carried = carried & LAYERINGS["ssb"].carries - {Feature.PICTURES}
            who = f"{layering} with gateways"
        for feature, place in wanted.items():
            if place is not None and feature not in carried:
                said = f"{who} cannot carry {feature.value}, which the scenario has; leave one of both out"
                raise InvalidScenario(said, ("layerings",), place)


def _check_parameters(scenario: Scenario, wanted: Sequence[Override]) -> None:
    for layering in {**dict.fromkeys(scenario.layerings), **scenario.parameters}:
        if layering not in LAYERINGS:
            said = f"[parameters.{layering}]: unknown layering; {suggestion(layering, LAYERINGS)}"
            raise InvalidScenario(said, ("parameters", layering))
        try:
            scenario.layering_parameters(layering)
        except ValidationError as error:
            (name, *_), problem = [*problem_of(error)[0], ""], problem_of(error)[1]
            place = ("parameters", layering, name)
            if name and name not in LAYERINGS[layering].parameters.model_fields:
                there = LAYERINGS[layering].parameters.model_fields
                problem = f"{layering} has no parameter {shown(name)}; {suggestion(name, there)}"
            said = problem if override_of(wanted, [place]) else f"[parameters.{layering}] {name}: {problem}"
            raise InvalidScenario(said, place) from error
    for each in wanted:
        if each.path[0] == "parameters" and each.path[1] not in scenario.layerings:
            running = ", ".join(scenario.layerings)
            raise InvalidScenario(f"{each.path[1]} is not run, but {running}; leave it out", each.path)


def _following(scenario: Scenario, asked_for: str | int | None, others: Container[str]) -> tuple[str, ...]:
    """Return the subscribers that a scenario does not name: all, some, the given ones, or the leaves."""
    if asked_for is None:
        return _leaves(scenario.network, others)
    text = str(asked_for)
    possible = [node for node in scenario.network.nodes if node not in others]
    if text == "all":
        return tuple(possible)
    if not text.removeprefix("-").isdecimal():
        try:
            return expand_ranges(name.strip() for name in text.split(","))
        except ValueError as error:
            raise InvalidScenario(str(error), ("subscribers",)) from None
    count = int(text)
    if not 1 <= count <= len(possible):
        raise InvalidScenario(
            f"there can be 1 to {len(possible)} subscribers", ("subscribers",), ("topology",)
        )
    # The nodes of a smaller number are among those of a larger one.
    chosen = Random("subscribers").sample(possible, len(possible))[:count]
    return tuple(node for node in possible if node in chosen)


def _leaves(topology: Topology, taken: Container[str]) -> tuple[str, ...]:
    """Return the nodes with one link and no other role; all others if there are none."""
    degree = Counter(interface.node for interface in topology.link_ends)
    others = [node for node in topology.nodes if node not in taken]
    return tuple(node for node in others if degree[node] == 1) or tuple(others)
