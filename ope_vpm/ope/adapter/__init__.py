"""From logged steps to transitions of the target's chain."""
