"""Shares of a node's PIT: entries are independent, so several tasks may follow one node.

Every task reads all packets of the node and keeps those of its share. Names are numbered by their checksums,
which are equal in all processes.
"""

from typing import NamedTuple
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analysis.pit.matching import DIGEST
from analysis.pit.model import FORK
from analysis.pit.windows.window import encoded, numbers
from captures.formats.records import Flags

_DIGEST = DIGEST.encode()


class Share(NamedTuple):
    """One of `of` shares of a node's entries. `has_prefixes`: Interests with CanBePrefix are possible, so
    that Data of any name may concern any share."""

    number: int = 0
    of: int = 1
    has_prefixes: bool = True

    def kept(self, packets: pa.Table) -> pa.Table:
        """Return the rows that concern this share.

        An Interest and its Nack concern the entry of their name, but that of their feed if it is an item's:
        an item that answers one was not pushed. An LLI and its Nack concern their feed's. Data concern the
        entry of their name without an implicit digest, and that of their feed. Proofs of forks are kept. A
        FeedState concerns its feed, a Hello any.
        """
        if self.of == 1:
            return packets
        kind, name, feed = (encoded(packets[column]) for column in ("kind", "name", "feed"))
        is_data = np.append(pc.equal(kind.dictionary, "data").to_numpy(zero_copy_only=False), False)
        data = is_data[numbers(kind)]
        of_feed = self._has(feed, np.ones(len(feed), bool))
        of_name = self._has(name, ~(data & self.has_prefixes))
        if self.has_prefixes:
            keeps = data | of_name
        else:
            proof = pc.match_substring(name.dictionary, FORK).to_numpy(zero_copy_only=False)
            keeps = of_name | (data & (of_feed | np.append(proof, False)[numbers(name)]))
        of_link = packets["hello"].is_valid().to_numpy()
        is_state = np.append(pc.equal(kind.dictionary, "idle").to_numpy(zero_copy_only=False), False)
        about_feed = is_state[numbers(kind)] | (~data & (numbers(feed) >= 0))
        return packets.filter(pa.array(of_link | np.where(about_feed, of_feed, keeps)))

    def _has(self, texts: pa.DictionaryArray, selected: Flags) -> Flags:
        """Return which of the selected rows have a text of this share."""
        codes = numbers(texts)
        used = np.zeros(len(texts.dictionary) + 1, bool)
        used[codes[selected]] = True
        used[-1] = False
        names = texts.dictionary.filter(pa.array(used[:-1])).cast(pa.binary()).to_pylist()
        used[used] = [crc32(name.partition(_DIGEST)[0]) % self.of == self.number for name in names]
        found: Flags = used[codes] & selected
        return found
