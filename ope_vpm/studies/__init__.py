"""The paper's studies: one file per figure, and one runner for all of them."""
