"""Rewrites of captured graphs, one a file; pipeline.py runs them in order."""

from penlight.passes.pipeline import PassReport, optimize

__all__ = ["PassReport", "optimize"]
