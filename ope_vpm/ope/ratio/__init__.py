"""Stationary ratios linear in features that other papers proposed: saddle points and minimax weights."""
