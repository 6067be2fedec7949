"""What apps take libraries in: an Android archive (aar.py), an XCFramework for iOS (xcframework.py)."""
