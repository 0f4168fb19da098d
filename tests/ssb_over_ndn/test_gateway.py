"""Two gateways in virtual time, a Scuttlebutt peer at home at each: feeds, blobs and messages cross NDN."""

from collections.abc import Callable
from functools import partial
from hashlib import sha256
from itertools import islice
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from base.endpoint import LinkPort, Program, StreamPort
from base.units import SECOND
from forwarder.forwarder import Forwarder
from forwarder.host import Host
from forwarder.wire.feed import item_name, ssb_content
from forwarder.wire.lp import open_data
from forwarder.wire.packet import make_data, make_interest
from ssb.applications.links import links_of
from ssb.ending import end_content
from ssb.graph import Graph
from ssb.keys import Identity, blob_ref, message_ref
from ssb.message import Message
from ssb.peer.options import PORT, PeerOptions
from ssb.peer.peer import Peer
from ssb.peer.program import PeerEvent
from ssb.replication.blobs import Blobs
from ssb.replication.ebt import Ebt
from ssb.replication.loose import Loose
from ssb.store.blobs import MemoryBlobs
from ssb.store.clocks import ClockDirectory, MemoryClocks
from ssb.store.feeds import StoreError, read_log
from ssb.store.memory import MemoryFeeds
from ssb.store.sqlite import SqliteFeeds
from ssb_over_ndn.gateway import interests
from ssb_over_ndn.gateway.gateway import Gateway
from ssb_over_ndn.layerings.lli import LliSubscription
from ssb_over_ndn.naming import BLOBS, SHA256, hash_name, hash_packet, log_name, segment_name
from testbed.scenario.sections import TopologySpec
from topologies.emulator.network import EmulatedNetwork

HOMES = {"ann": "g1", "ben": "g2"}


class Asker:
    """An application that asks, and keeps what comes."""

    def __init__(self) -> None:
        self.outputs: list[bytes] = []
        self.got: list[bytes] = []

    def receive(self, packet: bytes, now: int) -> None:
        opened = open_data(packet)
        if opened is not None:
            self.got.append(opened[0].content)

    def take_outputs(self) -> list[bytes]:
        outputs, self.outputs = self.outputs, []
        return outputs

    def next_deadline(self) -> int | None:
        return None

    def wake(self, now: int) -> None: ...


