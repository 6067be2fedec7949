// Containers, of the module's making and of the caller's, that one thread gives back while another begins runs, searches for cycles and
// lets go of the account; and from inside a release, on the same thread. The account is compiled here, with stand-ins for tensors and
// models, so that it is all under ThreadSanitizer, whose library has no VM.
#define pthread_setspecific seen_setspecific
#include "penlight/runtime/vm/account.cc"
#undef pthread_setspecific
#include "penlight/runtime/vm/box.cc"
#include "penlight/runtime/vm/value.cc"
#include "tests/runtime/check.h"

// Called when a thread has entered an account, or left it.
static void (*on_enter)(void);
extern "C" int pthread_setspecific(pen_pthread_key key, const void* value) noexcept;
extern "C" int seen_setspecific(pen_pthread_key key, const void* value) noexcept {
  const int status = pthread_setspecific(key, value);
  if (on_enter) on_enter();
  return status;
}

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

// What the caller made: a list, or a tuple around one. Boxes are told no account then, and code makes the list larger later.
static pen_value* make_own(bool in_tuple, const Value& shared) {
  Value list = Value::own(list_create(1));
  CHECK(list.list() && list_append(list.list(), shared));
  if (!in_tuple) return box(list);
  Value tuple = Value::own(tuple_create(1));
  tuple.tuple()->items[0] = list;
  return box(tuple);
}
static void grow_own(Account* a, pen_value* own) {
  ListObject* list = own->value.tag() == Tag::tuple ? own->value.tuple()->items[0].list() : own->value.list();
  Value cycle = Value::own(list_create(1));
  CHECK(list_append(cycle.list(), cycle) && !list->account);
  for (int i = 0; i < 20; ++i) CHECK(list_append(list, cycle));
  CHECK(list->account == a);
}

static void begin(Account* a) {
  account_begin_run(a);
  account_enter(a);
}
static void end(Account* a) {
  account_enter(nullptr);
  account_end_run(a);
}

