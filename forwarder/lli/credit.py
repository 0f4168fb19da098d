"""Credit policies of consumers.

A policy names the last item to be asked for. It moves in steps, at multiples of the step: ranges are
absolute, so the grants of independent subscribers to a feed end at the same items, and a forwarder can join
them into one LLI a step, whatever their number. A new step is granted while half of the last one is
left, to cover the round trip. So a subscriber has room for one and a half steps.
"""

from typing import Protocol


class CreditPolicy(Protocol):
    """Interface of a credit policy."""

    def is_due(self, taken: int, asked: int) -> bool:
        """Return whether an application that has taken `taken` items has room for another grant."""
        ...

    def limit(self, taken: int, arrived: int, asked: int, now: int) -> int:
        """Return the last item to be asked for.

        Args:
            taken: the last item that the application has taken.
            arrived: the last item that has arrived in order.
            asked: the last item asked for so far.
            now: ns.
        """
        ...


def _step_end(taken: int, step: int) -> int:
    """Return the last item of the step to be granted to an application that has taken so much."""
    reach = taken + step // 2
    return (reach // step + 1) * step


class FixedCredit:
    """The CreditPolicy whose step is always the same.

    Args:
        credit: the step, items, at least 1. With 1 this is NDN's pull: one item at a time.
    """

    def __init__(self, credit: int) -> None:
        if credit < 1:
            raise ValueError(f"credit {credit}: a subscription needs a credit of at least 1")
        self.credit = credit

    def is_due(self, taken: int, asked: int) -> bool:
        return _step_end(taken, self.credit) > asked

    def limit(self, taken: int, arrived: int, asked: int, now: int) -> int:
        return max(asked, _step_end(taken, self.credit))


class AdaptiveCredit:
    """The CreditPolicy of a step that covers the bandwidth-delay product and follows the application's pace.

    As QUIC implementations tune their flow-control windows: a step that is used up within two round trips is
    too short and doubles; one that the application leaves half untaken is too long and halves. The
    round trip is the shortest time seen from a grant to the first item that it allowed.

    Args:
        smallest, largest: bounds of the step, items, powers of 2 so that steps keep coinciding.
    """

    def __init__(self, smallest: int = 64, largest: int = 1024) -> None:
        for bound in (smallest, largest):
            if bound < 1 or bound & (bound - 1):
                raise ValueError(f"credit {bound}: a bound of adaptive credit is a power of 2")
        if smallest > largest:
            raise ValueError(f"adaptive credit from {smallest} to {largest}: nothing lies between")
        self.credit = smallest
        self._smallest = smallest
        self._largest = largest
        self._granted: tuple[int, int] | None = None  # first item of the newest grant, and when it was made
        self._round_trip: int | None = None

    def is_due(self, taken: int, asked: int) -> bool:
        return asked <= taken + self.credit // 2

    def limit(self, taken: int, arrived: int, asked: int, now: int) -> int:
        if self._granted is not None and arrived >= self._granted[0]:
            took = now - self._granted[1]
            self._round_trip = took if self._round_trip is None else min(took, self._round_trip)
        if not self.is_due(taken, asked):
            return asked
        if self._granted is not None:
            self._adapt(now - self._granted[1], arrived - taken)
        self._granted = (asked + 1, now)
        return max(asked, _step_end(taken, self.credit))

    def _adapt(self, since: int, untaken: int) -> None:
        if untaken > self.credit // 2:
            self.credit = max(self.credit // 2, self._smallest)
        elif self._round_trip is not None and since < 2 * self._round_trip:
            self.credit = min(self.credit * 2, self._largest)