class World:
    """Ann and Ben, each with a gateway; the two gateways are neighbours.

    Args:
        loss: of each link, percent.
        shared: prefixes with a route from Ben's gateway to Ann's, beside those of feeds.
    """

    def __init__(self, loss: float = 0.0, shared: tuple[bytes, ...] = (SHA256, BLOBS)) -> None:
        links = [("ann", "g1"), ("g1", "g2"), ("g2", "ben")]
        spec = TopologySpec(
            links=tuple({"a": a, "b": b, "delay_ms": 5.0, "loss_percent": loss} for a, b in links)
        )
        self.topology = spec.build()
        self.identities = {
            name: Identity.from_seed(sha256(name.encode()).digest()) for name in ("ann", "ben", "g1", "g2")
        }
        self.feeds = {name: MemoryFeeds() for name in self.identities}
        self.blobs = {name: MemoryBlobs() for name in self.identities}
        self.peers = {name: self._peer(name) for name in self.identities}
        self.gateways: dict[str, Gateway] = {}
        self.asker = Asker()
        programs = {}
        for name, peer in self.peers.items():
            ports = {99: StreamPort(PORT)}
            if name in HOMES:
                address = (self.topology.address(HOMES[name]), PORT)
                peer.add(self.identities[HOMES[name]].ref, address, 0, is_kept=True)
                programs[name] = [Program(peer, ports)]
            else:
                host, links_of = self._host(name)
                self.gateways[name] = made = self._gateway(name, host.settle)
                face = host.attach(made.application)
                for author, home in HOMES.items():
                    there = face if home == name else links_of["g1" if name == "g2" else "g2"]
                    host.forwarder.fib.add(log_name(self.identities[author].ref), there)
                if name == "g2":
                    host.attach(self.asker)
                    self.asked = host
                for prefix in shared if name == "g2" else (SHA256, BLOBS):
                    host.forwarder.fib.add(prefix, links_of["g1"] if name == "g2" else face)
                faces = {
                    links_of[end.peer]: LinkPort(end) for end in self.topology.link_ends if end.node == name
                }
                programs[name] = [Program(host, faces), Program(made, ports)]
        self.network = EmulatedNetwork(self.topology, programs, seed=1, capture=None)

    def _peer(self, name: str) -> Peer:
        identity = self.identities[name]
        wanted = [identity.ref]
        return Peer(
            identity,
            self.feeds[name],
            MemoryClocks(),
            wanted,
            PeerOptions(),
            Random(name),
            blobs=Blobs(self.blobs[name]),
            loose=Loose(self.feeds[name]),
        )

    def ask(self, packet: bytes) -> None:
        """Have the asker send a packet, which the next event at its node will do."""
        self.asker.outputs.append(packet)
        self.asked.stir()

    def _host(self, name: str) -> tuple[Host, dict[str, int]]:
        host = Host(Forwarder(rng=Random(f"{name} forwarder"), controlled_push=True))
        return host, {end.peer: host.add_link() for end in self.topology.link_ends if end.node == name}

    def _gateway(self, name: str, settle: Callable[[int], None]) -> Gateway:
        peer = self.peers[name]
        blobs = peer.services.blobs
        rng = Random(f"{name} nonces")

        def subscribe(feed: bytes, after: int) -> LliSubscription:
            return LliSubscription(feed, rng=rng, credit=16, lifetime_ms=60_000, after=after)

        graph = Graph(self.identities[name].ref)
        return Gateway(
            peer,
            peer,
            self.feeds[name],
            blobs,
            graph,
            subscribe,
            lambda feed: None,
            rng,
            settle,
            lambda id_, after: self._naming(name, id_, after),
        )

    def _naming(self, name: str, id_: str, after: int) -> list[tuple[int, str]]:
        """Where the log of a node links to a message, and the authors, two at a time."""
        log = ((stored.position, stored.message) for stored in read_log(self.feeds[name], after))
        named = ((at, m.author) for at, m in log if id_ in (link.dest for link in links_of(m.content)))
        return [*islice(named, 2)]

    def want_blob(self, name: str, blob: str) -> None:
        """Let a peer fetch a blob as soon as anybody has it."""
        peer = self.peers[name]
        assert peer.services.blobs is not None
        peer.services.blobs.want(blob)
        self.change(peer.connections.update)

    def want_message(self, name: str, id_: str) -> Message | None:
        """Let a peer look for a message; return it if it is here."""
        loose = self.peers[name].services.loose
        assert loose is not None
        message = loose.want(id_)
        self.change(self.peers[name].connections.update)
        return message

    def change(self, act: Callable[[int], Any]) -> None:
        """Have something done now."""
        act(self.network.now)
        for name in self.identities:
            self.network.settle(name)

    def write(self, name: str, **content: Any) -> Message:
        """Write a message at a peer."""
        message = self.feeds[name].publish(self.identities[name], {"type": "post"} | content, 1e12)
        self.change(lambda now: self.peers[name].on_appended(message.author, now))
        return message

    def run(self, seconds: float) -> None:
        self.network.run(self.network.now + int(seconds * SECOND))

    def tip(self, name: str, author: str) -> int:
        return self.feeds[name].tips().get(self.identities[author].ref, 0)


def follow(world: World, following: bool = True) -> None:
    """Let Ben follow Ann, or leave her, by a message."""
    world.write("ben", type="contact", contact=world.identities["ann"].ref, following=following)


