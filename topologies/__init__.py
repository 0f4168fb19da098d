"""Network topologies, and two ways to bring one up.

model.py     nodes, links, addresses
parameter.py declarations of parameters of links and radio cells
link.py      the parameters of links
radio.py     the air of a LoRa cell
conf.py      Mini-NDN's topology files
graphs.py    GraphML files, and NetworkX's graphs
library.py   real networks; networks/ has their data
geography.py delays from locations
generate.py  generated topologies
routing.py   paths and next hops
pipe.py      one direction of a link: queue, rate, loss, delay, duplication
emulator/    a network in virtual time
mininet/     a network by Mininet: namespaces, real sockets, real time
"""
