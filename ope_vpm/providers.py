"""Where the estimators of this package are: handed in from above, for the baselines are built upon `ope_vpm.ope`."""

PLACES: dict[str, str] = {}
"""The module and class of each, "module:class" by its name, in the order of tables; one is imported when it is used."""
