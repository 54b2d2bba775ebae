"""Figures that other papers published, beside ours on logs of the same kind: one TOML file a paper."""
