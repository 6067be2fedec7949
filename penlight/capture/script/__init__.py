"""TorchScript → register code (ir/script.py) → plans: one machine runs it in Python, and what is straight tensor code becomes a Graph."""
