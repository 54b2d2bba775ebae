"""The behaviour policy b that logged the data: known, logged with the actions, or cloned.

`clone.py` clones from the log alone, for importance sampling, where any target may follow. `action_ratio.py` clones
around one target, for the ratio π/b̂ of vpm, onestep and their relatives; `gaussian.py` and `categorical.py` are the
regressions under it.
"""
