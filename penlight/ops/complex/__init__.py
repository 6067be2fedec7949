"""Complex numbers as pairs of real tensors: arithmetic, functions, and what turns one into the other."""
