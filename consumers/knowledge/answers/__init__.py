"""From a question to an answer that names where it comes from."""
