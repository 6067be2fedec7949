"""Operators, one place each: see registry.py."""
