"""The world of a handler, and what happens to it in each of the five cases that every handler has to stand."""
