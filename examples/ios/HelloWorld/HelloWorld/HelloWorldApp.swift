// Shows a photograph and the three classes that a model finds likeliest.
import SwiftUI

@main
struct HelloWorldApp: App {
  var body: some Scene {
    WindowGroup { ContentView() }
  }
}

struct ContentView: View {
  private let photograph = UIImage(named: "image.jpg")
  @State private var text = "…"

  var body: some View {
    VStack {
      if let photograph = photograph {
        Image(uiImage: photograph).resizable().scaledToFit()
      }
      Text(text).padding()
    }
    .onAppear { text = classify(photograph) }
  }
}

// EfficientNet-Lite0 takes 224 x 224 pixels, each (pixel - 127) / 128.
private func classify(_ photograph: UIImage?) -> String {
  guard let path = Bundle.main.path(forResource: "model", ofType: "pen"), let module = TorchModule(fileAtPath: path) else {
    return "There is no model, or it cannot run: see the log."
  }
  guard let names = Bundle.main.path(forResource: "labels", ofType: "txt"), let labels = Labels(contentsOfFile: names),
    let pixels = photograph?.pixels(ofMiddle: 224, shorterSide: 256)
  else {
    return "There are no labels, or no photograph: make_model.py writes them."
  }
  let mean = [Float](repeating: 127 / 255, count: 3)
  let std = [Float](repeating: 128 / 255, count: 3)
  let floats = PixelsToFloats(pixels, mean, std)
  guard let scores = module.predict(image: floats.mutableBytes) else {
    return "The model did not run: see the log."
  }
  return labels.top(3, ofScores: scores).joined(separator: "\n")
}
