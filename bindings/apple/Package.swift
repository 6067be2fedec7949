// swift-tools-version:5.7
// A Swift package of what `penlight build --target ios` wrote beside it: the library, its classes for Objective-C, and Swift over these.
// Not compiled where Penlight is tested: parsed only.
import PackageDescription

let package = Package(
    name: "Penlight",
    platforms: [.iOS(.v13)],
    products: [
        .library(name: "PenlightKit", targets: ["PenlightKit"]),
        .library(name: "PenlightObjC", targets: ["PenlightObjC"]),
    ],
    targets: [
        .binaryTarget(name: "Penlight", path: "Penlight.xcframework"),
        .target(
            name: "PenlightObjC",
            dependencies: ["Penlight"],
            path: "PenlightObjC",
            publicHeadersPath: "include",
            cxxSettings: [.headerSearchPath("../cpp")]
        ),
        .target(name: "PenlightKit", dependencies: ["PenlightObjC"], path: "PenlightKit"),
    ],
    cxxLanguageStandard: .cxx17
)
