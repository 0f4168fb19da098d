"""Forwarders that are aware of SSB: they replicate the logs that their users' social graph leads to.

Theory of operation (Kermarrec et al., "Gossiping with Append-Only Logs in Secure-Scuttlebutt", 2020, and the
extended version, sections 9.3 and 9.4). A *keeper* runs beside each forwarder. Users *attach* to it, and it
replicates their logs, those that they follow, and so on, some hops far. It learns who follows and blocks whom
from messages of type `contact` in these logs, all of them verified. A forwarding strategy answers Interests
from the replicas, and floods those that it cannot answer along the social graph: to neighbours that have a
keeper, too. There are no routes.

- :mod:`~ssb_over_ndn.social.hello`: messages between neighbours: who is attached;
- :mod:`~ssb_over_ndn.social.community`: users, their graphs, and the feeds that these lead to;
- :mod:`~ssb_over_ndn.social.replicas`: the logs, and their bounds;
- :mod:`~ssb_over_ndn.social.keeper`: the application that combines these;
- :mod:`~ssb_over_ndn.social.flood`: the strategy `ssb-aware`;
- :mod:`~ssb_over_ndn.social.receivers`: the strategy `social-routing`, along the receiver's graph.
"""
