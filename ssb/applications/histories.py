"""A reader's view of an application over time: how a late message changes its past.

A view has a past: what it showed after each message. A chat shows the order of posts. A liked message, a
gathering and a game of chess each have a *history*: the state after each of their messages, in the order in
which they were written. A message that comes late gets its place in the history, and may change the state
after each later one (Tarr et al., "Secure Scuttlebutt", ACM ICN 2019, section 3.3, figure 4). States are
computed by the applications' own code: those of the history in the order of writing, the present one in the
order of arrival, as a reader's program does.
"""

import json
from bisect import bisect
from collections.abc import Callable, Iterable
from hashlib import sha256
from itertools import pairwise
from typing import Any, Final, NamedTuple, Protocol

from ssb.applications.catalogue import APPLICATIONS, Application
from ssb.applications.chess import game_of, turn
from ssb.applications.gatherings import stamp, subject_of
from ssb.applications.tangles import Tangle
from ssb.applications.votes import voted
from ssb.message import Message


class Change(NamedTuple):
    """What a message changed of the past of a view.

    Attributes:
        corrected: messages here before that stand behind the new one in a thread, or that had changed the
            state, which now is another one behind them; in their order.
        reordered: messages that changed their order besides; None if an application never does that.
    """

    corrected: list[str]
    reordered: int | None


class View(Protocol):
    """A reader's view of an application, as far as messages have come."""

    def add(self, message: Message) -> Change | None:
        """Add a message; None if it is here, or does not concern the application."""

    def digest(self) -> str:
        """Return a digest of the view now; "" if it is empty."""


def view(name: str, messages: Iterable[Message]) -> View:
    """Return an empty view of an application by its name in the catalogue.

    Of threads the view shows one: that of the first root that any of `messages` names.
    """
    if name == "threads":
        roots = (each.content.get("root") for each in messages if isinstance(each.content, dict))
        return ThreadView(next(filter(None, roots), ""))
    return StateView(name)


class ThreadView:
    """The view of one thread; see View.

    Args:
        root: reference of the thread's first post.
    """

    def __init__(self, root: str) -> None:
        self._tangle = Tangle(root)

    def add(self, message: Message) -> Change | None:
        insertion = self._tangle.add(message)
        if insertion is None:
            return None
        behind = self._tangle.order[insertion.place + 1 :]
        return Change([each.id for each in behind], insertion.reordered)

    def digest(self) -> str:
        order = "\n".join(each.id for each in self._tangle.order)
        return sha256(order.encode()).hexdigest() if order else ""


class _Subjects(NamedTuple):
    """Which subject a message concerns, None without one; and its place among the subject's messages."""

    of: Callable[[Message], str | None]
    order: Callable[[Message], Any]


_SUBJECTS: Final = {
    "likes": _Subjects(voted, stamp),
    "gatherings": _Subjects(subject_of, stamp),
    "chess": _Subjects(game_of, turn),
}


class StateView:
    """The view of all subjects of an application that has a state for each; see View.

    Args:
        name: the application's, in the catalogue.
    """

    def __init__(self, name: str) -> None:
        self._application = APPLICATIONS[name]
        self._subjects = _SUBJECTS[name]
        self._histories: dict[str, History] = {}
        self._digest = 0

    def add(self, message: Message) -> Change | None:
        subject = self._subjects.of(message)
        if subject is None:
            return None
        if subject not in self._histories:
            self._histories[subject] = History(self._application, self._subjects.order)
        history = self._histories[subject]
        before = history.now
        corrected = history.add(message)
        if corrected is None:
            return None
        for state in {before, history.now} - {_NOTHING} if before != history.now else ():
            self._digest ^= int.from_bytes(sha256(f"{subject} {state}".encode()).digest())
        return Change(corrected, None)

    def digest(self) -> str:
        return f"{self._digest:064x}" if self._digest else ""


_NOTHING: Final = "[]"


class History:
    """What an application shows of one subject after each of its messages.

    Args:
        application: makes the states.
        order: a message's place among those of the subject.

    Attributes:
        now: the rows after all messages, as JSON.
    """

    def __init__(self, application: Application, order: Callable[[Message], Any]) -> None:
        self.now = _NOTHING
        self._application = application
        self._order = order
        self._messages: list[Message] = []
        self._shown: list[str] = []
        self._state = application.state()  # after all messages, in the order of writing
        self._arrived = application.state()

    def add(self, message: Message) -> list[str] | None:
        """Add a message; return the later ones whose effect is another one now; None if it is here.

        States before the new message stay. A message behind all others is added to the state that is there.
        """
        place = bisect(self._messages, self._order(message), key=self._order)
        if place and self._messages[place - 1].id == message.id:
            return None
        self._arrived.add(message)
        self.now = json.dumps(self._application.rows(self._arrived))
        before = self._shown[place:]
        behind = [self._shown[place - 1] if place else _NOTHING, *before]
        self._messages.insert(place, message)
        if before:
            self._state = self._application.state()
            for each in self._messages[:place]:
                self._state.add(each)
        del self._shown[place:]
        for each in self._messages[place:]:
            self._state.add(each)
            self._shown.append(json.dumps(self._application.rows(self._state)))
        later = zip(self._messages[place + 1 :], pairwise(behind), self._shown[place + 1 :], strict=True)
        return [each.id for each, (former, old), new in later if former != old != new]
