"""Data pass providers if their certificates lead to the anchor."""

from random import Random

import pytest
from certificates import SCHEMA, Authority

from forwarder.wire.lp import make_lp
from forwarder.wire.name import to_uri
from forwarder.wire.packet import make_data, parse_data, parse_interest
from ndn_over_ssb.contract import Terms
from ndn_over_ssb.trust import Trust, TrustError
from testbed.verify.providers.network import Producer, ProviderNetwork

NOW_MS = 1_700_000_000_000.0

ROOT = Authority("/net")
SITE = Authority("/net/a", ROOT)
OTHER_ROOT = Authority("/net")
IMPOSTOR = Authority("/net/a", OTHER_ROOT)
NEIGHBOUR = Authority("/net/b", ROOT)
EXPIRED = Authority("/net/a", ROOT, until="2020-01-01T00:00:00")


def spoilt(wire: bytes) -> bytes:
    """Return a packet with another last byte, which is its signature's."""
    return wire[:-1] + bytes((wire[-1] ^ 1,))


class Checked:
    """A Trust, with an answer for each certificate that it asks for."""

    def __init__(self, *certificates: Authority) -> None:
        self.trust = Trust(SCHEMA, ROOT.certificate, Random(1), NOW_MS)
        self.certificates = {each.uri: each.certificate for each in certificates}
        self.asked: list[str] = []

    def passes(self, wire: bytes, now: int = 0) -> bool | None:
        verdicts: list[bool] = []
        self.trust.check(parse_data(wire), lambda verdict, time: verdicts.append(verdict), now)
        while interests := self.trust.take_outputs():
            for interest in interests:
                uri = to_uri(parse_interest(interest).name)
                self.asked.append(uri)
                if uri in self.certificates:
                    self.trust.receive(self.certificates[uri], now)
        return verdicts[0] if verdicts else None


def test_data_pass_whose_certificates_lead_to_the_anchor() -> None:
    checked = Checked(SITE)
    assert checked.passes(SITE.sign("/net/a/1"))
    assert checked.passes(SITE.sign("/net/a/2"))
    assert checked.passes(SITE.certificate)
    assert checked.passes(ROOT.certificate)
    assert checked.asked == [SITE.uri]  # the key is kept
    assert (checked.trust.accepted, checked.trust.refused) == (4, 0)


@pytest.mark.parametrize(
    "wire",
    [
        pytest.param(IMPOSTOR.sign("/net/a/1"), id="another anchor"),
        pytest.param(OTHER_ROOT.certificate, id="another anchor's certificate"),
        pytest.param(NEIGHBOUR.sign("/net/a/1"), id="a key for other names"),
        pytest.param(EXPIRED.sign("/net/a/1"), id="an expired certificate"),
        pytest.param(ROOT.sign("/net/a/1"), id="a key too high up"),
        pytest.param(SITE.sign("/elsewhere/1"), id="a name outside the schema"),
        pytest.param(spoilt(SITE.sign("/net/a/1")), id="a signature that is none"),
        pytest.param(make_data(parse_data(SITE.sign("/net/a/1")).name, b""), id="a digest only"),
    ],
)
def test_other_data_do_not(wire: bytes) -> None:
    checked = Checked(SITE, IMPOSTOR, NEIGHBOUR, EXPIRED, OTHER_ROOT)
    assert checked.passes(wire) is False
    assert (checked.trust.accepted, checked.trust.refused) == (0, 1)


def test_a_certificate_that_does_not_come_is_given_up() -> None:
    checked = Checked()
    assert checked.passes(SITE.sign("/net/a/1")) is None
    due = checked.trust.next_deadline()
    assert due is not None
    checked.trust.wake(due)
    assert checked.trust.refused == 1
    assert checked.trust.next_deadline() is None


def test_a_certificate_that_is_refused_is_given_up() -> None:
    checked = Checked()
    checked.trust.check(parse_data(SITE.sign("/net/a/1")), lambda verdict, now: None, 0)
    (interest,) = checked.trust.take_outputs()
    checked.trust.receive(make_lp(interest, nack_reason=150), 1)
    assert checked.trust.refused == 1


def test_many_data_wait_for_one_certificate() -> None:
    checked = Checked()
    verdicts: list[bool] = []
    for number in range(50):
        wire = SITE.sign(f"/net/a/{number}")
        checked.trust.check(parse_data(wire), lambda verdict, now: verdicts.append(verdict), 0)
    (_,) = checked.trust.take_outputs()
    checked.trust.receive(SITE.certificate, 1)
    assert verdicts == [True] * 50


@pytest.mark.parametrize(
    ("schema", "anchor"),
    [
        ("#root: ", ROOT.certificate),
        ('#a: "net" <= #b', ROOT.certificate),
        ('#root: "net"\n#a: "net"/_ <= #root | #b\n#b: "net"/_/_ <= #a', ROOT.certificate),
        (SCHEMA, b"\x06\x03abc"),
        (SCHEMA, Authority("/elsewhere").certificate),
        (SCHEMA, SITE.certificate),
    ],
)
def test_a_schema_or_an_anchor_that_cannot_be_used(schema: str, anchor: bytes) -> None:
    with pytest.raises(TrustError, match=r"^schema or anchor: .+$"):
        Trust(schema, anchor, Random(1), NOW_MS)


def test_providers_pass_on_what_they_trust() -> None:
    """Certificates come through the providers themselves, each from the next."""
    packets = {
        "/net/a/good": SITE.sign("/net/a/good"),
        "/net/a/bad": IMPOSTOR.sign("/net/a/bad"),
        SITE.uri: SITE.certificate,
        IMPOSTOR.uri: IMPOSTOR.certificate,
    }
    pairs = [("customer", "nfp1"), ("nfp1", "nfp2"), ("nfp2", "repository"), ("root", "nfp1")]
    world = ProviderNetwork([{"a": a, "b": b} for a, b in pairs], pairs)

    def trust() -> Trust:
        return Trust(SCHEMA, ROOT.certificate, Random(1), NOW_MS)

    world.add("root")
    for name in ("nfp1", "nfp2"):
        world.add(name, offer=Terms(transit=True), trust=trust)
    world.add("repository", producer=Producer(lambda name: packets.get(to_uri(name))))
    world.add("customer")
    world.request("nfp1", "nfp2", Terms(transit=True))
    world.allocate("/net/a", "repository", ("repository",))
    world.run(3)
    world.request("repository", "nfp2")
    world.request("customer", "nfp1")
    world.run(5)
    world.ask("customer", "/net/a/good", "/net/a/bad", lifetime_ms=1000)
    world.run(5)
    assert world.ends("customer", "/net/a/good") == [packets["/net/a/good"]]
    assert world.ends("customer", "/net/a/bad") == ["timeout"]
    assert world.nodes["nfp2"].counters["Data without a chain to the anchor"] >= 1
    assert world.nodes["nfp1"].counters["Data without a chain to the anchor"] == 0
