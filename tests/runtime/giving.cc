// Containers that one thread gives back while another begins runs, searches for cycles and lets go of the account; and from inside a
// release, on the same thread. The account is compiled here, with stand-ins for tensors and models, so that it is all under
// ThreadSanitizer, whose library has no VM.
#include "penlight/runtime/vm/account.cc"
#include "penlight/runtime/vm/box.cc"
#include "penlight/runtime/vm/value.cc"
#include "tests/runtime/check.h"

namespace pen {

static void (*on_tensor)(void);
void model_keep(Model*) {}
void model_release(Model*) {}
bool value_unpack(const Value&) { return true; }
void tensor_destroy(TensorObject* t) {
  if (on_tensor) on_tensor();
  account_leave(t->account, t);
  free(t);
}

}  // namespace pen

using namespace pen;

constexpr int kSlots = 16, kThreads = 2;
static pen_value* slots[kSlots];
static int stop;

static void* give_back(void*) {
  while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE))
    for (pen_value*& slot : slots) pen_value_release(__atomic_exchange_n(&slot, nullptr, __ATOMIC_ACQ_REL));
  return nullptr;
}

// A list of lists, one of which contains itself and one of which every value shares.
static pen_value* make(const Value& shared) {
  Value made = Value::own(list_create(4)), cycle = Value::own(list_create(1));
  CHECK(list_append(cycle.list(), cycle) && list_append(made.list(), cycle) && list_append(made.list(), shared));
  return box(made);
}

static void begin(Account* a) {
  account_begin_run(a);
  account_enter(a);
}
static void end(Account* a) {
  account_enter(nullptr);
  account_end_run(a);
}

static void test_other_threads() {
  Account* a = account_create(0, nullptr);
  CHECK(a);
  pen_pthread threads[kThreads];
  for (pen_pthread& t : threads) CHECK(pthread_create(&t, nullptr, give_back, nullptr) == 0);
  begin(a);
  Value shared = Value::own(list_create(1));
  end(a);
  for (int run = 0; run < 500; ++run) {
    begin(a);
    account_collect(a);
    for (pen_value*& slot : slots)
      if (!__atomic_load_n(&slot, __ATOMIC_ACQUIRE)) __atomic_store_n(&slot, make(shared), __ATOMIC_RELEASE);
    end(a);
    for (int i = 0; i < run % 8; ++i) sched_yield();  // while no run is under way, values are given back at once
  }
  shared = Value();
  ++a->refs;          // to look at it afterwards
  account_orphan(a);  // some are still out
  __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
  for (pen_pthread& t : threads) CHECK(pthread_join(t, nullptr) == 0);
  for (pen_value*& slot : slots) pen_value_release(slot);
  CHECK(a->containers == 0 && a->boxes == 0 && a->giving == 0 && a->refs == 1);
  account_release(a);
}

static Account* ours;
static void run_inside() {
  begin(ours);
  account_collect(ours);  // finds nothing: what is being given back is half gone
  end(ours);
}
static void let_go_inside() { account_orphan(ours); }

// A tensor's `release` that begins a run of the same module, or ends it, does not wait for itself.
static void test_from_inside(void (*what)(void)) {
  ours = account_create(0, nullptr);
  CHECK(ours);
  begin(ours);
  TensorObject* t = static_cast<TensorObject*>(calloc(1, sizeof(TensorObject)));
  CHECK(t);
  t->refs = 1;
  t->tag = Tag::tensor;
  account_join(ours, t);
  Value tensor = Value::own(t), outer = Value::own(list_create(4)), inner = Value::own(list_create(1)), cycle = Value::own(list_create(1));
  CHECK(list_append(cycle.list(), cycle) && list_append(outer.list(), inner) && list_append(outer.list(), tensor));
  tensor = Value(), inner = Value(), cycle = Value();
  pen_value* value = box(outer);
  outer = Value();
  end(ours);
  on_tensor = what;
  ++ours->refs;
  pen_value_release(value);
  on_tensor = nullptr;
  if (what == run_inside) account_orphan(ours);
  CHECK(ours->containers == 0 && ours->giving == 0 && ours->refs == 1);
  account_release(ours);
}

int main() {
  test_other_threads();
  test_from_inside(run_inside);
  test_from_inside(let_go_inside);
  printf("all given back\n");
  return 0;
}
