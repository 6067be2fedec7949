#import "Segments.h"

NSArray<NSString*>* SegmentNames(void) {
  return @[
    @"background",  @"aeroplane", @"bicycle", @"bird",      @"boat",   @"bottle",      @"bus",   @"car",  @"cat",   @"chair",    @"cow",
    @"diningtable", @"dog",       @"horse",   @"motorbike", @"person", @"pottedplant", @"sheep", @"sofa", @"train", @"tvmonitor"
  ];
}

// As PASCAL VOC colours its classes: bits of the number, spread over red, green and blue.
static void colourOf(unsigned number, uint8_t rgb[3]) {
  memset(rgb, 0, 3);
  for (int bit = 7; number != 0; --bit, number >>= 3) {
    for (int colour = 0; colour < 3; ++colour) rgb[colour] |= (uint8_t)((number >> colour & 1) << bit);
  }
}

NSData* SegmentOverlay(NSData* rgba, NSData* numbers) {
  NSMutableData* overlay = [rgba mutableCopy];
  uint8_t* pixel = overlay.mutableBytes;
  const uint8_t* number = numbers.bytes;
  for (NSUInteger i = 0; i < numbers.length; ++i, pixel += 4) {
    uint8_t colour[3];
    colourOf(number[i], colour);
    for (int c = 0; number[i] != 0 && c < 3; ++c) pixel[c] = (uint8_t)((pixel[c] >> 1) + (colour[c] >> 1));
  }
  return overlay;
}

NSArray<NSString*>* SegmentsFound(NSData* numbers) {
  NSUInteger counts[256] = {0};
  const uint8_t* number = numbers.bytes;
  for (NSUInteger i = 0; i < numbers.length; ++i) ++counts[number[i]];
  NSArray<NSString*>* names = SegmentNames();
  NSMutableArray<NSString*>* found = [NSMutableArray array];
  for (NSUInteger c = 1; c < names.count; ++c) {
    if (counts[c] * 100 >= numbers.length) [found addObject:[names objectAtIndex:c]];
  }
  return found;
}
