"""The replication ladder as models: costs of protocols on random networks, by numpy, at any size.

They reproduce the three tables of "Scalable Secure Scuttlebutt" (Tarr; an appendix of Tarr et al. 2019). Its
programs were not published.
"""
