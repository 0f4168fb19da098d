"""The forwarding pipelines, by kind of packet (NFD developer guide, section 4).

`interests`, `data` and `nacks` share `tables`, and send by `egress`; `next_hops` applies scopes to routes;
`pit_size` measures state, that of feeds by `sized_feeds`.
"""
