"""Networks: what they are made of, and two ways to bring one up.

model.py     nodes, links, addresses
link.py      a link's parameters, declared once
conf.py      Mini-NDN's topology files
graphs.py    GraphML files, and NetworkX's graphs
library.py   real networks; networks/ has their data
geography.py delays from places
generate.py  topologies by number
routing.py   which way packets go
pipe.py      what one direction of a link does to its frames
endpoint.py  what runs on a node, as a network sees it
emulator/    a network in virtual time
mininet/     a network by Mininet: namespaces, real sockets, real time
"""
