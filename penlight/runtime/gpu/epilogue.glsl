// What follows the sum: bias, residual, activation; `count` channels from c on, of which the first four at once where they come in fours.
void finish(vec4 v, uint c, uint from, uint to, uint count) {
  if (FOURS_OUT != 0) {
    if (BIAS != 0) v += vec4(bias_4[(bias_at + c) >> 2]);
    if (RESIDUAL != 0) v += vec4(residual_4[from >> 2]);
  } else {
    for (uint e = 0; e < count; ++e) {
      if (BIAS != 0) v[e] += float(bias[bias_at + c + e]);
      if (RESIDUAL != 0) v[e] += float(residual[from + e]);
    }
  }
  if (ACT != 0)
    for (uint e = 0; e < 4; ++e) v[e] = activate(ACT, v[e], vec4(args[0], args[1], args[2], args[3]));
  if (FOURS_OUT != 0)
    y_4[to >> 2] = T4(v);
  else
    for (uint e = 0; e < count; ++e) y[to + e] = T(v[e]);
}
