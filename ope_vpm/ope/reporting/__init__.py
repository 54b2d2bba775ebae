"""Pages for people: one or several policy values as one HTML file, which needs nothing else."""

from ope_vpm.ope.reporting.page import card, cards, report

__all__ = ["card", "cards", "report"]
