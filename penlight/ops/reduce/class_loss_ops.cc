// Losses of the VM against classes: nll_loss, cross_entropy_loss, ctc_loss. In double precision, row by row.
#include "penlight/ops/reduce/reduction.h"

#include "penlight/runtime/vm/calls.h"

namespace pen {

namespace {

// Rows of classes: [N, C, d…] or [C] as [rows, C]; targets and results have the other dims.
struct Classes {
  RowArray rows;
  Shape shape;  // without the classes
  Value target, weight;
  int64_t count;
};

Status read(const Call& c, bool indices, Classes* to) {
  const TensorObject &x = c.tensor(0), &y = c.tensor(1);
  PEN_TRY(need_floats(c, x));
  if (x.rank() < 1) return c.fail("an input with classes", "rank 0");
  int dim = x.rank() == 1 ? 0 : 1;
  DimSet classes;
  classes.add(dim);
  to->count = x.dim(dim);
  to->shape = reduced_shape(x, classes, false);
  PEN_TRY(rows_of(c, x, classes, DType::f64, &to->rows));
  if (c.given(2)) {
    if (c.tensor(2).rank() != 1 || c.tensor(2).dim(0) != to->count) return c.fail("a weight for each class", "rank %d", c.tensor(2).rank());
    PEN_TRY(elements_of(c, c.tensor(2), DType::f64, &to->weight));
  }
  if (!indices) {
    RowArray rows;
    bool same = y.rank() == x.rank();
    for (int d = 0; same && d < x.rank(); ++d) same = y.dim(d) == x.dim(d);
    if (!same) return c.fail("probabilities of the input's shape", "rank %d, or other sizes", y.rank());
    PEN_TRY(rows_of(c, y, classes, DType::f64, &rows));
    to->target = rows.hold;
    return PEN_OK;
  }
  if (y.dtype() != DType::i64 && y.dtype() != DType::u8) return c.fail("a target of Long or Byte", "%s", dtype_name(y.dtype()));
  bool same = y.rank() == to->shape.rank;
  for (int d = 0; same && d < y.rank(); ++d) same = y.dim(d) == to->shape.dims[d];
  if (!same) return c.fail("a target with the input's dims but for the classes", "rank %d, or other sizes", y.rank());
  return elements_of(c, y, DType::i64, &to->target);
}

double weight_of(const Classes& k, int64_t i) { return k.weight.is_none() ? 1 : k.weight.tensor()->as<double>()[i]; }

// -log p of the target's class of each row, where `logs` is [rows, C]; smoothing spreads some of it over all classes.
Status give_nll(Call& c, const Classes& k, const double* logs, int64_t reduction, int64_t ignored, double smoothing, bool total) {
  const TensorObject& x = c.tensor(0);
  if (reduction < 0 || reduction > 2) return c.fail("a reduction of 0, 1 or 2", "%lld", static_cast<long long>(reduction));
  Value each = Value::own(tensor_create(DType::f64, k.shape));
  if (each.is_none()) return c.out_of_memory();
  const int64_t* target = k.target.tensor()->as<int64_t>();
  double sum = 0, smooth_sum = 0, weights = 0;
  for (int64_t i = 0; i < k.rows.outer; ++i) {
    double loss = 0, smooth = 0;
    PEN_TRY(c.walk(smoothing > 0 ? k.count : 1));
    if (target[i] != ignored) {
      if (target[i] < 0 || target[i] >= k.count)
        return c.fail("targets that are classes", "%lld of %lld", static_cast<long long>(target[i]), static_cast<long long>(k.count));
      double w = weight_of(k, target[i]);
      loss = -w * logs[i * k.count + target[i]];
      weights += w;
      for (int64_t j = 0; smoothing > 0 && j < k.count; ++j) smooth -= weight_of(k, j) * logs[i * k.count + j];
      sum += loss;
      smooth_sum += smooth;
    }
    each.tensor()->as<double>()[i] = (1 - smoothing) * loss + smoothing / static_cast<double>(k.count) * smooth;
  }
  double whole = (1 - smoothing) * sum + smoothing / static_cast<double>(k.count) * smooth_sum;
  if (total) PEN_TRY(c.give(tensor_of(Value(reduction == 0 && x.rank() > 1 ? 0.0 : weights), x.dtype()), 1));
  if (reduction == 0) return give_as(c, static_cast<Value&&>(each), x.dtype());
  return c.give(tensor_of(Value(reduction == 1 ? whole / weights : whole), x.dtype()));
}

}  // namespace

PEN_OP(nll_loss,
       "aten::{nll_loss[out],nll_loss2d[out],nll_loss_nd}(Tensor self, Tensor target, Tensor? weight=None, int reduction=Mean, SymInt "
       "ignore_index=-100) -> Tensor") {
  Classes k;
  PEN_TRY(read(c, true, &k));
  return give_nll(c, k, k.rows.row<double>(0), c.integer(3), c.integer(4), 0, false);
}
PEN_OP(nll_loss_forward, "[out=output output total_weight]",
       "aten::{nll_loss_forward,nll_loss2d_forward}(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index) -> "
       "(Tensor output, Tensor total_weight)") {
  Classes k;
  PEN_TRY(read(c, true, &k));
  return give_nll(c, k, k.rows.row<double>(0), c.integer(3), c.integer(4), 0, true);
}

PEN_OP(cross_entropy_loss,
       "aten::cross_entropy_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=Mean, SymInt ignore_index=-100, float "
       "label_smoothing=0.0) -> Tensor") {
  const TensorObject& x = c.tensor(0);
  double smoothing = c.number(5);
  if (!(smoothing >= 0 && smoothing <= 1)) return c.fail("a label_smoothing from 0 to 1", "%g", smoothing);
  bool indices = !is_floating(c.tensor(1).dtype());
  Classes k;
  PEN_TRY(read(c, indices, &k));
  Calls t(c);
  Value logs = t("aten::log_softmax.int", x, x.rank() == 1 ? 0 : 1);
  PEN_TRY(t.status);
  DimSet classes;
  classes.add(x.rank() == 1 ? 0 : 1);
  RowArray rows;
  PEN_TRY(rows_of(c, *logs.tensor(), classes, DType::f64, &rows));
  const double* log_p = rows.row<double>(0);
  if (indices) return give_nll(c, k, log_p, c.integer(3), c.integer(4), smoothing, false);
  // Against probabilities: the mean is over rows, not over weights.
  int64_t reduction = c.integer(3);
  if (reduction < 0 || reduction > 2) return c.fail("a reduction of 0, 1 or 2", "%lld", static_cast<long long>(reduction));
  Value each = Value::own(tensor_create(DType::f64, k.shape));
  if (each.is_none()) return c.out_of_memory();
  const double* target = k.target.tensor()->as<double>();
  double sum = 0;
  for (int64_t i = 0; i < k.rows.outer; ++i) {
    double loss = 0;
    PEN_TRY(c.walk(k.count));
    for (int64_t j = 0; j < k.count; ++j) {
      double p = target[i * k.count + j] * (1 - smoothing) + smoothing / static_cast<double>(k.count);
      loss -= p * log_p[i * k.count + j] * weight_of(k, j);
    }
    each.tensor()->as<double>()[i] = loss;
    sum += loss;
  }
  if (reduction == 0) return give_as(c, static_cast<Value&&>(each), x.dtype());
  return c.give(tensor_of(Value(reduction == 1 ? sum / static_cast<double>(k.rows.outer) : sum), x.dtype()));
}

// ---- margins ----
// Rows [N, C] or [C] of doubles, and what belongs to each: targets of `each` numbers a row.
static Status read_margin(const Call& c, bool lists, RowArray* rows, Value* target) {
  const TensorObject &x = c.tensor(0), &y = c.tensor(1);
  PEN_TRY(need_floats(c, x));
  if (x.rank() != 1 && x.rank() != 2) return c.fail("an input [N, C] or [C]", "rank %d", x.rank());
  DimSet last;
  last.add(x.rank() - 1);
  PEN_TRY(rows_of(c, x, last, DType::f64, rows));
  if (y.dtype() != DType::i64 || y.numel() != rows->outer * (lists ? rows->inner : 1) || rows->inner == 0)
    return c.fail(lists ? "a Long target of the input's shape" : "a Long target for each row", "%s, %lld elements", dtype_name(y.dtype()),
                  static_cast<long long>(y.numel()));
  return elements_of(c, y, DType::i64, target);
}
template <class Rule>
static Status give_margin(Call& c, const RowArray& rows, int64_t reduction, const Rule& rule) {
  const TensorObject& x = c.tensor(0);
  if (reduction < 0 || reduction > 2) return c.fail("a reduction of 0, 1 or 2", "%lld", static_cast<long long>(reduction));
  Shape shape;
  if (x.rank() == 2) shape.rank = 1, shape.dims[0] = rows.outer;
  Value each = Value::own(tensor_create(DType::f64, shape));
  if (each.is_none()) return c.out_of_memory();
  double sum = 0;
  for (int64_t i = 0; i < rows.outer; ++i) {
    double loss = 0;
    PEN_TRY(c.walk(rows.inner));
    PEN_TRY(rule(rows.row<double>(i), i, &loss));
    sum += each.tensor()->as<double>()[i] = loss / static_cast<double>(rows.inner);
  }
  if (reduction == 0) return give_as(c, static_cast<Value&&>(each), x.dtype());
  return c.give(tensor_of(Value(reduction == 1 ? sum / static_cast<double>(rows.outer) : sum), x.dtype()));
}

PEN_OP(
    multi_margin_loss, "[out]",
    "aten::multi_margin_loss(Tensor self, Tensor target, Scalar p=1, Scalar margin=1, Tensor? weight=None, int reduction=Mean) -> Tensor") {
  RowArray rows;
  Value target, weight;
  PEN_TRY(read_margin(c, false, &rows, &target));
  if (c.number(2) != 1 && c.number(2) != 2) return c.fail("a p of 1 or 2", "%g", c.number(2));
  if (c.given(4)) {
    if (c.tensor(4).rank() != 1 || c.tensor(4).dim(0) != rows.inner)
      return c.fail("a weight for each class", "rank %d", c.tensor(4).rank());
    PEN_TRY(elements_of(c, c.tensor(4), DType::f64, &weight));
  }
  return give_margin(c, rows, c.integer(5), [&](const double* x, int64_t i, double* loss) {
    int64_t t = target.tensor()->as<int64_t>()[i];
    if (t < 0 || t >= rows.inner)
      return c.fail("targets that are classes", "%lld of %lld", static_cast<long long>(t), static_cast<long long>(rows.inner));
    *loss = 0;
    for (int64_t j = 0; j < rows.inner; ++j) {
      double z = c.number(3) - x[t] + x[j];
      if (j == t || z <= 0) continue;
      *loss += (c.number(2) == 2 ? z * z : z) * (weight.is_none() ? 1 : weight.tensor()->as<double>()[t]);
    }
    return PEN_OK;
  });
}
// A row's classes come first in its targets, then -1.
PEN_OP(multilabel_margin_loss, "[out]", "aten::multilabel_margin_loss(Tensor self, Tensor target, int reduction=Mean) -> Tensor") {
  RowArray rows;
  Value target;
  PEN_TRY(read_margin(c, true, &rows, &target));
  return give_margin(c, rows, c.integer(2), [&](const double* x, int64_t i, double* loss) {
    const int64_t* own = target.tensor()->as<int64_t>() + i * rows.inner;
    int64_t count = 0;
    for (; count < rows.inner && own[count] >= 0; ++count)
      if (own[count] >= rows.inner)
        return c.fail("targets that are classes", "%lld of %lld", static_cast<long long>(own[count]), static_cast<long long>(rows.inner));
    *loss = 0;
    for (int64_t j = 0; j < rows.inner; ++j) {
      PEN_TRY(c.walk(count));
      bool mine = false;
      for (int64_t k = 0; k < count; ++k) mine |= own[k] == j;
      for (int64_t k = 0; !mine && k < count; ++k)
        if (double z = 1 - x[own[k]] + x[j]; z > 0) *loss += z;
    }
    return PEN_OK;
  });
}

// ---- ctc ----
static double log_add(double a, double b) {
  double high = a > b ? a : b, low = a > b ? b : a;
  return high == -__builtin_inf() ? high : high + log1p(exp(low - high));
}
static Status lengths_of(const Call& c, int arg, int64_t count, int64_t most, Value* to) {
  const Value& v = c.args[arg];
  if (v.tag() == Tag::tensor) {
    if (is_floating(v.tensor()->dtype())) return c.fail("lengths that are integers", "%s", dtype_name(v.tensor()->dtype()));
    PEN_TRY(elements_of(c, *v.tensor(), DType::i64, to));
  } else {
    int64_t n = v.list()->count;
    *to = Value::own(tensor_create(DType::i64, 1, &n));
    if (to->is_none()) return c.out_of_memory();
    for (int64_t i = 0; i < n; ++i) to->tensor()->as<int64_t>()[i] = v.list()->items[i].integer();
  }
  if (to->tensor()->numel() != count)
    return c.fail("a length for each sequence", "%lld for %lld", static_cast<long long>(to->tensor()->numel()),
                  static_cast<long long>(count));
  for (int64_t i = 0; i < count; ++i) {
    int64_t n = to->tensor()->as<int64_t>()[i];
    if (n < 0 || n > most)
      return c.fail("lengths within the tensor", "%lld of %lld", static_cast<long long>(n), static_cast<long long>(most));
  }
  return PEN_OK;
}

PEN_OP(ctc_loss,
       "aten::ctc_loss.Tensor(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank=0, int "
       "reduction=Mean, bool zero_infinity=False) -> Tensor",
       "aten::ctc_loss.IntList(Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, int blank=0, int "
       "reduction=Mean, bool zero_infinity=False) -> Tensor") {
  const TensorObject &x = c.tensor(0), &targets = c.tensor(1);
  int64_t blank = c.integer(4), reduction = c.integer(5);
  PEN_TRY(need_floats(c, x));
  if (x.rank() != 3 && x.rank() != 2) return c.fail("log_probs [T, N, C] or [T, C]", "rank %d", x.rank());
  if (is_floating(targets.dtype()) || targets.rank() > 2 || targets.rank() < 1)
    return c.fail("targets: integers of rank 1 or 2", "%s, rank %d", dtype_name(targets.dtype()), targets.rank());
  if (reduction < 0 || reduction > 2) return c.fail("a reduction of 0, 1 or 2", "%lld", static_cast<long long>(reduction));
  bool batched = x.rank() == 3;
  int64_t steps = x.dim(0), batch = batched ? x.dim(1) : 1, classes = x.dim(x.rank() - 1);
  if (blank < 0 || blank >= classes)
    return c.fail("a blank that is a class", "%lld of %lld", static_cast<long long>(blank), static_cast<long long>(classes));
  bool padded = batched && targets.rank() == 2;
  if (padded && targets.dim(0) != batch) return c.fail("targets for each sequence", "%lld", static_cast<long long>(targets.dim(0)));
  Value logs, labels, in_lengths, out_lengths;
  PEN_TRY(elements_of(c, x, DType::f64, &logs));
  PEN_TRY(elements_of(c, targets, DType::i64, &labels));
  PEN_TRY(lengths_of(c, 2, batch, steps, &in_lengths));
  PEN_TRY(lengths_of(c, 3, batch, padded ? targets.dim(1) : targets.numel(), &out_lengths));
  int64_t longest = 0, total = 0;
  for (int64_t i = 0; i < batch; ++i) {
    int64_t n = out_lengths.tensor()->as<int64_t>()[i];
    longest = n > longest ? n : longest;
    total += n;
  }
  if (!padded && total > targets.numel())
    return c.fail("as many targets as their lengths add up to", "%lld of %lld", static_cast<long long>(targets.numel()),
                  static_cast<long long>(total));
  Shape shape;
  if (batched) shape.rank = 1, shape.dims[0] = batch;
  int64_t states = 2 * longest + 1, room = 2 * states;
  Value each = Value::own(tensor_create(DType::f64, shape)), spare = Value::own(tensor_create(DType::f64, 1, &room));
  if (each.is_none() || spare.is_none()) return c.out_of_memory();
  double *now = spare.tensor()->as<double>(), *next = now + states, sum = 0;
  int64_t begin = 0;
  for (int64_t n = 0; n < batch; ++n) {
    int64_t length = out_lengths.tensor()->as<int64_t>()[n], time = in_lengths.tensor()->as<int64_t>()[n], used = 2 * length + 1;
    const int64_t* label = labels.tensor()->as<int64_t>() + (padded ? n * targets.dim(1) : begin);
    begin += length;
    for (int64_t i = 0; i < length; ++i)
      if (label[i] < 0 || label[i] >= classes)
        return c.fail("targets that are classes", "%lld of %lld", static_cast<long long>(label[i]), static_cast<long long>(classes));
    auto class_of = [&](int64_t s) { return s % 2 ? label[s / 2] : blank; };
    auto log_p = [&](int64_t t, int64_t s) { return logs.tensor()->as<double>()[(t * batch + n) * classes + class_of(s)]; };
    for (int64_t s = 0; s < used; ++s) now[s] = time > 0 && s < 2 ? log_p(0, s) : -__builtin_inf();
    for (int64_t t = 1; t < time; ++t) {
      PEN_TRY(c.spend(used));
      for (int64_t s = 0; s < used; ++s) {
        double a = now[s];
        if (s > 0) a = log_add(a, now[s - 1]);
        if (s > 1 && s % 2 && class_of(s) != class_of(s - 2)) a = log_add(a, now[s - 2]);
        next[s] = a + log_p(t, s);
      }
      double* swap = now;
      now = next, next = swap;
    }
    double loss = time == 0 ? (length == 0 ? 0 : __builtin_inf()) : -(length ? log_add(now[used - 1], now[used - 2]) : now[0]);
    if (c.flag(6) && loss == __builtin_inf()) loss = 0;
    if (reduction == 1) loss /= static_cast<double>(length > 1 ? length : 1);
    each.tensor()->as<double>()[n] = loss;
    sum += loss;
  }
  if (reduction == 0) return give_as(c, static_cast<Value&&>(each), x.dtype());
  return c.give(tensor_of(Value(reduction == 1 ? sum / static_cast<double>(batch) : sum), x.dtype()));
}

}  // namespace pen
