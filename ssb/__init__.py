"""Secure Scuttlebutt: identities, classic messages, and the append-only log of one feed.

From the ground up: `keys` (who signs, and how things are named), `canonical` (the JSON that is
signed), `message` (one signed entry and the rules it obeys), `export` (a feed in a file), `log`
(a feed that grows), `generate` (made feeds that resemble a real one).

Not here: replication between peers, private messages' decryption, blobs, other feed formats.
"""
