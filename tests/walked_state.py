"""The state of a forwarder, counted by a walk through all that it holds."""

from forwarder.forwarder import Forwarder


def walked(forwarder: Forwarder) -> dict[str, tuple[int, int]]:
    """All state of a forwarder, counted record by record as docs/architecture.md has it."""
    network = {number for number, face in forwarder.faces.items() if not face.is_local}
    pit = []
    for entry in forwarder.pit:
        records = [each for each in (*entry.in_records, *entry.out_records) if each.face in network]
        if records:
            pit.append(len(entry.name) + 16 * len(records))
    routes = [len(prefix) + 8 * len(hops) for prefix, hops in forwarder.fib.items()]
    strategies = [len(prefix) + 4 for prefix, _ in forwarder.strategies.items() if prefix]
    found = {"pit": pit, "routes": routes, "strategies": strategies}
    if forwarder.feeds is not None:
        found["llis"], found["sources"] = [], []
        for feed in forwarder.feeds:
            faces = [face for face, _ in (*feed.ranges.items(), *feed.holders()) if face in network]
            if faces:
                found["llis"].append(len(feed.feed) + 28 * len(faces))
            known = [feed.evidence, *(holder.offered for _, holder in feed.holders())]
            known += [each for granted in feed.ranges for each in (granted.known, granted.told)]
            if any(known):
                proof = feed.evidence.proof if feed.evidence else b""
                found["sources"].append(9 * sum(each is not None for each in known) + len(proof))
        for name, _, memory in forwarder.feeds.remembered():
            size = 9 + len(memory.evidence.proof) if memory.evidence else 0
            found["sources"].append(len(name) + 4 * len(memory.nonces) + size)
    return {kind: (len(sizes), sum(sizes)) for kind, sizes in found.items()}


def granted(forwarder: Forwarder) -> tuple[int, int]:
    """Ranges of faces to the network, and the credit that is left in them."""
    ranges = [
        each.limit - each.next + 1
        for feed in forwarder.feeds or ()
        for face, each in feed.ranges.items()
        if not forwarder.faces[face].is_local
    ]
    return len(ranges), sum(ranges)
