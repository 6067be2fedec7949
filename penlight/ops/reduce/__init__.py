"""Reductions, and what is made of them: softmax and the norms."""
