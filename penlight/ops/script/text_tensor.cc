// Tensors as text, as torch's C++ prints them: columns of one width, a common scale, at most 80 characters to a line, and a last
// line with type and sizes.
#include "penlight/ops/script/script.h"

namespace pen::script {

namespace {

constexpr int kLineSize = 80;
constexpr int64_t kStepsOfANumber = 16;

enum class Style { shortest, fixed, scientific };
struct Format {
  Style style = Style::shortest;
  double scale = 1;
  int width = 0;
};

// The fewest digits that read back as the same number; fixed from 1e-4 to 1e16, else with an exponent.
void shortest(double d, char* to, int size) {
  if (d - d != 0) {
    snprintf(to, static_cast<size_t>(size), "%s", d != d ? "nan" : d < 0 ? "-inf" : "inf");
    return;
  }
  char digits[40];
  int precision = 0;
  for (;; ++precision) {
    snprintf(digits, sizeof digits, "%.*e", precision, d);
    if (precision >= 16 || strtod(digits, nullptr) == d) break;
  }
  const char* e = digits;
  while (*e != 'e') ++e;
  int exponent = static_cast<int>(strtod(e + 1, nullptr));
  if (exponent >= -4 && exponent < 16)
    snprintf(to, static_cast<size_t>(size), "%.*f", precision > exponent ? precision - exponent : 0, d);
  else
    snprintf(to, static_cast<size_t>(size), "%s", digits);
}

void write_number(Text* text, const Format& f, double d) {
  char buffer[400];
  bool finite = d - d == 0;
  if (f.style == Style::shortest || !finite)
    shortest(d, buffer, sizeof buffer);
  else
    snprintf(buffer, sizeof buffer, f.style == Style::fixed ? "%.4f" : "%.4e", d);
  text->format("%*s", f.width, buffer);
}
void write_scale(Text* text, double scale) {
  char buffer[400];
  shortest(scale, buffer, sizeof buffer);
  text->format("%s *\n", buffer);
}

Format choose(const double* values, int64_t count) {
  bool whole = true;
  double least = 1, most = 1;
  bool any = false;
  for (int64_t i = 0; i < count; ++i) {
    double z = __builtin_fabs(values[i]);
    if (z - z != 0) continue;
    whole &= z == ceil(z);
    if (!any || z < least) least = z;
    if (!any || z > most) most = z;
    any = true;
  }
  if (any) {
    least = least != 0 ? floor(log10(least)) + 1 : 1;
    most = most != 0 ? floor(log10(most)) + 1 : 1;
  }
  Format f;
  f.width = 11;
  if (whole) {
    if (most > 9)
      f.style = Style::scientific;
    else
      f.width = static_cast<int>(most) + 1;
  } else if (most - least > 4) {
    f.style = Style::scientific;
    if (__builtin_fabs(most) > 99 || __builtin_fabs(least) > 99) ++f.width;
  } else {
    f.style = Style::fixed;
    f.width = 7;
    if (most > 5 || most < 0)
      f.scale = pow(10, most - 1);
    else if (most != 0)
      f.width = static_cast<int>(most) + 6;
  }
  return f;
}

void write_matrix(Text* text, const double* values, int64_t rows, int64_t columns, int indent) {
  Format f = choose(values, rows * columns);
  int64_t per_line = (kLineSize - indent) / (f.width + 1);
  for (int64_t first = 0; text->ok && first < columns; first += per_line) {
    int64_t last = first + per_line <= columns ? first + per_line - 1 : columns - 1;
    if (per_line < columns) {
      if (first) text->add('\n');
      text->format("Columns %lld to %lld", static_cast<long long>(first + 1), static_cast<long long>(last + 1));
      text->repeat(' ', indent);
    }
    if (f.scale != 1) {
      write_scale(text, f.scale);
      text->repeat(' ', indent);
    }
    for (int64_t r = 0; text->ok && r < rows; ++r) {
      for (int64_t k = first; k <= last; ++k) {
        write_number(text, f, values[r * columns + k] / f.scale);
        text->add(k == last ? '\n' : ' ');
      }
      if (r != rows - 1) text->repeat(' ', indent + (f.scale != 1));
    }
  }
}

void write_numbers(Text* text, const double* values, const Tensor& shape) {
  int rank = shape.rank;
  int64_t count = shape.numel();
  if (rank == 0) {
    write_number(text, Format(), values[0]);
    return text->add('\n');
  }
  if (count == 0) return;
  if (rank == 1) {
    Format f = choose(values, count);
    if (f.scale != 1) write_scale(text, f.scale);
    for (int64_t i = 0; text->ok && i < count; ++i) {
      write_number(text, f, values[i] / f.scale);
      text->add('\n');
    }
    return;
  }
  int64_t rows = shape.dims[rank - 2], columns = shape.dims[rank - 1];
  if (rank == 2) return write_matrix(text, values, rows, columns, 0);
  // The first dim counts fastest.
  int64_t counter[kMaxRank] = {};
  for (bool first = true; text->ok; first = false) {
    if (!first) text->add('\n');
    int64_t at = 0;
    text->add('(');
    for (int d = 0; d < rank - 2; ++d) {
      at = at * shape.dims[d] + counter[d];
      text->format("%lld,", static_cast<long long>(counter[d] + 1));
    }
    text->add(".,.) = \n");
    write_matrix(text, values + at * rows * columns, rows, columns, 1);
    int d = 0;
    while (d < rank - 2 && ++counter[d] == shape.dims[d]) counter[d++] = 0;
    if (d == rank - 2) return;
  }
}

void write_type(Text* text, const TensorObject& t) {
  const char* name = dtype_name(t.dtype());
  if (t.quantizer) name = t.dtype() == DType::u8 ? "QUInt8" : t.dtype() == DType::i8 ? "QInt8" : "QInt32";
  text->format("[ %sCPU%sType{", t.quantizer ? "Quantized" : "", name);
  for (int d = 0; d < t.rank(); ++d) text->format(d ? ",%lld" : "%lld", static_cast<long long>(t.dim(d)));
  text->add('}');
}

void write_quantizer(Text* text, const Quantizer& q) {
  if (q.axis < 0)
    return text->format(", qscheme: per_tensor_affine, scale: %g, zero_point: %lld", q.scale, static_cast<long long>(q.zero_point));
  text->add(", qscheme: per_channel_affine, scales: ");
  Format f = choose(q.scales, q.channels);
  if (f.scale != 1) write_scale(text, f.scale);
  for (int64_t i = 0; i < q.channels; ++i) write_number(text, f, q.scales[i] / f.scale), text->add('\n');
  text->format("[ CPUDoubleType{%lld} ], zero_points: ", static_cast<long long>(q.channels));
  double most = 0;
  for (int64_t i = 0; i < q.channels; ++i) {
    double z = __builtin_fabs(static_cast<double>(q.zero_points[i]));
    if (z > most) most = z;
  }
  f = choose(&most, 1);
  for (int64_t i = 0; i < q.channels; ++i) write_number(text, f, static_cast<double>(q.zero_points[i])), text->add('\n');
  text->format("[ CPULongType{%lld} ], axis: %d", static_cast<long long>(q.channels), q.axis);
}

}  // namespace

void write_tensor(Text* text, const Call& c, const TensorObject& tensor) {
  Status status;
  // Of a quantized tensor the cast below would read what is stored.
  const Quantizer* q = tensor.quantizer;
  Value plain = Value::own(tensor_view(tensor, tensor.rank(), tensor.shape.dims, tensor.shape.strides, tensor.offset));
  if (plain.is_none()) {
    text->ok = false;
    return;
  }
  tensor_set_quantizer(plain.tensor(), nullptr);
  Value wide = Value::own(tensor_cast(c, *plain.tensor(), DType::f64, &status));
  if (status != PEN_OK) {
    text->status = status;
    text->ok = false;
    return;
  }
  // Digits take microseconds, which is that many instructions.
  if (!text->spend(kStepsOfANumber * tensor.numel())) return;
  double* values = wide.tensor()->as<double>();
  if (q) {
    int64_t inner = 1;
    for (int d = tensor.rank() - 1; q->axis >= 0 && d > q->axis; --d) inner *= tensor.dim(d);
    for (int64_t i = 0, n = tensor.numel(); i < n; ++i) {
      int64_t channel = q->axis < 0 ? 0 : i / inner % q->channels;
      double scale = q->axis < 0 ? q->scale : q->scales[channel];
      int64_t zero = q->axis < 0 ? q->zero_point : q->zero_points[channel];
      values[i] = static_cast<float>(values[i] - static_cast<double>(zero)) * static_cast<float>(scale);
    }
  }
  write_numbers(text, values, wide.tensor()->shape);
  write_type(text, tensor);
  if (q) write_quantizer(text, *q);
  text->add(" ]");
}

}  // namespace pen::script
