"""Elementwise operators: one scalar rule each (rules.py), from which kernels, epilogues and constant folding derive."""
