"""Captures: the pcapng format, dissection of frames, and the recorder for network interfaces."""
