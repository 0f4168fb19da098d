"""Tables of a forwarder (NFD developer guide, section 3), and the faces that their entries name."""
