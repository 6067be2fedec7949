"""Writes the app's model, labels and photograph to app/src/main/assets, with real weights, offline."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from classifier import main

main(Path(__file__).resolve().parent, "chelsea.png")
