"""The behaviour policy b that logged the data: known, logged with the actions, or cloned.

`clone.py` clones from the log alone, for importance sampling, where any target may follow. `around_target.py` clones
around one target, for the action ratio π/b̂ of vpm, onestep and their relatives. `gaussian.py` is the regression under
the latter, `action_ratio.py` the ratio itself, and `source.py` what the option `behaviour=` of an estimator means.
"""
