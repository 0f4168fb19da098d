"""A layering of its own protocol, for tests: polls over TCP, in clear; its bytes can be counted by hand.

It has what docs/architecture.md says that such a layering needs: protocol.py, layering.py and decoder.py.
"""
