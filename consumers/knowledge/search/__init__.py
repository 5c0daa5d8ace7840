"""The index: one port, in SQLite and in PostgreSQL."""
