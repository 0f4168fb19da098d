"""Reliable multicast from one source, sans-IO: a shortest-path tree for each feed, and repair by requests.

Trees are source-specific (RFC 4607). Joins and prunes travel towards the source, hop by hop, as those of PIM
do (RFC 7761). Items are numbered segments. Who lacks one asks the next router towards the source, and routers
that keep the newest segments repair, as PGM's designated local repairers do (RFC 3208); heartbeats tell of
losses at the end of a burst (RFC 3208, section 5.1.5; RFC 5740). The packets are feednet's own: small, and
between neighbours.
"""
