"""The paper's studies: one file a figure, and one runner for all of them."""
