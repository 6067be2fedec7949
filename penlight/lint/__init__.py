"""What should be mended in a model file, and what of it runs here."""
