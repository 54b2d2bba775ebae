"""A model of one step, learned in closed form, and values that follow the target for some steps in it."""