def test_a_message_of_type_contact_starts_and_ends_a_subscription() -> None:
    world = World()
    ann = world.identities["ann"].ref
    world.write("ann", text="one")
    world.run(1)
    assert world.tip("g1", "ann") == 1
    assert world.tip("g2", "ann") == 0
    follow(world)
    world.change(lambda now: world.peers["ben"].want(ann, now))
    world.run(1)
    assert world.gateways["g2"].application.follows == [ann]
    assert world.tip("ben", "ann") == 1
    world.change(lambda now: world.peers["ben"].unwant(ann, now))
    follow(world, following=False)
    world.run(1)
    assert world.gateways["g2"].application.follows == []
    world.write("ann", text="two")
    world.run(1)
    assert world.tip("g1", "ann") == 2
    assert world.tip("g2", "ann") == 1
    world.change(lambda now: world.peers["ben"].want(ann, now))
    follow(world)
    world.run(2)
    assert world.tip("ben", "ann") == 2


@pytest.mark.parametrize("loss", [0.0, 5.0])
def test_the_end_of_a_feed_ends_its_subscription(loss: float) -> None:
    world = World(loss)
    ann = world.identities["ann"].ref
    world.write("ann", text="one")
    world.change(lambda now: world.peers["ben"].want(ann, now))
    world.run(5)
    assert world.gateways["g2"].application.follows == [ann]
    world.write("ann", **end_content(ann))
    world.run(30)
    assert world.tip("ben", "ann") == 2
    assert world.gateways["g2"].application.follows == []
    world.change(lambda now: world.peers["ben"].unwant(ann, now))
    world.run(5)
    world.change(lambda now: world.peers["ben"].want(ann, now))
    world.run(5)
    assert world.gateways["g2"].application.follows == []
    assert world.gateways["g2"].counters.total() == 0


@pytest.mark.parametrize("loss", [0.0, 5.0])
def test_a_blob_crosses_that_only_its_author_has(loss: float) -> None:
    world = World(loss)
    content = Random(1).randbytes(100_000)
    blob = world.blobs["ann"].add(content)
    world.write("ann", text="look", mentions=[{"link": blob}])
    world.change(lambda now: world.peers["ben"].want(world.identities["ann"].ref, now))
    world.run(20)
    assert world.tip("ben", "ann") == 1
    world.want_blob("ben", blob)
    world.run(60)
    assert world.blobs["ben"].size(blob) == len(content)
    assert world.blobs["ben"].read(blob) == content
    assert world.gateways["g2"].counters.total() == 0


def wished_for(world: World, seed: int) -> tuple[bytes, str]:
    """A blob that Ben wants and nobody has: its content and its reference."""
    content = Random(seed).randbytes(10_000)
    blob = blob_ref(sha256(content).digest())
    world.run(1)
    world.want_blob("ben", blob)
    return content, blob


def test_a_blob_that_nobody_has_is_looked_for_again_later() -> None:
    world = World()
    content, blob = wished_for(world, 2)
    world.run(85)
    assert world.gateways["g2"].counters == {"blob: nobody answers": 1}
    assert world.gateways["g1"].application.next_deadline() is None, "nothing is looked for any more"
    world.blobs["ann"].add(content)
    world.run(40)
    assert world.blobs["ben"].size(blob) == len(content)
    assert world.gateways["g2"].application.next_deadline() is None


def test_an_interest_for_a_blob_does_not_end_a_peers_wish_for_it() -> None:
    world = World()
    content, blob = wished_for(world, 3)
    world.run(1)
    world.ask(make_interest(segment_name(blob, 0), nonce=1, lifetime_ms=1000))
    world.run(85)
    world.blobs["ann"].add(content)
    world.run(60)
    assert world.blobs["ben"].size(blob) == len(content)


@pytest.mark.parametrize("is_wanted_before", [True, False])
def test_a_blob_that_somebody_at_home_names_first_is_fetched_where_others_name_it(
    is_wanted_before: bool,
) -> None:
    """Ben names Ann's picture, and has not got it; Ann, who is at home elsewhere, names it later."""
    world = World()
    world.change(lambda now: world.peers["ben"].want(world.identities["ann"].ref, now))
    content = Random(4).randbytes(9_000)
    blob = world.blobs["ann"].add(content)
    world.write("ben", text="Ann has shown me one", mentions=[{"link": blob}])
    world.run(5)
    if is_wanted_before:
        world.want_blob("ben", blob)
        world.run(5)
        assert world.blobs["ben"].size(blob) is None
    world.write("ann", text="look", mentions=[{"link": blob}])
    world.run(5)
    if not is_wanted_before:  # peers at home go first, for a minute
        world.want_blob("ben", blob)
        world.run(50)
        assert world.blobs["ben"].size(blob) is None
        world.run(20)
    assert world.blobs["ben"].read(blob) == content
    world.run(1)
    assert len(world.gateways["g2"].application._fetches) == 0


