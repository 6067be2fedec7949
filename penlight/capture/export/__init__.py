"""torch.export → Graph: modules and exported programs, their calls, sizes and constants."""
