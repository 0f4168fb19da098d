"""Capture files: pcap and pcapng, whole or still growing."""
