"""Matrix products: linear (constant weights), matmul (run-time matrices), attention."""
