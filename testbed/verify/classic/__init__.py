"""Classic NDN in simulated networks, beside or without controlled push.

applications.py  consumers, producers and logs of a network: what takes part beside controlled push
clients.py       one of each
exchanges.py     an observer of Interests and their answers at each node
"""
