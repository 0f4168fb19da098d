import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssb import keys
from ssb.keys import Identity, InvalidRef

NAMES = [
    (keys.feed_ref, keys.parse_feed, "@", ".ed25519"),
    (keys.message_ref, keys.parse_message, "%", ".sha256"),
    (keys.blob_ref, keys.parse_blob, "&", ".sha256"),
]


@pytest.mark.parametrize(("name", "parse", "sigil", "suffix"), NAMES)
@given(raw=st.binary(min_size=32, max_size=32))
def test_reference_is_sigil_base64_suffix(name, parse, sigil, suffix, raw):
    assert name(raw) == sigil + base64.b64encode(raw).decode() + suffix
    assert parse(name(raw)) == raw


@given(text=st.text() | st.text("AQgw=+/-_ \n.@sha256", max_size=48))
def test_decoding_accepts_one_spelling_only(text):
    try:
        raw = keys.decode_base64(text)
    except InvalidRef:
        return
    assert base64.b64encode(raw).decode() == text


@pytest.mark.parametrize(
    "body",
    [
        "A" * 42 + "B=",  # bits set after the last byte
        "A" * 43,  # padding left out
        "A" * 43 + "==",
        "A" * 20 + "\n" + "A" * 23 + "=",
        "A" * 42 + "-=",  # the alphabet for file names
        "A" * 40 + "=",
        "A" * 44,  # 33 bytes
        "A" * 40,  # 30 bytes
        "",
        "é" * 43 + "=",
    ],
)
def test_reference_with_other_base64_is_refused(body):
    keys.parse_feed("@" + "A" * 43 + "=.ed25519")
    with pytest.raises(InvalidRef):
        keys.parse_feed(f"@{body}.ed25519")


@pytest.mark.parametrize(
    "ref", ["%{}.ed25519", "@{}.sha256", "{}.ed25519", "@{}", "@{}.ed25519 ", " @{}.ed25519", "@{}.ED25519"]
)
def test_reference_to_something_else_is_refused(ref):
    with pytest.raises(InvalidRef):
        keys.parse_feed(ref.format("A" * 43 + "="))


def test_identity_of_rfc_8032():
    # RFC 8032, section 7.1, test 1.
    identity = Identity.from_seed(
        bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    )
    public = bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
    assert identity.public_key == public
    assert identity.ref == keys.feed_ref(public)
    signature = identity.sign(b"")
    assert signature.hex().startswith("e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155")
    assert keys.verify(public, signature, b"")


@given(seed=st.binary(min_size=32, max_size=32))
def test_secret_gives_the_identity_of_its_seed(seed):
    identity = Identity.from_seed(seed)
    secret = base64.b64encode(seed + identity.public_key).decode() + ".ed25519"
    assert Identity.from_secret(secret) == identity


def test_wrong_secret_is_refused():
    identity = Identity.from_seed(bytes(32))
    whole = base64.b64encode(bytes(32) + identity.public_key).decode()
    swapped = base64.b64encode(identity.public_key + bytes(32)).decode()
    for secret in [whole, whole + ".sha256", swapped + ".ed25519", whole[:-4] + ".ed25519", ".ed25519"]:
        with pytest.raises(InvalidRef):
            Identity.from_secret(secret)


def test_secret_is_not_printed():
    identity = Identity.from_secret(
        base64.b64encode(bytes(32) + Identity.from_seed(bytes(32)).public_key).decode() + ".ed25519"
    )
    assert identity.ref in repr(identity)
    assert "_secret_key" not in repr(identity)


@given(data=st.binary(), flip=st.integers(0, 64 * 8 - 1))
def test_only_the_signature_itself_verifies(data, flip):
    identity = Identity.from_seed(bytes(range(32)))
    signature = identity.sign(data)
    assert keys.verify(identity.public_key, signature, data)
    other = (int.from_bytes(signature, "big") ^ 1 << flip).to_bytes(64, "big")
    assert not keys.verify(identity.public_key, other, data)
    assert not keys.verify(identity.public_key, signature, data + b"\0")
    assert not keys.verify(Identity.from_seed(bytes(32)).public_key, signature, data)


def test_wrong_lengths():
    identity = Identity.from_seed(bytes(32))
    signature = identity.sign(b"ab")
    # Moving a byte from the data to the signature leaves what is checked the same.
    assert not keys.verify(identity.public_key, signature + b"a", b"b")
    assert not keys.verify(identity.public_key, signature[:63], b"ab")
    with pytest.raises(ValueError, match="32 bytes, not 31"):
        keys.verify(identity.public_key[:31], signature, b"ab")
    with pytest.raises(ValueError, match="32 bytes, not 33"):
        Identity.from_seed(bytes(33))
    with pytest.raises(ValueError, match="32 bytes, not 5"):
        keys.feed_ref(b"short")