def test_each_attempt_asks_another_author_of_a_blob() -> None:
    """Those at home together are one; a hostile crowd has a bound."""
    world = World()
    side = world.gateways["g2"].application
    ann, ben = (world.identities[name].ref for name in ("ann", "ben"))
    world.write("ben", text="at home")
    world.run(5)
    blob = blob_ref(sha256(b"x").digest())
    others = [Identity.from_seed(bytes([9, number]) * 16) for number in range(20)]
    side._mentions[blob] = [ben, ann, ben]
    hints = [side._hint(blob) for _ in range(6)]
    assert hints == [None, (log_name(ann),), None, (log_name(ann),), None, (log_name(ann),)]
    for other in others:
        side._note_mentions(Message.create(other, None, {"type": "post", "text": blob}, 1.0), 0)
    assert len(side._mentions[blob]) == 8
    assert side._hint(blob_ref(sha256(b"y").digest())) == ()


def test_many_blobs_are_fetched_in_turn() -> None:
    world = World()
    blobs = [world.blobs["ann"].add(Random(number).randbytes(9_000)) for number in range(40)]
    world.run(1)
    for blob in blobs:
        world.want_blob("ben", blob)
    world.run(40)
    assert [blob for blob in blobs if world.blobs["ben"].size(blob) is None] == []


def test_a_message_is_served_by_its_hash() -> None:
    world = World()
    message = world.write("ann", text="one")
    world.run(1)
    world.ask(make_interest(hash_name(message.id), nonce=1, lifetime_ms=1000))
    world.run(1)
    (content,) = world.asker.got
    assert message.encoded in content


@pytest.mark.parametrize("loss", [0.0, 5.0])
def test_a_message_that_another_one_names_crosses_and_its_feed_does_not(loss: float) -> None:
    """Ben follows nobody. He has Ann's answer, which names the question."""
    world = World(loss)
    question = world.write("ann", text="question")
    answer = world.write("ann", text="answer", root=question.id, branch=question.id)
    world.run(5)
    for store in (world.feeds["ben"], world.feeds["g2"]):
        store.add_out_of_order(answer, 1.0)
    world.gateways["g2"].application._naming = lambda id_, after: [] if after else [(1, answer.author)]
    asked = world.gateways["g2"].application._messages
    assert world.want_message("ben", question.id) is None
    world.run(20)
    assert world.want_message("ben", question.id) == question
    assert len(asked) == 0
    for name in ("ben", "g2"):
        assert world.tip(name, "ann") == 0
        assert world.peers[name].services.loose.wanted == {}  # type: ignore[union-attr]
    assert world.gateways["g2"].counters.total() == 0
    assert world.gateways["g2"].application.next_deadline() is None, "nothing is looked for any more"


def strangers() -> list[Message]:
    """The first messages of two who are at home nowhere."""
    return [
        Message.create(Identity.from_seed(bytes([number]) * 32), None, {"type": "post"}, 1.0)
        for number in range(2)
    ]


def test_an_interest_for_a_hash_goes_where_an_author_is_at_home_who_names_it() -> None:
    """There is no route for hashes. Ann's post, which Ben gets, names a message of a stranger."""
    world = World(shared=())
    named, other = strangers()
    for message in (named, other):
        world.feeds["ann"].add_out_of_order(message, 1.0)
    world.write("ann", text="answer", root=named.id)
    world.change(lambda now: world.peers["ben"].want(world.identities["ann"].ref, now))
    world.run(5)
    assert world.tip("ben", "ann") == 1
    for message in (named, other):
        world.want_message("ben", message.id)
    world.run(20)
    assert world.want_message("ben", named.id) == named
    assert world.want_message("ben", other.id) is None


