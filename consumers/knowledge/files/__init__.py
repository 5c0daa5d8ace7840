"""Files too big for the database: one port, in a folder and in a bucket."""
