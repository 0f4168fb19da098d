"""Secure Scuttlebutt: identities, classic messages, the feeds that a peer holds, and what follows from them.

From the ground up: `keys` (who signs, and how things are named), `canonical` (the JSON that is
signed), `message` (one signed entry and the rules it obeys), `export` (feeds in a file), `store`
(messages and blobs on disk), `graph` (who follows and blocks whom), `applications` (state computed
from messages), `generate` (made feeds that resemble a real one).

Not here: private messages' decryption, other feed formats.
"""
