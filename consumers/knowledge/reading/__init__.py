"""From the bytes of a file to Markdown, tables and pieces that are searched."""
