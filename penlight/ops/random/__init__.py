"""Random numbers: uniform, normal, whole, permutations, and what is made of them."""
