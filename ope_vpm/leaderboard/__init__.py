"""Every estimator against every task, one command."""
