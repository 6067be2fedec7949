"""Resizing of images by torch's coordinate rules."""
