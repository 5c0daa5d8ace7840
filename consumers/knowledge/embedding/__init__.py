"""Texts as vectors, and what is told from them."""
