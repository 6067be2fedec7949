#import "Pixels.h"

NSMutableData* PixelsToFloats(NSData* rgba, const float mean[3], const float std[3]) {
  NSUInteger pixels = rgba.length / 4;
  NSMutableData* floats = [NSMutableData dataWithLength:pixels * 3 * sizeof(float)];
  const uint8_t* from = rgba.bytes;
  float* to = floats.mutableBytes;
  for (NSUInteger colour = 0; colour < 3; ++colour) {
    for (NSUInteger i = 0; i < pixels; ++i) {
      to[colour * pixels + i] = (from[i * 4 + colour] / 255.0f - mean[colour]) / std[colour];
    }
  }
  return floats;
}
