"""A running agent: what it opens, what runs in it, where it listens."""
