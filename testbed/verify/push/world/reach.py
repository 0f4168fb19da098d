"""Which subscribers must catch up, given links, routes and legacy forwarders."""

from collections.abc import Container

from testbed.verify.push.world.network import Network


class Reach:
    """Reach of Interests in a network."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._story = story = network.story
        self._late: str | None = None
        self._reached: dict[tuple[str, int], set[str]] = {}
        self.has_quotas = any(node.cache_feeds < len(story.feeds) for node in story.nodes)
        self._has_legacy = not all(node.push for node in story.nodes)

    def late(self) -> list[tuple[str, str]]:
        """Return the incomplete readers, and their progress."""
        readers = self._network.readers
        return [(name, readers[name][1].delivery.progress) for name in readers if self._is_late(name)]

    def is_anyone_late(self) -> bool:
        """Return whether a reader is incomplete; the previous one is checked first."""
        if self._late is not None and self._is_late(self._late):
            return True
        self._late = next((name for name in self._network.readers if self._is_late(name)), None)
        return self._late is not None

    def _is_late(self, name: str) -> bool:
        """Return whether a reader is incomplete that can be complete."""
        node, reader = self._network.readers[name]
        index = reader.wanted.feed
        published = min(device.published for device in self._network.publishers[index])
        if not reader.subscribed or reader.delivery.is_done(published):
            return False
        if self.has_quotas and reader.last_error is not None and self._is_anyone_full():
            return False
        if self._has_legacy and self._story.feeds[index].fork is not None:
            return False  # a proof does not cross a forwarder without a request for it
        if self._reached_from(node, index).isdisjoint(self._story.feeds[index].devices):
            return False
        return not self.is_shut_out(name, unheard=True)

    def _is_anyone_full(self) -> bool:
        """Return whether some node has no room for another feed now."""
        tables = {name: place.host.forwarder.feeds for name, place in self._network.places.items()}
        return any(
            table is not None and len(table) >= self._network.specs[name].cache_feeds
            for name, table in tables.items()
        )

    def find_all(self) -> None:
        """Compute the reach of all subscribers: from now on all is well, and stays so."""
        for node, reader in self._network.readers.values():
            self._reached_from(node, reader.wanted.feed)

    def _reached_from(self, node: str, feed: int) -> set[str]:
        """Return the nodes reached by a node's Interests for a feed, since all is well."""
        reached = self._reached.get((node, feed))
        if reached is None:
            reached = self._reached[node, feed] = self.nodes(node, feed)
        return reached

    def is_shut_out(self, name: str, *, unheard: bool = False) -> bool:
        """Return whether each path from a subscriber to its feed passes a forwarder without room for it.

        `unheard`: and whether a legacy forwarder precedes those.

        Such a forwarder refuses, but the Nack may not get through. Of two Interests with one name, a legacy
        forwarder may send both to one next hop, which takes the second for a repetition of the first, and
        refuses only that. And around an unsignalled dead link, nodes ask each other for long.
        """
        network = self._network
        if not self.has_quotas or name not in network.readers:
            return False
        node, reader = network.readers[name]
        index = reader.wanted.feed
        full = {
            place.name
            for place in network.places.values()
            if (feeds := place.host.forwarder.feeds) is not None
            and len(feeds) >= feeds.store.max_feeds
            and feeds.store.find(network.names[index]) is None
        }
        reached = self.nodes(node, index, full)
        if unheard and all(network.specs[place].push for place in reached):
            return False
        return reached.isdisjoint(self._story.feeds[index].devices)

    def nodes(self, node: str, feed: int | None = None, full: Container[str] = ()) -> set[str]:
        """Return the nodes connected with a node, or reached by its Interests for a feed.

        Interests end at `full` nodes.
        """
        ways = [(node, "")] * (node not in full)
        known = set(ways)
        for place, before in ways:  # grows as it goes
            onward = [peer for peer in self._onward(place, before, feed) if peer not in full]
            new = [(peer, place) for peer in onward if (peer, place) not in known]
            known.update(new)
            ways += new
        return {place for place, _ in ways}

    def _onward(self, place: str, before: str, feed: int | None) -> list[str]:
        """Return the next hops of an Interest for a feed that arrived from `before`.

        It never returns there. A legacy forwarder tries others than its cheapest hop only while that one is
        silent. Refused, it restarts with the cheapest, for ever: where that leads back or has no alternative,
        classic NDN finds none, either.
        """
        network = self._network
        cables = network.cables_at[place]
        if feed is None or network.specs[place].push:
            return [peer for peer, cable in cables.items() if cable.up and peer != before]
        faces = network.places[place].faces
        ways = sorted(network.routes[place][feed], key=lambda way: (way[1], faces[way[0]]))  # as in the FIB
        hops = [peer for peer, _ in ways if peer != before]
        known = [peer for peer in hops if cables[peer].up or not cables[peer].signalled]
        up = [peer for peer in known if cables[peer].up]
        return up[:1] if up[:1] == known[:1] else up
