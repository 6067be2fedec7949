"""Writes the app's model, labels and photograph to app/src/main/assets, with real weights, offline."""

import sys
from pathlib import Path

APP = Path(__file__).resolve().parent
sys.path.insert(0, str(APP.parent))
from classifier import main

main(APP, "chelsea.png")
