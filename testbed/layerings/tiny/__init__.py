"""The layerings of tinySSB and tinyISP: feeds in packets of 120 bytes."""