static void test_other_threads(bool own) {
  Account* a = account_create(0, nullptr);
  CHECK(a);
  stop = 0;
  pen_pthread threads[kThreads];
  for (pen_pthread& t : threads) CHECK(pthread_create(&t, nullptr, give_back, nullptr) == 0);
  begin(a);
  Value shared = Value::own(list_create(1));
  end(a);
  for (int run = 0; run < 500; ++run) {
    pen_value* given[kSlots];
    for (int i = 0; i < kSlots && own; ++i) given[i] = make_own(i % 2, shared);
    begin(a);
    account_collect(a);
    for (int i = 0; i < kSlots && own; ++i) grow_own(a, given[i]);
    for (int i = 0; i < kSlots; ++i) {
      if (__atomic_load_n(&slots[i], __ATOMIC_ACQUIRE)) {
        if (own) pen_value_release(given[i]);
        continue;
      }
      __atomic_store_n(&slots[i], own ? given[i] : make(shared), __ATOMIC_RELEASE);
    }
    end(a);
    for (int i = 0; i < run % 8; ++i) sched_yield();  // while no run is under way, values are given back at once
  }
  shared = Value();
  __atomic_add_fetch(&a->refs, 1, __ATOMIC_RELAXED);  // to look at it afterwards
  account_orphan(a);                                  // some are still out
  __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
  for (pen_pthread& t : threads) CHECK(pthread_join(t, nullptr) == 0);
  for (pen_value*& slot : slots) {
    pen_value_release(slot);
    slot = nullptr;
  }
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

// A tensor without memory, which says when it is freed (on_tensor).
static Value bare_tensor(Account* account) {
  TensorObject* t = static_cast<TensorObject*>(calloc(1, sizeof(TensorObject)));
  CHECK(t);
  t->refs = 1;
  t->tag = Tag::tensor;
  account_join(account, t);
  return Value::own(t);
}

// A tensor's `release` that begins a run of the same module, or ends it, does not wait for itself.
static void test_from_inside(void (*what)(void)) {
  ours = account_create(0, nullptr);
  CHECK(ours);
  begin(ours);
  Value tensor = bare_tensor(ours), outer = Value::own(list_create(4)), inner = Value::own(list_create(1)),
        cycle = Value::own(list_create(1));
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

// The machine lets go while another thread frees a list, which ends between the search for cycles and what follows it.
static int step;
static void await(int number) {
  while (__atomic_load_n(&step, __ATOMIC_ACQUIRE) < number) sched_yield();
}
static void pass(int number) { __atomic_store_n(&step, number, __ATOMIC_RELEASE); }
static void free_slowly() {
  pass(1);
  await(2);
}
static void* release_slot(void*) {
  pen_value_release(slots[0]);
  pass(3);
  return nullptr;
}
static void let_it_end() {
  if (account_at_work() || __atomic_load_n(&step, __ATOMIC_ACQUIRE) != 1) return;  // the search is not over; or another one
  pass(2);
  await(3);
}
static void test_letting_go_meanwhile() {
  Account* a = account_create(0, nullptr);
  CHECK(a);
  begin(a);
  Value tensor = bare_tensor(a), list = Value::own(list_create(2)), inner = Value::own(list_create(1)), cycle = Value::own(list_create(1));
  CHECK(list_append(cycle.list(), cycle) && list_append(list.list(), inner) && list_append(list.list(), tensor));
  slots[0] = box(list);
  tensor = Value(), list = Value(), inner = Value(), cycle = Value();
  end(a);
  on_tensor = free_slowly;
  ++a->refs;
  pen_pthread thread;
  CHECK(pthread_create(&thread, nullptr, release_slot, nullptr) == 0);
  await(1);
  on_enter = let_it_end;
  account_orphan(a);
  on_enter = nullptr;
  CHECK(pthread_join(thread, nullptr) == 0);
  slots[0] = nullptr;
  on_tensor = nullptr;
  CHECK(a->containers == 0 && a->giving == 0 && a->refs == 1);
  account_release(a);
}

// A cycle that a tuple held last, of the caller's or of another module's, which is given back when its own module is gone.
static void test_held_from_outside(Account* holder) {
  Account* a = account_create(0, nullptr);
  CHECK(a);
  begin(a);
  Value cycle = Value::own(list_create(1));
  CHECK(list_append(cycle.list(), cycle));
  end(a);
  if (holder) begin(holder);
  Value tuple = Value::own(tuple_create(2));
  tuple.tuple()->items[0] = tuple.tuple()->items[1] = cycle;
  if (holder) end(holder);
  pen_value* value = box(tuple);
  tuple = Value(), cycle = Value();
  ++a->refs;
  account_orphan(a);
  CHECK(a->containers == 1);
  pen_value_release(value);
  CHECK(a->containers == 0 && a->giving == 0 && a->refs == 1);
  account_release(a);
}

// A container of the caller's own into which code puts that container.
static void test_own_that_contains_itself(Value&& made, bool (*put)(const Value& into)) {
  Account* a = account_create(0, nullptr);
  CHECK(a);
  Value own(static_cast<Value&&>(made));
  pen_value* value = box(own);
  begin(a);
  CHECK(put(own));
  end(a);
  own = Value();
  ++a->refs;
  account_orphan(a);
  CHECK(a->containers == 1);
  pen_value_release(value);
  CHECK(a->containers == 0 && a->giving == 0 && a->refs == 1);
  account_release(a);
}
static void test_own_that_contain_themselves() {
  const Value key(int64_t{1});
  Value list = Value::own(list_create(1)), full = Value::own(list_create(1)), other = Value::own(list_create(1)),
        dict = Value::own(dict_create());
  CHECK(list_append(other.list(), key) && dict_set(dict.dict(), key, key));
  test_own_that_contains_itself(static_cast<Value&&>(list), [](const Value& v) { return list_append(v.list(), v); });
  test_own_that_contains_itself(static_cast<Value&&>(full), [](const Value& v) {
    for (int i = 0; i < 20; ++i) CHECK(list_append(v.list(), v));
    return true;
  });
  test_own_that_contains_itself(static_cast<Value&&>(other), [](const Value& v) { return list_set(v.list(), 0, v); });
  test_own_that_contains_itself(static_cast<Value&&>(dict), [](const Value& v) { return dict_set(v.dict(), Value(int64_t{1}), v); });
}

int main() {
  test_other_threads(false);
  test_other_threads(true);
  test_from_inside(run_inside);
  test_from_inside(let_go_inside);
  test_letting_go_meanwhile();
  test_held_from_outside(nullptr);
  test_own_that_contain_themselves();
  Account* another = account_create(0, nullptr);
  CHECK(another);
  test_held_from_outside(another);
  account_orphan(another);
  printf("all given back\n");
  return 0;
}
