"""Pages for people: one or several policy values as one HTML file, which needs nothing else."""

from ope_vpm.ope.reporting.page import card, report

__all__ = ["card", "report"]