def test_a_message_that_somebody_at_home_names_first_is_fetched_where_others_name_it() -> None:
    """Ben names a stranger's message and has not got it; Ann, who is at home at the other gateway, names it
    later, and has it.
    """
    world = World(shared=())
    (named, _) = strangers()
    world.feeds["ann"].add_out_of_order(named, 1.0)
    for text in ("one", "two", "three"):
        world.write("ben", text=text, root=named.id)
    world.run(5)
    assert world.tip("g2", "ben") == 3
    world.change(lambda now: world.peers["ben"].want(world.identities["ann"].ref, now))
    world.want_message("ben", named.id)
    world.run(20)
    assert world.want_message("ben", named.id) is None
    world.run(60)
    world.write("ann", text="answer", root=named.id)
    world.run(5)
    assert world.want_message("ben", named.id) == named, (
        "the new link starts a fetch, and its author is asked"
    )


def test_each_attempt_asks_another_author_elsewhere() -> None:
    """The first who names it has moved; somebody at home names it, too; the last one has it."""
    world = World(shared=())
    ann, ben = (world.identities[name].ref for name in ("ann", "ben"))
    (named, gone) = strangers()
    links = [(1, ben), (2, gone.author), (3, gone.author), (4, ben), (5, ann)]
    world.feeds["ann"].add_out_of_order(named, 1.0)
    side = world.gateways["g2"].application
    asked: list[int] = []

    def naming(id_: str, after: int) -> list[tuple[int, str]]:
        asked.append(after)
        return [link for link in links if link[0] > after][:2]

    side._naming = naming
    world.write("ben", text="at home")
    world.run(5)
    hints = [side._hint_to_message(named.id) for _ in range(8)]
    # Two links are read at once; after the last one it begins again.
    to_gone, to_ann = (log_name(gone.author),), (log_name(ann),)
    assert hints == [to_gone, (), to_ann, (), to_gone, (), to_ann, ()]
    assert asked == [0, 2, 4, 5] * 2
    world.want_message("ben", named.id)
    world.run(400)
    assert world.want_message("ben", named.id) == named
    world.run(1)
    assert len(side._messages) == 0


@pytest.mark.parametrize("what", ["another", "altered", "no message", "nothing"])
def test_other_data_under_a_hash_are_refused_and_asked_for_past_caches(what: str) -> None:
    world = World(shared=())
    world.run(1)
    wanted, another = strangers()
    text = {
        "another": another.encoded,
        "altered": wanted.encoded.replace(b'"post"', b'"pest"'),
        "no message": b"{}",
        "nothing": b"",
    }[what]
    false = make_data(hash_name(wanted.id), ssb_content(text) if text else b"")
    side = world.gateways["g2"].application
    world.want_message("ben", wanted.id)
    world.run(0.1)
    world.change(lambda now: side.receive(false, now))
    assert world.feeds["g2"].get(wanted.id) is world.feeds["g2"].get(another.id) is None
    fetch = side._messages._fetches[wanted.id]
    world.change(lambda now: side._messages.wake(now + 10 * SECOND))
    assert fetch._fetcher._unsound == {1}
    world.run(40)
    assert world.gateways["g2"].counters == {"message: other Data come in its place": 1}
    world.change(lambda now: side.receive(hash_packet(wanted), now))
    assert world.feeds["g2"].get(wanted.id) is None, "it is not waited for now"


def test_a_gateway_asks_its_peers_for_a_message_that_others_want() -> None:
    """Neither gateway has it, and nothing names it: the route to all hashes leads to the other gateway."""
    world = World()
    message = Message.create(Identity.from_seed(bytes(32)), None, {"type": "post", "text": "x"}, 1.0)
    world.feeds["ann"].add_out_of_order(message, 1.0)
    world.run(1)
    assert world.want_message("ben", message.id) is None
    world.run(10)
    assert world.want_message("ben", message.id) == message
    assert world.feeds["g1"].get(message.id) == message


