"""The .pen format: format.py declares it once, writer.py writes it, reader.py reads it for people, SPEC.md tells it."""
