"""Q functions of the target policy: linear in features, or networks."""
