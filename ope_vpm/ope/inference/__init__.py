"""From what an estimator found to a value with an interval and a verdict."""
