"""Shapes: views, copies, concatenation, padding, filling."""
