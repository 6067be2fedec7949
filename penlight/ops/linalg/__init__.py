"""Linear algebra: factorizations, solvers, eigenvalues. Batches of small matrices, computed in double, one matrix a task."""
