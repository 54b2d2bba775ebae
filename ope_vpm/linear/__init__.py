"""Estimates that are linear in features: feature maps, moments of rows, linear systems, ridges, non-negativity.

This package knows arrays only. `chain` and `ope` give it batches of features, and every pass over their rows is here.
"""
