"""SSB-aware forwarders: they replicate the logs on their users' social graphs.

Theory of operation (Kermarrec et al., "Gossiping with Append-Only Logs in Secure-Scuttlebutt", 2020, and the
extended version, sections 9.3 and 9.4). A *keeper* runs beside each forwarder. Users *attach* to it, and it
replicates their logs, those that they follow, and so on, up to a number of hops. It learns the social graph
from messages of type `contact` in these logs, all of them verified. A forwarding strategy answers Interests
from the replicas. It floods other Interests along the social graph, to neighbours with a keeper.
There are no routes.

- :mod:`~ssb_over_ndn.social.hello`: messages between neighbours, with the attached users;
- :mod:`~ssb_over_ndn.social.community`: users, their graphs, and the feeds on these;
- :mod:`~ssb_over_ndn.social.replicas`: the logs, and their bounds;
- :mod:`~ssb_over_ndn.social.keeper`: the application that combines these;
- :mod:`~ssb_over_ndn.social.own_log`: the log of a forwarder that follows its neighbours;
- :mod:`~ssb_over_ndn.social.flood`: the strategy `ssb-aware`;
- :mod:`~ssb_over_ndn.social.receivers`: the strategy `social-routing`, along the receiver's graph.
"""
