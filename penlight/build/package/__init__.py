"""What apps take libraries in: an Android archive (aar.py), an XCFramework for iOS (xcframework.py) with sources around it (apple.py)."""

from penlight.build.generate import ROOT

HEADER = (
    ROOT / "runtime/include/penlight.h"
)  # the others there are for the Python extension: no library has their functions
