"""Sampling of images at places that data names: grid_sample, roi_align and its kin, deformable convolution."""