def test_a_message_that_nobody_has_is_looked_for_again_later_and_not_for_ever_here() -> None:
    world = World()
    message = Message.create(Identity.from_seed(bytes(32)), None, {"type": "post", "text": "x"}, 1.0)
    world.run(1)
    world.want_message("ben", message.id)
    world.run(20)
    loose = world.peers["g1"].services.loose
    assert loose is not None
    assert loose.wanted == {message.id: -2}, "peers at home there are asked"
    world.run(40)
    assert world.gateways["g2"].counters == {"message: nobody answers": 1}
    assert world.gateways["g1"].application.next_deadline() is None, "nothing is looked for any more"
    assert loose.wanted == {}
    world.run(25)
    world.feeds["ann"].add_out_of_order(message, 1.0)
    world.run(60)
    assert world.want_message("ben", message.id) == message
    assert world.gateways["g2"].application.next_deadline() is None


def test_what_is_not_wanted_any_more_is_not_fetched() -> None:
    world = World()
    world.run(1)
    ids = [message_ref(bytes([number]) * 32) for number in range(250)]
    for id_ in ids:
        world.want_message("ben", id_)
    world.run(2)
    side = world.gateways["g2"].application
    for name in ("ben", "g2"):
        loose = world.peers[name].services.loose
        assert loose is not None
        assert [*loose.wanted] == ids[-100:], "the oldest give way"
    assert {*ids[-100:]} <= {*side._messages}
    assert len(side._messages) <= 216


def test_there_is_a_bound_to_what_peers_may_want(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interests, "_FOLLOWS", 3)
    world = World()
    authors = [Identity.from_seed(bytes([number]) * 32).ref for number in range(5)]
    for author in authors:
        world.change(partial(world.peers["ben"].want, author))
    world.run(2)
    assert len(world.gateways["g2"].application.follows) == 3
    assert world.gateways["g2"].counters["too many follows"] >= 2
    assert len(world.peers["g2"].replication.wanted) == 1 + 1 + 3


def test_a_feed_that_comes_home_is_not_followed_any_more() -> None:
    world = World()
    world.change(lambda now: world.peers["ben"].want(world.identities["ann"].ref, now))
    world.write("ann", text="one")
    world.run(2)
    side = world.gateways["g2"].application
    assert side.follows == [world.identities["ann"].ref]
    side.add_home(world.identities["ann"].ref, world.network.now)
    world.write("ben", text="something happens at the gateway")
    world.run(1)
    assert side.follows == []


def test_a_backlog_of_follows_counts_by_its_end() -> None:
    world = World()
    ann = world.identities["ann"].ref
    world.change(lambda now: world.peers["ben"].want(ann, now))
    for following in (True, False, True, False):
        follow(world, following)
    world.run(2)
    assert world.tip("g2", "ben") == 4
    assert world.gateways["g2"].application.follows == []
    follow(world)
    world.run(1)
    assert world.gateways["g2"].application.follows == [ann]


def test_who_leaves_a_friend_of_friends_still_gets_its_feed() -> None:
    """Ben follows Dan, who follows Ann. So Ben replicates Ann whether he follows her himself or not."""
    world = World()
    ann, dan = world.identities["ann"], Identity.from_seed(bytes(32))
    content = {"type": "contact", "contact": ann.ref, "following": True}
    world.feeds["ben"].append([Message.create(dan, None, content, 1.0)], 1.0)
    world.change(lambda now: world.peers["ben"].want_all([ann.ref, dan.ref], now))
    world.change(lambda now: world.peers["g2"].want(dan.ref, now))
    world.write("ben", type="contact", contact=dan.ref, following=True)
    follow(world)
    world.run(2)
    assert ann.ref in world.gateways["g2"].application.follows
    follow(world, False)
    world.run(2)
    assert ann.ref in world.gateways["g2"].application.follows
    world.write("ben", type="contact", contact=dan.ref, following=False)
    world.run(2)
    assert world.gateways["g2"].application.follows == []


