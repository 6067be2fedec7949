"""Writes the app's model, labels and photograph to assets, with real weights, offline, and its Xcode project."""

import sys
from pathlib import Path

APP = Path(__file__).resolve().parent
sys.path.insert(0, str(APP.parent))
from app import finish
from classifier import make

make(APP, APP / "assets", "coffee.png", finish(APP))
