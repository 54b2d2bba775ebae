"""Estimators to compare VPM with, each on the same contract."""
