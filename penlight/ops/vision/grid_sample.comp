#version 450
#extension GL_GOOGLE_include_directive : require
#include "gpu.glsl"
#include "math.glsl"
// An image or a volume at the places of a grid: a thread has one number of the output. Along each axis, x first, there are TAPS pixels with
// weights; what is outside counts as zero, whatever weight it has. Places in torch's order of f32 operations.
layout(constant_id = 0) const uint TAPS = 2;     // nearest 1, linear 2, cubic 4
layout(constant_id = 1) const uint PADDING = 0;  // zeros, border, reflection
layout(constant_id = 2) const uint ALIGN = 0;
layout(constant_id = 3) const uint PIXELS = 0;  // places count pixels, and go not from -1 to 1
layout(constant_id = 4) const uint AXES = 2;
layout(constant_id = 5) const uint CHANNELS_LAST = 0;
layout(local_size_x = 64) in;
layout(push_constant) uniform Push {
  uint n, channels, places;
  int sizes[3];
  uint x_strides[3];
  uint x_image, x_channel, y_image, y_channel, y_pixel, grid_image, grid_place;
  uint x_at, grid_at, y_at;
};
READ(0, x);
READ(1, grid);
WRITE(2, y);

float near_part(float d) { return (1.25 * d - 2.25) * d * d + 1.0; }
float far_part(float d) { return ((-0.75 * d + 3.75) * d - 6.0) * d + 3.0; }

float padded(float place, int size) {
  if (PADDING == 0) return place;
  if (PADDING == 2) {
    if (ALIGN != 0 && size <= 1) return 0.0;
    float low = ALIGN != 0 ? 0.0 : -0.5, span = float(ALIGN != 0 ? 2 * (size - 1) : 2 * size);
    precise float a = abs(place - low), extra = a - trunc(a / span) * span;
    place = min(span - extra, extra) + low;
  }
  return p_isnan(place) ? 0.0 : clamp(place, 0.0, float(size - 1));
}

void main() {
  for (uint i = gl_GlobalInvocationID.x; i < n; i += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
    uint c = CHANNELS_LAST != 0 ? i % channels : i / places % channels, pixel = CHANNELS_LAST != 0 ? i / channels % places : i % places;
    uint image = i / channels / places;
    int taps[3][4];  // below 0: outside
    float weights[3][4];
    for (uint a = 0; a < AXES; ++a) {
      int size = sizes[a];
      precise float place = float(grid[grid_at + image * grid_image + pixel * grid_place + a]);
      if (PIXELS == 0) {
        place = (place + 1.0) * (float(ALIGN != 0 ? size - 1 : size) / 2.0);
        if (ALIGN == 0) place = place - 0.5;
      }
      if (TAPS < 4) place = padded(place, size);
      float whole = TAPS == 1 ? roundEven(place) : floor(place), far = place - whole;
      weights[a] = float[4](TAPS == 1 ? 1.0 : 1.0 - far, far, 0.0, 0.0);
      if (TAPS == 4) weights[a] = float[4](far_part(far + 1.0), near_part(far), near_part(1.0 - far), far_part(2.0 - far));
      for (uint k = 0; k < TAPS; ++k) {
        float at = TAPS == 4 ? padded(whole + float(int(k) - 1), size) : whole + float(k);
        taps[a][k] = at >= 0.0 && at <= float(size - 1) ? int(at) : -1;
      }
    }
    float sum = 0.0;
    uint from = x_at + image * x_image + c * x_channel;
    for (uint e = 0; e < (AXES == 3 ? TAPS : 1); ++e)
      for (uint b = 0; b < TAPS; ++b)
        for (uint a = 0; a < TAPS; ++a) {
          int at[3] = {taps[0][a], taps[1][b], AXES == 3 ? taps[2][e] : 0};
          float w = weights[0][a] * weights[1][b] * (AXES == 3 ? weights[2][e] : 1.0);
          bool inside = at[0] >= 0 && at[1] >= 0 && at[2] >= 0;
          uint offset = inside ? uint(at[0]) * x_strides[0] + uint(at[1]) * x_strides[1] + uint(at[2]) * x_strides[2] : 0;
          sum += w * (inside ? float(x[from + offset]) : 0.0);
        }
    y[y_at + image * y_image + c * y_channel + pixel * y_pixel] = T(sum);
  }
}
