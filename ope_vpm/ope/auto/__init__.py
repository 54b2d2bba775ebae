"""The estimator that chooses among the others and combines them."""
