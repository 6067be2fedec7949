"""Penlight beside its peers: the same models, threads and cores, in turns, each output checked against torch first."""
