"""Writes the app's model, DeepLabV3 with 21 classes, and photograph to assets, and its Xcode project.

The model is the Android app's, whose script of the same name makes it, and says what `--weights` is for.
"""

import sys
from pathlib import Path

APP = Path(__file__).resolve().parent
sys.path.insert(0, str(APP.parent))
from app import finish

sys.path.insert(0, str(APP.parents[1] / "android" / APP.name))
from make_model import main

main(APP / "assets", finish(APP))
