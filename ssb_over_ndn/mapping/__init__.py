"""Locations of feeds: an id-to-storage name service, storage providers, and devices that upload to them.

The second approach of "SSB over NDN": forwarders have no routes to feeds. A device uploads its log to a
storage provider, and registers it at a name service by a record that its id's key signs. A reader queries the
name service, and sends its Interests to the provider by a forwarding hint.
"""
