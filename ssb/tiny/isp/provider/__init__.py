"""The provider's side of tinyISP."""
