"""Order: sort, topk, the k-th of many, the most frequent, search in a sorted row, bins."""
