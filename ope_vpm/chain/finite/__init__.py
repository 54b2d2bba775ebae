"""Finite chains: counted transitions and exact solutions."""
