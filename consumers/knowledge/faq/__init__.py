"""Questions with ready answers."""
