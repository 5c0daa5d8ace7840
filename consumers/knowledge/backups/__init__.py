"""Archives of bases, and bases from archives."""
