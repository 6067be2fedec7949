"""Operators whose results have sizes that only the data tell, and `item`, which makes a number of a tensor a size."""
