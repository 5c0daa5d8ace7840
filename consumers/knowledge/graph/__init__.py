"""Things and how they relate, over all documents of a base."""
