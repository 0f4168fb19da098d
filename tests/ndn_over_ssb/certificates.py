"""A certificate authority and signed Data for tests, made by python-ndn."""

from datetime import datetime

from Cryptodome.PublicKey import ECC
from ndn.app_support.security_v2 import new_cert
from ndn.encoding import Component, FormalName, MetaInfo, Name, make_data, parse_data
from ndn.security.signer import Sha256WithEcdsaSigner

SCHEMA = """
#KEY: "KEY"/_/_/_
#root: "net"/#KEY
#site: "net"/site/#KEY <= #root
#item: "net"/site/_ <= #site
#object: "net"/site/_/_ <= #site
"""


class Authority:
    """A key and its certificate; signs Data, and the certificates of others."""

    def __init__(
        self, uri: str, issuer: "Authority | None" = None, until: str = "2100-01-01T00:00:00"
    ) -> None:
        key = ECC.generate(curve="P-256")
        name = [*Name.from_str(uri), Component.from_str("KEY"), Component.from_bytes(bytes(8))]
        public = key.public_key().export_key(format="DER")
        self._secret = key.export_key(format="DER")
        signer = (
            issuer.signer()
            if issuer is not None
            else Sha256WithEcdsaSigner([*name, Component.from_str("self")], self._secret)
        )
        _, wire = new_cert(
            name,
            Component.from_str("self" if issuer is None else "net"),
            public,
            signer,
            datetime.fromisoformat("1970-01-01T00:00:00"),
            datetime.fromisoformat(until),
        )
        self.certificate = bytes(wire)
        self.name: FormalName = parse_data(self.certificate)[0]

    @property
    def uri(self) -> str:
        """The certificate's name."""
        return str(Name.to_str(self.name))

    def signer(self) -> Sha256WithEcdsaSigner:
        """Return what signs with the key."""
        return Sha256WithEcdsaSigner(self.name, self._secret)

    def sign(self, uri: str, content: bytes = b"content", freshness_ms: int = 10_000) -> bytes:
        """Return a signed Data packet."""
        meta = MetaInfo(freshness_period=freshness_ms)
        return bytes(make_data(Name.from_str(uri), meta, content, self.signer()))
