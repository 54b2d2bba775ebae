"""The estimator that chooses among the others."""
