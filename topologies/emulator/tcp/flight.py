"""Unacknowledged pieces of data, in the order of sequence numbers.

Sequence numbers here are not taken modulo 2^32: the connection unwraps them. A piece counts in the *pipe*
while it may be in flight: not between being marked lost and being sent again. Lost pieces are contiguous: the
first one after duplicates, or all after a time-out.
"""


class Piece:
    """The data of one segment: sequence numbers `start` to `end`, exclusive.

    sent_at: time of the last transmission, ns. is_repeated: whether it was retransmitted.
    """

    __slots__ = ("end", "is_repeated", "sent_at", "start")

    def __init__(self, start: int, end: int, now: int) -> None:
        self.start = start
        self.end = end
        self.sent_at = now
        self.is_repeated = False


class Flight:
    """The pieces in flight.

    pipe: sequence numbers that may be in flight now.
    """

    def __init__(self) -> None:
        self.pipe = 0
        self._pieces: list[Piece] = []
        self._lost_from = self._lost_until = 0  # places in it

    def __len__(self) -> int:
        return len(self._pieces)

    def add(self, start: int, end: int, now: int) -> Piece:
        """Add a piece on its first transmission."""
        piece = Piece(start, end, now)
        self._pieces.append(piece)
        self.pipe += end - start
        return piece

    def acknowledged(self, until: int) -> int | None:
        """Remove all pieces before `until`.

        Returns the time (ns) when the first of them was sent, as a sample of the round trip, if none was
        retransmitted (Karn's algorithm, RFC 6298, section 3). Pieces that waited at the receiver for a
        missing one are acknowledged with it, and give no sample.
        """
        pieces = self._pieces
        first: int | None = None
        is_ambiguous = False
        gone = 0
        for place, piece in enumerate(pieces):
            count = min(piece.end, until) - piece.start
            if count <= 0:
                break
            if not self._lost_from <= place < self._lost_until:
                self.pipe -= count
            if piece.end > until:
                piece.start = until
                break
            gone += 1
            is_ambiguous |= piece.is_repeated
            if first is None:
                first = piece.sent_at
        del pieces[:gone]
        self._lost_from = max(self._lost_from - gone, 0)
        self._lost_until = max(self._lost_until - gone, 0)
        return None if is_ambiguous else first

    def mark_first_lost(self) -> None:
        """Mark the first piece lost."""
        self._mark_lost(1)

    def mark_all_lost(self) -> None:
        """Mark all pieces lost."""
        self._mark_lost(len(self._pieces))

    def _mark_lost(self, count: int) -> None:
        for place in range(count):
            if not self._lost_from <= place < self._lost_until:
                piece = self._pieces[place]
                self.pipe -= piece.end - piece.start
        self._lost_from = 0
        self._lost_until = max(self._lost_until, count)

    def first_lost(self) -> Piece | None:
        """Return the first piece to be retransmitted."""
        return self._pieces[self._lost_from] if self._lost_from < self._lost_until else None

    def repeat(self, now: int) -> None:
        """Record the retransmission of the piece of first_lost()."""
        piece = self._pieces[self._lost_from]
        self._lost_from += 1
        piece.is_repeated = True
        piece.sent_at = now
        self.pipe += piece.end - piece.start
