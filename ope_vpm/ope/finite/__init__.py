"""Finite states and actions: counted pairs and exact solutions on them."""
