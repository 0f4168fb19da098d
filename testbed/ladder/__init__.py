"""The replication ladder as models: what protocols cost on random networks, by numpy, at any size.

They make the three tables of "Scalable Secure Scuttlebutt" (Tarr; an appendix of Tarr et al. 2019) again. Its
programs were not published.
"""
