"""The pages of a base, written from its documents."""
