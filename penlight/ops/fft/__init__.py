"""Fourier transforms of lines along one dim; spectrograms and back."""
