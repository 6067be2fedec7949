#include "penlight/runtime/vm/account.h"

#include "penlight/runtime/file/model.h"
#include "penlight/runtime/vm/value.h"

namespace pen {

namespace {

constexpr size_t kFewContainers = 10000;

// 0: no key yet; 1: one thread makes it; 2: it is there; 3: the system has no more.
uint32_t key_state;
pen_pthread_key key;

bool have_key() {
  uint32_t state = __atomic_load_n(&key_state, __ATOMIC_ACQUIRE);
  if (state >= 2) return state == 2;
  uint32_t none = 0;
  if (__atomic_compare_exchange_n(&key_state, &none, 1u, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
    __atomic_store_n(&key_state, pthread_key_create(&key, nullptr) == 0 ? 2u : 3u, __ATOMIC_RELEASE);
  while ((state = __atomic_load_n(&key_state, __ATOMIC_ACQUIRE)) == 1) sched_yield();
  return state == 2;
}

constexpr int kLongWait = 100000;  // yields: nobody has the lock for more than a few instructions

struct Locked {
  explicit Locked(Account* a) : account(a) {
    for (int waits = 0; __atomic_test_and_set(&account->lock, __ATOMIC_ACQUIRE); ++waits) {
      sched_yield();
      if (waits < kLongWait || account->process == getpid()) continue;
      // A child of fork(): the thread that had the lock is not there. It is ours now; the list is left alone from here on.
      account->process = getpid();
      account->lost = true;
      break;
    }
  }
  ~Locked() { __atomic_clear(&account->lock, __ATOMIC_RELEASE); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
  Account* account;
};

bool is_container(const Heap& h) { return h.tag >= Tag::list; }

// Calls visit(heap object) for each value in a container.
template <class Visit>
void each_part(Heap* object, Visit visit) {
  auto value = [&](const Value& v) {
    if (v.on_heap()) visit(v.heap());
  };
  switch (object->tag) {
    case Tag::list:
      for (int64_t i = 0; i < static_cast<ListObject*>(object)->count; ++i) value(static_cast<ListObject*>(object)->items[i]);
      break;
    case Tag::tuple:
      for (int64_t i = 0; i < static_cast<TupleObject*>(object)->count; ++i) value(static_cast<TupleObject*>(object)->items[i]);
      break;
    case Tag::dict:
      for (int64_t i = -1; dict_next(static_cast<DictObject*>(object), &i);) value(static_cast<DictObject*>(object)->entries[i].value);
      break;
    case Tag::object:
      for (int32_t i = 0; i < static_cast<Instance*>(object)->count; ++i) value(static_cast<Instance*>(object)->slots[i]);
      break;
    default:
      break;
  }
}

}  // namespace

Account* account_create(uint64_t limit, const Model* model) {
  if (!have_key()) return nullptr;
  Account* a = static_cast<Account*>(calloc(1, sizeof(Account)));
  if (!a) return nullptr;
  a->refs = 1;
  a->process = getpid();
  a->limit = limit > SIZE_MAX ? SIZE_MAX : static_cast<size_t>(limit);
  a->model = const_cast<Model*>(model);
  if (model) model_keep(a->model);
  return a;
}
static void drop(Account* a) {
  if (__atomic_sub_fetch(&a->refs, 1, __ATOMIC_ACQ_REL) != 0) return;
  if (a->model) model_release(a->model);
  free(a);
}
void account_release(Account* a) {
  if (a) drop(a);
}

Account* account_enter(Account* account) {
  if (!have_key()) return nullptr;
  Account* before = static_cast<Account*>(pthread_getspecific(key));
  if (account != before) pthread_setspecific(key, account);
  return before;
}
Account* account_at_work() {
  return __atomic_load_n(&key_state, __ATOMIC_ACQUIRE) == 2 ? static_cast<Account*>(pthread_getspecific(key)) : nullptr;
}

bool account_take(Account* a, size_t bytes) {
  if (!a) return true;
  Locked locked(a);
  if (a->limit && (bytes > a->limit || a->used > a->limit - bytes)) {
    a->refused = true;
    return false;
  }
  a->used += bytes;
  return true;
}
void account_give(Account* a, size_t bytes) {
  if (!a) return;
  Locked locked(a);
  a->used -= bytes;
}
size_t account_used(Account* a) {
  if (!a) return 0;
  Locked locked(a);
  return a->used;
}
void account_join(Account* a, Heap* object) {
  __atomic_store_n(&object->account, a, __ATOMIC_RELEASE);  // of the caller's own, whoever gives them back looks at it too
  if (!a) return;
  __atomic_add_fetch(&a->refs, 1, __ATOMIC_RELAXED);
  if (!is_container(*object)) return;
  Locked locked(a);
  if (a->lost) return;
  ++a->containers;
  object->after = a->first;
  object->before = nullptr;
  if (a->first) a->first->before = object;
  a->first = object;
}
void account_leave(Account* a, Heap* object) {
  if (!a) return;
  bool last = false;
  if (is_container(*object)) {
    Locked locked(a);
    if (a != account_at_work()) last = --a->giving == 0 && a->orphan && __atomic_load_n(&a->boxes, __ATOMIC_RELAXED) == 0;
    if (!a->lost) {
      --a->containers;
      if (object->after) object->after->before = object->before;
      if (object->before)
        object->before->after = object->after;
      else
        a->first = object->after;
    }
  }
  if (last) account_collect(a);  // it may have held a cycle, and have been the caller's own: boxes do not count those
  drop(a);
}

// Counts, for each container, the references that come from containers; what has others too is alive, and so is all that can
// be reached from it. The rest refers to itself only: emptying it frees it. `mark` holds the count, then -1 for the living.
// What it gives is a list of those to be emptied, by `next`; each is held, so that it is freed once.
static Heap* find_dead(Account* a) {
  for (Heap* h = a->first; h; h = h->after) h->mark = 0;
  auto ours = [a](const Heap* h) { return h->account == a && is_container(*h); };
  for (Heap* h = a->first; h; h = h->after)
    each_part(h, [&](Heap* part) {
      if (ours(part)) ++part->mark;
    });
  Heap* work = nullptr;  // alive, its parts not yet seen
  auto revive = [&](Heap* h) {
    if (!ours(h) || h->mark < 0) return;
    h->mark = -1;
    h->next = work;
    work = h;
  };
  for (Heap* h = a->first; h; h = h->after) {
    const int32_t refs = h->refs;  // others may let go of one meanwhile, and then wait for the lock before they do anything to it
    if (refs == 0) {               // to be freed, by its `next`: what it holds is left to it
      h->mark = -1;
      each_part(h, revive);
    } else if (h->mark != refs) {
      revive(h);
    }
  }
  while (work) {
    Heap* h = work;
    work = h->next;
    each_part(h, revive);
  }
  Heap* dead = nullptr;
  for (Heap* h = a->first; h; h = h->after) {
    if (h->mark < 0) continue;
    ++h->refs;
    h->next = dead;
    dead = h;
  }
  return dead;
}
void account_collect(Account* a) {
  if (!a) return;
  Account* before = account_enter(a);  // what is freed from here on is freed at once
  for (bool again = true; again;) {
    Heap* dead;
    {
      Locked locked(a);
      if (a->giving || !a->first || a->lost) break;
      dead = find_dead(a);
      a->containers_kept = a->containers;
      if (!dead) break;
      ++a->giving;
    }
    for (Heap* h = dead; h; h = h->next) heap_empty(h);
    while (dead) {
      Heap* h = dead;
      dead = h->next;
      heap_release(h);
    }
    Locked locked(a);
    a->containers_kept = a->containers;
    again = --a->giving == 0 && a->orphan;  // somebody freed more meanwhile, and found this one at it
  }
  account_enter(before);
}
void account_hold(Account* a) { __atomic_add_fetch(&a->refs, 1, __ATOMIC_RELAXED); }
void account_let_go(Account* a) {
  if (!a) return;
  bool last;
  {
    Locked locked(a);
    last = a->orphan && __atomic_load_n(&a->boxes, __ATOMIC_RELAXED) == 0;
  }
  if (last) account_collect(a);
  drop(a);
}
void account_box(Account* a) {
  account_hold(a);
  __atomic_add_fetch(&a->boxes, 1, __ATOMIC_RELAXED);
}
void account_unbox(Account* a) {
  __atomic_sub_fetch(&a->boxes, 1, __ATOMIC_RELAXED);
  account_let_go(a);
}
bool account_defer(Heap* object) {
  Account* a = object->account;
  if (!a || !is_container(*object) || a == account_at_work()) return false;
  Locked locked(a);
  if (!a->running) {
    ++a->giving;
    return false;
  }
  object->next = a->dropped;
  a->dropped = object;
  return true;
}
void account_begin_run(Account* a) {
  Locked locked(a);
  a->running = true;
}
void account_end_run(Account* a) {
  Heap* dropped;
  {
    Locked locked(a);
    a->running = false;
    dropped = a->dropped;
    a->dropped = nullptr;
  }
  while (dropped) {
    Heap* h = dropped;
    dropped = h->next;
    heap_free(h);
  }
}
void account_orphan(Account* a) {
  if (!a) return;
  account_begin_run(a);
  {
    Locked locked(a);
    a->orphan = true;  // first: whoever is freeing one while this searches, or gives back the last container later, searches once more
  }
  account_collect(a);
  account_end_run(a);
  drop(a);
}
void account_collect_sometimes(Account* a) {
  if (!a) return;
  bool many;
  {
    Locked locked(a);
    many = a->containers > 2 * a->containers_kept + kFewContainers;
  }
  if (many) account_collect(a);
}

}  // namespace pen
