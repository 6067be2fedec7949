"""Operators whose data are indices: every index is checked against its range in each run."""
