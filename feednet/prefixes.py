"""Registration of an application's prefixes with its forwarder, over its face.

python-ndn itself signs each command with the clock's millisecond, and NFD refuses the second of two.
"""

from typing import Any, Final

from ndn.encoding import InterestParam, Name
from ndn.transport.nfd_registerer import NfdRegister
from ndn.types import InterestCanceled, InterestNack, InterestTimeout, ValidationFailure, ValidResult

from forwarder.daemon.commands import Signer
from forwarder.management.manager import LOCALHOP, LOCALHOST
from forwarder.management.parameters import ControlParameters, parse_response
from forwarder.wire.name import NAME, from_uri, to_uri
from forwarder.wire.packet import parse_interest
from forwarder.wire.tlv import MalformedPacket, element

_LIFETIME_MS: Final = 10_000


class Prefixes:
    """Registers prefixes of an application with its forwarder, concurrently if needed.

    Args:
        app: an NDNApp of python-ndn (ndn.app or ndn.appv2). A registerer of its own, for a forwarder with
            another management protocol, is used.
    """

    def __init__(self, app: Any) -> None:
        self._app = app
        self._signer = Signer()
        other = getattr(app, "registerer", None)
        self._other = None if other is None or type(other) is NfdRegister else other

    async def register(self, name: bytes) -> bool:
        """Register a prefix; return whether the forwarder accepts."""
        if self._other is not None:
            return bool(await self._other.register(to_uri(name)))
        return await self._command("register", name)

    async def unregister(self, name: bytes) -> bool:
        """Unregister a prefix; return whether the forwarder accepts."""
        if self._other is not None:
            return bool(await self._other.unregister(to_uri(name)))
        return await self._command("unregister", name)

    async def _command(self, verb: str, name: bytes) -> bool:
        wire = self._signer.command(
            from_uri(f"/rib/{verb}"),
            ControlParameters(name=name).encode(),
            prefix=LOCALHOST if self._app.face.isLocalFace() else LOCALHOP,
            lifetime_ms=_LIFETIME_MS,
        )
        asked = Name.from_bytes(element(NAME, parse_interest(wire).name))
        lifetime = InterestParam(lifetime=_LIFETIME_MS)
        try:
            answer = await self._app.express_raw_interest(asked, lifetime, wire, _is_fine)
            content = answer[1] if hasattr(self._app, "registerer") else answer[2]
            return parse_response(bytes(content or b"")).code == 200
        except (InterestCanceled, InterestNack, InterestTimeout, ValidationFailure, MalformedPacket):
            return False


async def _is_fine(*_: Any) -> ValidResult:
    return ValidResult.PASS