def test_who_follows_again_gets_what_has_come_for_others_meanwhile() -> None:
    """The gateway goes on replicating the feed for another peer. Who follows again tells nothing by EBT."""
    world = World()
    ann = world.identities["ann"].ref
    follow(world)
    world.change(lambda now: world.peers["ben"].want(ann, now))
    accepts = world.gateways["g2"].application._interests.accepts
    world.change(lambda now: accepts(world.identities["g1"].ref, ann))
    world.write("ann", text="one")
    world.run(2)
    assert world.tip("ben", "ann") == 1
    follow(world, False)
    world.run(1)
    world.write("ann", text="two")
    world.run(1)
    assert (world.tip("g2", "ann"), world.tip("ben", "ann")) == (2, 1)
    follow(world)
    world.run(1)
    assert world.tip("ben", "ann") == 2


def test_a_user_does_not_unwant_what_a_peer_at_home_wants() -> None:
    world = World()
    ann = world.identities["ann"].ref
    world.change(lambda now: world.peers["ben"].want(ann, now))
    world.run(1)
    world.change(lambda now: world.peers["g2"].unwant(ann, now))
    world.write("ann", text="one")
    world.run(2)
    assert world.tip("ben", "ann") == 1


def test_what_the_gateways_own_user_reaches_is_subscribed_to() -> None:
    world = World()
    ann, own = world.identities["ann"].ref, world.identities["g2"].ref
    world.write("ann", text="one")
    world.change(lambda now: world.gateways["g2"].application.add_home(own, now))
    message = world.feeds["g2"].publish(
        world.identities["g2"], {"type": "contact", "contact": ann, "following": True}, 1e12
    )
    stored = PeerEvent(0, "stored", message=message)
    world.change(lambda now: world.gateways["g2"].application.process_events([stored], now))
    world.run(2)
    assert world.gateways["g2"].application.follows == [ann]
    assert world.tip("g2", "ann") == 1


def test_a_home_ends_when_its_peer_has_moved_to_another_gateway() -> None:
    """Ann was at home at Ben's gateway before."""
    world = World()
    ann = world.identities["ann"].ref
    side = world.gateways["g2"].application
    world.change(lambda now: side._interests.on_connected(ann, now))
    world.change(lambda now: world.peers["ben"].want(ann, now))
    world.write("ann", text="one")
    world.run(5)
    assert (world.tip("g1", "ann"), world.tip("ben", "ann")) == (1, 0)
    assert ann in side.homes
    world.change(lambda now: side.process_events([PeerEvent(now, "closed", ann)], now))
    world.run(590)
    assert ann in side.homes, "it may come back"
    world.run(15)
    assert ann not in side.homes
    assert world.tip("ben", "ann") == 1


def test_wishes_of_a_peer_that_stays_away_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interests, "_ABSENCE", 60 * SECOND)
    world = World()
    ann, ben = world.identities["ann"].ref, world.identities["ben"].ref
    world.change(lambda now: world.peers["ben"].want(ann, now))
    world.run(2)
    side = world.gateways["g2"].application
    assert side.follows == [ann]
    world.change(lambda now: side.process_events([PeerEvent(now, "closed", ben)], now))
    world.run(61)
    assert side.follows == []
    assert ann not in world.peers["g2"].replication.wanted
    assert ben in side.homes, "nobody else wants it, and it is still served"
    assert not side._interests._wishes_of


def test_an_absent_peer_makes_room_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interests, "_HOMES", 2)
    world = World()
    world.run(1)
    side = world.gateways["g2"].application
    others = [Identity.from_seed(bytes([number]) * 32).ref for number in range(3)]
    world.change(
        lambda now: side.process_events([PeerEvent(now, "connected", other) for other in others[:2]], now)
    )
    assert side.homes == [world.identities["ben"].ref, others[0]]
    assert world.gateways["g2"].counters == {"too many homes": 1}
    world.change(lambda now: side.process_events([PeerEvent(now, "closed", others[0])], now))
    world.change(lambda now: side.process_events([PeerEvent(now, "connected", others[2])], now))
    assert side.homes == [world.identities["ben"].ref, others[2]]


