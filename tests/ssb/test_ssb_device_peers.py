"""A stock peer as a device of our identity: it carries messages, opens the key, and proves that it has it."""

from contextlib import ExitStack
from pathlib import Path

from stock_peer import OurPeer, StockPeer, node_modules, until

from ssb.applications.fusion import FUSION


def test_a_stock_peer_is_a_device_and_carries_another(tmp_path: Path) -> None:
    """It knows no fusions: what the specification says is done by hand here, signed by ssb-keys, sealed by
    ssb-box2, and named by ssb-uri2. A second peer of ours learns all of it from the stock peer alone."""
    node_modules("ssb/tribes")
    with ExitStack() as peers:
        stock = peers.enter_context(StockPeer(tmp_path / "stock", packages="ssb/tribes"))
        ours = peers.enter_context(OurPeer(tmp_path / "ours"))
        friend = peers.enter_context(OurPeer(tmp_path / "friend"))
        stock.do("request", feeds=[ours.id, friend.id])
        root = ours.do("devices", "invite", arguments=[stock.id])
        for peer in (ours, friend):
            peer.follow(ours.id if peer is friend else stock.id)
            peer.do("connect", arguments=[stock.address])
        until(lambda: stock.do("heads").get(ours.id) == ours.do("status")["own"])
        (fusion,) = ours.do("devices", "list", arguments=[""])["fusions"]
        begun = stock.do("content", message=root)
        assert begun["id"] == fusion["id"]
        feed = "@" + fusion["id"].removeprefix("ssb:identity/fusion/").translate(str.maketrans("-_", "+/"))
        assert stock.do("fusion", feed=f"{feed}.ed25519") == fusion["id"]
        invite = next(
            entry["key"]
            for entry in ours.stream("createLogStream", type=FUSION)
            if "invited" in entry["value"]["content"]
        )

        def said(kind: str, previous: str) -> dict[str, object]:
            place = {"root": root, "previous": [previous]}
            return {"type": FUSION, "subtype": f"fusion/{kind}", "tangles": {FUSION: place}}

        content = said("consent", invite) | {"consented": {stock.id: 1}}
        consent = stock.do("publish", content=content)

        def key() -> str | None:
            """The key that ours has handed to the stock peer, as that one opens it."""
            for entry in ours.stream("createLogStream", id=ours.id):
                opened = stock.do("content", message=entry["key"])
                if not isinstance(opened, str) and opened.get("consentId") == consent:
                    assert opened["rootId"] == root
                    return str(opened["secretKey"])
            return None

        until(lambda: stock.do("heads").get(ours.id) == ours.do("status")["own"] and key() is not None)
        proof = stock.do("sign", secret=f"{key()}.ed25519", text=f"{consent}fusion/proof-of-key")
        content = {"members": {stock.id: 1}, "consentId": consent, "proofOfKey": proof}
        stock.do("publish", content=said("proof-of-key", consent) | content)
        together = sorted([ours.id, stock.id])

        def shows(peer: OurPeer) -> bool:
            return sorted(peer.do("devices", "list", arguments=[stock.id])["devices"]) == together

        until(lambda: shows(ours) and shows(friend))
