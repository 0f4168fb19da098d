"""Models of what readers see of an application, written from docs/scenarios.md and docs/ssb.md alone.

Messages are values of classic messages by their keys. All is made anew from all messages.
"""

from typing import Any

Shown = dict[str, Any]
"""What is shown after each message, in order: (subject, state). In a thread only the order matters."""


def concerned(kind: str, by_key: dict[str, Any]) -> dict[str, Any]:
    """The messages of an application; of threads those of the first root."""
    if kind == "threads":
        root = next(value["content"]["root"] for value in by_key.values() if "root" in value["content"])
        return {k: v for k, v in by_key.items() if k == root or v["content"].get("root") == root}
    types = {
        "likes": ("vote",),
        "gatherings": ("gathering", "about"),
        "chess": ("chess_invite", "chess_invite_accept", "chess_move", "chess_game_end"),
    }
    return {k: v for k, v in by_key.items() if v["content"]["type"] in types[kind]}


def shown(kind: str, messages: dict[str, Any], keys: list[str]) -> Shown:
    """What is shown after each message."""
    if kind == "threads":
        root = next(value["content"]["root"] for value in messages.values() if "root" in value["content"])
        return dict.fromkeys(causal(messages, keys, root))
    found: Shown = {}
    past: dict[str, dict[str, Any]] = {}
    for key in sorted(keys, key=lambda each: (_turn(messages[each]), _stamp(messages[each]))):
        content = messages[key]["content"]
        subject = content.get("about") or content.get("root") or content.get("vote", {}).get("link") or key
        past.setdefault(subject, {})[key] = messages[key]
        found[key] = subject, _STATES[kind](subject, past[subject])
    return found


def corrected(kind: str, before: Shown, after: Shown, key: str) -> list[str]:
    """The messages behind a new one in a thread, or whose effect is another one with it."""
    if kind == "threads":
        order = [*after]
        return order[order.index(key) + 1 :]
    found, last = [], dict[str, Any]()
    for each, (subject, state) in before.items():
        had_effect = (state or None) != (last.get(subject) or None)
        last[subject] = state
        if had_effect and after[each][1] != state:
            found.append(each)
    return found


def now(kind: str, shown: Shown) -> Any:
    """What is shown in the end; readers with equal ones see the same."""
    if kind == "threads":
        return [*shown]
    last = dict(shown.values())
    return {subject: state for subject, state in last.items() if state}


def _stamp(value: Any) -> Any:
    return value["timestamp"], value["author"], value["sequence"]


def _turn(value: Any) -> int:
    """The place of messages of chess, whatever time they claim; all others have the same."""
    content = value["content"]
    return {"chess_invite": -1, "chess_invite_accept": 0}.get(content["type"], content.get("ply", 0))


def _likes(subject: str, past: dict[str, Any]) -> Any:
    last = {}
    for value in sorted(past.values(), key=lambda each: each["sequence"]):
        last[value["author"]] = value["content"]["vote"]["value"]
    return sum(value > 0 for value in last.values())


def _gathering(subject: str, past: dict[str, Any]) -> Any:
    if subject not in past:
        return None
    state: dict[str, Any] = {"host": past[subject]["author"]}
    for value in past.values():
        content = value["content"]
        if "attendee" in content:
            state[content["attendee"]["link"]] = not content["attendee"].get("remove")
        state |= {name: content[name] for name in ("title", "description", "location") if name in content}
    return {name: value for name, value in state.items() if value is not False}


def _game(subject: str, past: dict[str, Any]) -> Any:
    """A game of well-behaved players."""
    if subject not in past:
        return None
    invited = past[subject]["content"]["inviting"]
    moves = {
        value["content"]["ply"]: value["content"] for value in past.values() if "ply" in value["content"]
    }
    played = 0
    while played + 1 in moves:
        played += 1
    return {
        "accepted": any(value["author"] == invited for value in past.values()),
        "moves": [moves[ply]["pgnMove"] for ply in range(1, played + 1)],
        "waiting": len(moves) - played,
        "end": any("status" in moves[ply] for ply in range(1, played + 1)),
    }


_STATES = {"likes": _likes, "gatherings": _gathering, "chess": _game}


def causal(thread: dict[str, Any], keys: list[str], root: str) -> list[str]:
    """Of the posts whose predecessors are all taken, take the one with the least time, again and again."""
    taken: list[str] = []
    left = set(keys)
    while left:
        free = []
        for key in left:
            value = thread[key]
            named = value["content"].get("branch") or []
            own = [k for k in keys if thread[k]["author"] == value["author"]]
            earlier = {k for k in own if thread[k]["sequence"] < value["sequence"]}
            needed = (earlier | ({*named} if key != root else set())) & {*keys}
            if needed <= {*taken}:
                free.append((key != root, value["timestamp"], value["author"], value["sequence"], key))
        taken.append(min(free)[-1])
        left.remove(taken[-1])
    return taken
