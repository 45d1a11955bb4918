"""The golden set as a thing to look after: what is wrong with it, what it covers, what joins it."""
