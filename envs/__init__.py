"""Processes and environments with known answers."""
