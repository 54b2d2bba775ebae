"""The Variational Power Method as an estimator of policy values."""
