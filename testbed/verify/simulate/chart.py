"""A played story as a sequence chart in text: a column a node, time downward, ending in what went wrong."""

from collections.abc import Sequence

from testbed.verify.simulate.story import Link, Node, Story
from testbed.verify.simulate.world import Outcome, Row

_MARGIN = 12
_WIDTH = 20
"""Between two columns: room for an arrow with "item 12 tip 14/20" on it."""
_ENDS = 50
"""Rows shown of the beginning and of the end of a long story."""


def draw(story: Story, outcome: Outcome) -> str:
    """Draw a story that was played with `record`."""
    columns = {node.name: _MARGIN + index * _WIDTH for index, node in enumerate(story.nodes)}
    lines = [*_preface(story), "", _heads(story.nodes, columns)]
    last = None
    left_out = len(outcome.rows) - 2 * _ENDS
    for number, row in enumerate(outcome.rows):
        if left_out > 1 and _ENDS <= number < _ENDS + left_out:
            if number == _ENDS:
                lines.append(f"{'':{_MARGIN}}... {left_out} rows ...")
            continue
        lines.append(_line(row, columns, "" if row.time == last else f"{row.time / 1e6:10.3f}"))
        last = row.time
    if outcome.violation is not None:
        lines += ["", f"VIOLATED  {outcome.violation}"]
    return "\n".join(lines) + "\n"


def _preface(story: Story) -> list[str]:
    """Say what the world is made of, as far as it matters."""
    lines = [f"seed {story.seed}, next hops {story.routing}; times in ms"]
    for node in story.nodes:
        traits = [] if node.push else ["without controlled push"]
        traits += [node.recovery] if node.recovery != "in-network" else []
        traits += [f"caches {node.cache_items} items"] if node.cache_items != 256 else []
        traits += [f"caches {node.cache_feeds} feeds"] if node.cache_feeds != 1024 else []
        traits += [f"strategy {node.strategy}"] if node.strategy != "best-route" else []
        traits += [f"stores {node.packets} packets"] if node.packets != Node.packets else []
        traits += [f"holds {node.pending} Interests"] if node.pending != Node.pending else []
        if traits:
            lines.append(f"node {node.name}: {', '.join(traits)}")
    for index, feed in enumerate(story.feeds):
        fork = f", forked at item {feed.fork}" if feed.fork else ""
        lines.append(f"feed {index}: {feed.format}, published at {' and '.join(feed.devices)}{fork}")
    for wanted in story.subscribers:
        pace = f", takes {wanted.batch} every {wanted.pause / 1000:g} ms" if wanted.pause else ""
        terms = f"credit {wanted.credit}, lifetime {wanted.lifetime_ms} ms{pace}"
        mode = f", {wanted.recovery}" if wanted.recovery != "in-network" else ""
        lines.append(f"{wanted.name} at {wanted.node}: feed {wanted.feed}, {terms}{mode}")
    for link in story.links:
        traits = [f"MTU {link.mtu}"] if link.mtu != Link.mtu else []
        traits += ["reliable"] if link.reliable else []
        if traits:
            lines.append(f"link {link.a}-{link.b}: {', '.join(traits)}")
    for prefix in story.prefixes:
        late = f" after {prefix.delay / 1000:g} ms" if prefix.delay else ""
        what = f"{prefix.manner}{late}, {prefix.size} bytes, fresh for {prefix.freshness_ms} ms"
        lines.append(f"prefix {prefix.name} at {' and '.join(prefix.producers)}: {what}")
    for log in story.logs:
        lines.append(f"log {log.name} at {log.node}: {log.layering}, {len(log.times)} items")
    for follow in story.follows:
        slow = f", takes one every {follow.pause / 1000:g} ms" if follow.pause else ""
        lines.append(f"{follow.name} at {follow.node}: log {follow.log}{slow}")
    return lines


def _heads(nodes: Sequence[Node], columns: dict[str, int]) -> str:
    line = [" "] * (max(columns.values(), default=0) + 8)
    for node in nodes:
        _write(line, columns[node.name], node.name)
    return "".join(line).rstrip()


def _line(row: Row, columns: dict[str, int], time: str) -> str:
    line = [" "] * (max(columns.values(), default=0) + 1)
    for at in columns.values():
        line[at] = "|"
    _write(line, 0, time)
    start = columns.get(row.a)
    if start is None:
        _write(line, _MARGIN, f"--- {row.text} ---")
    elif row.b is None:
        _write(line, start, f"* {row.text}")
    else:
        _arrow(line, start, columns[row.b], row)
    return "".join(line).rstrip()


def _arrow(line: list[str], start: int, end: int, row: Row) -> None:
    left, right = min(start, end) + 1, max(start, end) - 1
    line[left : right + 1] = "-" * (right - left + 1)
    head, tip = (right, ">") if end > start else (left, "<")
    line[head] = "x" if row.lost else tip
    label = f" {row.text} "
    if len(label) <= right - left - 1:
        _write(line, left + (right - left + 1 - len(label)) // 2, label)
    else:
        _write(line, len(line) + 2, row.text)


def _write(line: list[str], at: int, text: str) -> None:
    line += [" "] * (at + len(text) - len(line))
    line[at : at + len(text)] = text
