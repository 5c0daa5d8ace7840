"""How a document fares, step by step."""