def test_one_peer_cannot_use_up_all_wishes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interests, "_WISHES", 2)
    world = World()
    feeds = [Identity.from_seed(bytes([number]) * 32).ref for number in range(5)]
    world.change(lambda now: world.peers["ben"].want_all(feeds[:4], now))
    world.run(2)
    side = world.gateways["g2"].application
    assert len(side.follows) == 2
    assert side._interests.accepts(world.identities["ann"].ref, feeds[4])


def test_what_could_not_be_stored_comes_again() -> None:
    world = World()
    ann = world.identities["ann"].ref
    world.change(lambda now: world.peers["ben"].want(ann, now))
    world.run(1)
    store = world.feeds["g2"]
    append = store.append

    def fail(messages: Any, received: float) -> Any:
        raise StoreError("the disk is full")

    store.append = fail  # type: ignore[method-assign]
    world.write("ann", text="one")
    world.run(1)
    store.append = append  # type: ignore[method-assign]
    side = world.gateways["g2"]
    assert side.counters == {"not stored: the disk is full": 1}
    assert side.application.follows == []
    world.run(11)
    assert side.application.follows == [ann]
    assert world.tip("ben", "ann") == 1


def test_many_wishes_write_each_clock_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = ClockDirectory(tmp_path)
    feeds = [Identity.from_seed(bytes([number]) * 32).ref for number in range(50)]
    for peer in feeds[:5]:
        clocks.set_remote_clock(peer, dict.fromkeys(feeds, -1))
    written = []
    write = ClockDirectory._write
    monkeypatch.setattr(ClockDirectory, "_write", lambda *args: (written.append(args[1]), write(*args)))
    Ebt(MemoryFeeds(), clocks).want_all(feeds, 0)
    assert len(written) == 5
    assert all(clocks.remote_clock(peer) == {} for peer in feeds[:5])


@pytest.mark.parametrize("number", [0, 2, (1 << 63) + 1, (1 << 64) - 1])
def test_an_interest_for_an_item_that_cannot_be_does_no_harm(number: int, tmp_path: Path) -> None:
    """A store on disk knows no such number. What is published later still goes out."""
    world = World()
    store = SqliteFeeds(tmp_path / "feeds.sqlite")
    side = world.gateways["g1"].application
    side._feeds = store
    ann = world.identities["ann"]
    side.add_home(ann.ref, 0)
    name = item_name(log_name(ann.ref), number)
    for credit in (None, 4):
        side.receive(make_interest(name, nonce=1, lifetime_ms=1000, send_credit=credit), 0)
        assert [packet for packet in side.take_outputs() if open_data(packet)] == []
    message = store.publish(ann, {"type": "post", "text": "one"}, 1.0)
    side.process_events([PeerEvent(1, "stored", ann.ref, message=message)], 1)
    store.close()


@pytest.mark.parametrize("of_another", [False, True])
def test_an_item_that_is_no_message_of_its_feed_ends_the_subscription(of_another: bool) -> None:
    """What came before it is kept: 3 of 3 messages."""
    world = World()
    ann = world.identities["ann"]
    first = world.write("ann", text="one")
    follow(world)
    world.change(lambda now: world.peers["ben"].want(ann.ref, now))
    world.run(2)
    assert world.tip("ben", "ann") == 1
    side = world.gateways["g2"].application
    stranger = Identity.from_seed(bytes(32))
    text = Message.create(stranger, None, {"type": "post"}, 1).encoded if of_another else b"hello"
    second = Message.create(ann, first, {"type": "post"}, 1)
    third = Message.create(ann, second, {"type": "post"}, 1)
    taken = [[SimpleNamespace(message=each) for each in (second.encoded, third.encoded, text)]]
    side._followed.take_items = lambda name, now: side._followed.offering.clear() or taken.pop()  # type: ignore
    side._followed.offering[log_name(ann.ref)] = None
    side._take_items(world.network.now)
    assert side.follows == []
    assert world.gateways["g2"].counters["a feed with something else than its messages"] == 1
    assert world.gateways["g2"].application._peer.replication.set_aside[ann.ref].remote == "NDN"
    assert stranger.ref not in world.feeds["g2"].tips()
    assert world.tip("g2", "ann") == 3
