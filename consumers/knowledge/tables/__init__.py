"""Tables of the database, a module a concept."""
