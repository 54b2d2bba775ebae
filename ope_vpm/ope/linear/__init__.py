"""Estimates that are linear in features of pairs: what vpm, LSTD-Q, the DICE family and the minimax methods share."""
