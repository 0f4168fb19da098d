"""Commands about captures of any network."""
