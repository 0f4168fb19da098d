"""SSB URIs: what a library of npm's makes of references is read back, in all forms that it reads."""

import json
import os
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stock_peer import node_modules

from ssb.keys import blob_ref, feed_ref, message_ref
from ssb.uri import plain

HASHES = st.binary(min_size=32, max_size=32)
ADDRESS = "net:10.0.0.1:8008~shs:" + "A+/" * 14 + "A="
SCRIPT = """
const uri = require('ssb-uri2')
const made = JSON.parse(process.argv[1]).map((text) =>
  text[0] === '@' ? uri.fromFeedSigil(text)
  : text[0] === '%' ? uri.fromMessageSigil(text)
  : text[0] === '&' ? uri.fromBlobSigil(text)
  : uri.fromMultiserverAddress(text))
console.log(JSON.stringify(made))
"""


def test_uris_of_a_stock_library_are_read() -> None:
    modules = node_modules()
    hashes = [bytes([number * 8]) * 32 for number in range(32)]
    texts = [ref(each) for each in hashes for ref in (feed_ref, message_ref, blob_ref)] + [ADDRESS]
    environment = os.environ | {"NODE_PATH": str(modules)}
    made = subprocess.run(
        ["node", "-e", SCRIPT, json.dumps(texts)], env=environment, capture_output=True, text=True, check=True
    )
    uris = json.loads(made.stdout)
    assert all(uri.startswith("ssb:") for uri in uris)
    assert [plain(uri) for uri in uris] == texts


@given(
    HASHES, st.sampled_from(["feed", "message", "blob"]), st.sampled_from("/:"), st.booleans(), st.booleans()
)
def test_all_forms_are_read(digest: bytes, kind: str, mark: str, is_old: bool, has_slashes: bool) -> None:
    ref = {"feed": feed_ref, "message": message_ref, "blob": blob_ref}[kind](digest)
    text = ref[1:].rpartition(".")[0].translate(str.maketrans("+/", "-_"))
    form = ("ed25519" if kind == "feed" else "sha256") if is_old else "classic"
    assert plain(f"ssb:{'//' * has_slashes}{kind}{mark}{form}{mark}{text}") == ref


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ssb:",
        "ssb:feed/classic/",
        "ssb:feed/unknown/AAAA",
        "ssb:experimental?action=x",
        "http://a",
        "@a",
        ADDRESS,
    ],
)
def test_anything_else_stays(text: str) -> None:
    assert plain(text) == text
