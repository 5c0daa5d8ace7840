"""What the jobs of the domain do: a module a family, each with its table of handlers, which its pool gathers."""
