"""NDN over Secure Scuttlebutt (Tarr et al. 2019, section 4.4). Not built yet."""
