"""Stories of the name service, storage providers, moving devices and readers, under every fault."""
