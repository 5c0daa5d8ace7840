"""A document from its first byte to its removal."""
