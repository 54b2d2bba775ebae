"""Ways to find the ratio: counts, random features, networks."""
