#include "penlight/runtime/vm/value.h"

#include "penlight/runtime/vm/tensor.h"

namespace pen {

namespace {

template <class T>
T* create(Tag tag, size_t extra = 0) {
  Account* account = account_at_work();
  if (!account_take(account, sizeof(T) + extra)) return nullptr;
  T* object = static_cast<T*>(calloc(1, sizeof(T) + extra));
  if (!object) {
    account_give(account, sizeof(T) + extra);
    return nullptr;
  }
  object->refs = 1;
  object->tag = tag;
  account_join(account, object);
  return object;
}
template <class T>
T* new_array(Account* account, int64_t count) {
  size_t bytes = sizeof(T) * static_cast<size_t>(count);
  if (!account_take(account, bytes)) return nullptr;
  void* made = calloc(static_cast<size_t>(count), sizeof(T));
  if (!made) account_give(account, bytes);
  return static_cast<T*>(made);
}
template <class T>
void free_array(Account* account, T* array, int64_t count) {
  if (!array) return;
  free(array);
  account_give(account, sizeof(T) * static_cast<size_t>(count));
}

// What nobody holds: to be freed by this thread, now; or later, when the run of its module is over.
void enqueue(Heap* object, Heap** queue) {
  if (account_defer(object)) return;
  object->next = *queue;
  *queue = object;
}
// Lets go of a value inside an object that is being freed: what nobody else holds joins the queue instead of being freed at
// once, so the stack stays flat.
void let_go(Value* v, Heap** queue) {
  if (!v->on_heap()) return;
  Heap* object = v->heap();
  memset(static_cast<void*>(v), 0, sizeof *v);
  if (--object->refs == 0) enqueue(object, queue);
}

// A container that the caller made and code puts something into, which may be that container: from then on it belongs to the account at
// work.
bool adopt(Heap* object, size_t bytes) {
  Account* account = object->account ? nullptr : account_at_work();
  if (!account) return true;
  if (!account_take(account, bytes)) return false;
  account_join(account, object);
  return true;
}

bool grow(ListObject* list, int64_t need) {
  if (!adopt(list, sizeof *list + sizeof(Value) * static_cast<size_t>(list->capacity))) return false;
  if (need <= list->capacity) return true;
  int64_t larger = list->capacity < 8 ? 8 : list->capacity * 2;
  if (larger < need) larger = need;
  if (larger > (int64_t{1} << 40)) return false;
  Value* grown = new_array<Value>(list->account, larger);
  if (!grown) return false;
  if (list->count) memcpy(static_cast<void*>(grown), list->items, sizeof(Value) * static_cast<size_t>(list->count));
  free_array(list->account, list->items, list->capacity);
  list->items = grown;
  list->capacity = larger;
  return true;
}

}  // namespace

void heap_release(Heap* object) {
  if (--object->refs == 0) heap_free(object);
}
void heap_free(Heap* object) {
  Heap* queue = nullptr;
  enqueue(object, &queue);
  while (queue) {
    Heap* dead = queue;
    queue = dead->next;
    size_t size = 0;
    Account* beside = nullptr;  // of another module's containers: this one may be the caller's own
    auto part = [&](Value* v) {
      Account* other = v->tag() < Tag::list ? nullptr : __atomic_load_n(&v->heap()->account, __ATOMIC_ACQUIRE);
      if (other && other != dead->account && other != beside) {
        account_let_go(beside);
        account_hold(beside = other);
      }
      let_go(v, &queue);
    };
    switch (dead->tag) {
      case Tag::tensor:
        tensor_destroy(static_cast<TensorObject*>(dead));
        continue;
      case Tag::list: {
        ListObject* list = static_cast<ListObject*>(dead);
        for (int64_t i = 0; i < list->count; ++i) part(&list->items[i]);
        free_array(list->account, list->items, list->capacity);
        size = sizeof *list;
        break;
      }
      case Tag::tuple: {
        TupleObject* tuple = static_cast<TupleObject*>(dead);
        for (int64_t i = 0; i < tuple->count; ++i) part(&tuple->items[i]);
        size = sizeof *tuple + sizeof(Value) * static_cast<size_t>(tuple->count);
        break;
      }
      case Tag::dict: {
        DictObject* dict = static_cast<DictObject*>(dead);
        for (int64_t i = 0; i < dict->used; ++i) {
          part(&dict->entries[i].key);
          part(&dict->entries[i].value);
        }
        free_array(dict->account, dict->entries, dict->capacity);
        free_array(dict->account, dict->slots, dict->slot_count);
        size = sizeof *dict;
        break;
      }
      case Tag::object: {
        Instance* instance = static_cast<Instance*>(dead);
        for (int32_t i = 0; i < instance->count; ++i) part(&instance->slots[i]);
        free_array(instance->account, instance->slots, instance->count);
        size = sizeof *instance;
        break;
      }
      default:
        size = sizeof(StringObject) + static_cast<size_t>(static_cast<StringObject*>(dead)->size);
        break;
    }
    Account* account = dead->account;
    account_give(account, size);
    account_leave(account, dead);
    account_let_go(beside);
    free(dead);
  }
}

void heap_empty(Heap* object) {
  switch (object->tag) {
    case Tag::list:
      return list_clear(static_cast<ListObject*>(object));
    case Tag::dict:
      return dict_clear(static_cast<DictObject*>(object));
    case Tag::tuple:
      for (int64_t i = 0; i < static_cast<TupleObject*>(object)->count; ++i) static_cast<TupleObject*>(object)->items[i] = Value();
      return;
    case Tag::object:
      for (int32_t i = 0; i < static_cast<Instance*>(object)->count; ++i) static_cast<Instance*>(object)->slots[i] = Value();
      return;
    default:
      return;
  }
}

// ---- strings ----
StringObject* string_create(const char* text, int64_t size) {
  if (size < 0 || size > (int64_t{1} << 40)) return nullptr;
  StringObject* s = create<StringObject>(Tag::string, static_cast<size_t>(size));
  if (!s) return nullptr;
  s->size = size;
  if (text && size) memcpy(s->text, text, static_cast<size_t>(size));
  return s;
}
StringObject* string_create(const char* text) { return string_create(text, static_cast<int64_t>(strlen(text))); }
StringObject* string_format(const char* format, ...) {
  __builtin_va_list args, again;
  __builtin_va_start(args, format);
  __builtin_va_copy(again, args);
  int size = vsnprintf(nullptr, 0, format, args);
  __builtin_va_end(args);
  StringObject* s = size < 0 ? nullptr : string_create(nullptr, size);
  if (s) vsnprintf(s->text, static_cast<size_t>(size) + 1, format, again);
  __builtin_va_end(again);
  return s;
}

// ---- lists and tuples ----
ListObject* list_create(int64_t capacity) {
  ListObject* list = create<ListObject>(Tag::list);
  if (!list || capacity <= 0 || grow(list, capacity)) return list;
  heap_release(list);
  return nullptr;
}
bool list_append(ListObject* list, const Value& item) { return list_insert(list, list->count, item); }
bool list_insert(ListObject* list, int64_t at, const Value& item) {
  Value kept(item);  // may lie in the list itself
  if (!grow(list, list->count + 1)) return false;
  memmove(static_cast<void*>(list->items + at + 1), list->items + at, sizeof(Value) * static_cast<size_t>(list->count - at));
  memset(static_cast<void*>(list->items + at), 0, sizeof(Value));
  list->items[at] = static_cast<Value&&>(kept);
  ++list->count;
  return true;
}
bool list_set(ListObject* list, int64_t at, const Value& item) {
  if (!grow(list, list->count)) return false;
  list->items[at] = item;
  return true;
}
void list_remove(ListObject* list, int64_t at) {
  Value gone;
  gone.swap(list->items[at]);
  memmove(static_cast<void*>(list->items + at), list->items + at + 1, sizeof(Value) * static_cast<size_t>(list->count - at - 1));
  --list->count;
  memset(static_cast<void*>(list->items + list->count), 0, sizeof(Value));
}
void list_clear(ListObject* list) {
  int64_t count = list->count;
  list->count = 0;
  for (int64_t i = 0; i < count; ++i) list->items[i] = Value();
}
TupleObject* tuple_create(int64_t count) {
  if (count < 0 || count > (int64_t{1} << 32)) return nullptr;
  TupleObject* tuple = create<TupleObject>(Tag::tuple, sizeof(Value) * static_cast<size_t>(count));
  if (tuple) tuple->count = count;
  return tuple;
}

// ---- dicts ----
bool dict_can_hold(const Value& key) { return key.is_number() || key.tag() == Tag::string; }

// SipHash-1-3 under a key of this process's own, so that nobody can put keys into a file that all fall into one place. The key comes from
// where the system put code, heap and stack, the clock and the process's number: a file that was written before knows none of these.
static uint64_t secret[2];
static bool have_secret() {
  static uint32_t state;  // 0: none yet; 1: a thread makes it; 2: there
  uint32_t none = 0;
  if (__atomic_load_n(&state, __ATOMIC_ACQUIRE) == 2) return true;
  if (__atomic_compare_exchange_n(&state, &none, 1u, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    pen_timespec t = {0, 0};
    clock_gettime(platform::kMonotonic, &t);
    void* heap = malloc(64);
    uint64_t parts[5] = {static_cast<uint64_t>(t.seconds) << 32 ^ static_cast<uint64_t>(t.nanoseconds), static_cast<uint64_t>(getpid()),
                         reinterpret_cast<uintptr_t>(heap), reinterpret_cast<uintptr_t>(&t), reinterpret_cast<uintptr_t>(&state)};
    free(heap);
    for (int i = 0; i < 10; ++i) {
      secret[i & 1] = (secret[i & 1] ^ parts[i % 5]) * 0x9E3779B97F4A7C15ull;
      secret[i & 1] ^= secret[i & 1] >> 29 ^ secret[~i & 1];
    }
    __atomic_store_n(&state, 2u, __ATOMIC_RELEASE);
  }
  while (__atomic_load_n(&state, __ATOMIC_ACQUIRE) != 2) sched_yield();
  return true;
}
static uint64_t sip_hash(const char* data, size_t size) {
  have_secret();
  auto turn = [](uint64_t x, int by) { return x << by | x >> (64 - by); };
  uint64_t a = secret[0] ^ 0x736f6d6570736575ull, b = secret[1] ^ 0x646f72616e646f6dull, c = secret[0] ^ 0x6c7967656e657261ull,
           d = secret[1] ^ 0x7465646279746573ull;
  auto round = [&] {
    a += b, b = turn(b, 13) ^ a, a = turn(a, 32);
    c += d, d = turn(d, 16) ^ c;
    a += d, d = turn(d, 21) ^ a;
    c += b, b = turn(b, 17) ^ c, c = turn(c, 32);
  };
  const uint64_t length = static_cast<uint64_t>(size) << 56;
  for (;; data += 8, size -= 8) {
    uint64_t word = 0;
    memcpy(&word, data, size < 8 ? size : 8);
    if (size < 8) word |= length;
    d ^= word;
    round();
    a ^= word;
    if (size < 8) break;
  }
  c ^= 0xff;
  round(), round(), round();
  return a ^ b ^ c ^ d;
}
// Numbers that are equal in Python (1, 1.0, True) hash alike.
static uint64_t hash_of(const Value& key) {
  if (key.tag() == Tag::string) return sip_hash(key.string()->text, static_cast<size_t>(key.string()->size));
  static uint64_t nans;
  double number = key.number();
  char bytes[sizeof number];
  memcpy(bytes, &number, sizeof number);
  if (number == 0) memset(bytes, 0, sizeof bytes);  // -0.0 too
  // No float equals an integer that doubles do not have, and nothing equals NaN: so many of these may not share a place.
  if (key.tag() == Tag::integer && (number >= 0x1p62 || number <= -0x1p62 || static_cast<int64_t>(number) != key.integer())) {
    int64_t whole = key.integer();
    memcpy(bytes, &whole, sizeof bytes);
  } else if (number != number) {
    uint64_t next = __atomic_add_fetch(&nans, 1, __ATOMIC_RELAXED);
    memcpy(bytes, &next, sizeof bytes);
  }
  return sip_hash(bytes, sizeof bytes);
}
static int64_t find_entry(const DictObject* dict, const Value& key, uint64_t hash, int64_t* slot) {
  int64_t compared = 0;
  if (!dict->slot_count) return -1;
  uint64_t mask = static_cast<uint64_t>(dict->slot_count) - 1;
  for (uint64_t i = hash & mask;; i = (i + 1) & mask) {
    int32_t at = dict->slots[i];
    if (at == 0) return -1;
    if (at < 0) continue;
    const DictObject::Entry& e = dict->entries[at - 1];
    if (e.hash == hash && values_equal(e.key, key, &compared) == 1) {
      if (slot) *slot = static_cast<int64_t>(i);
      return at - 1;
    }
  }
}
DictObject* dict_create() { return create<DictObject>(Tag::dict); }
Value* dict_find(DictObject* dict, const Value& key) {
  int64_t at = find_entry(dict, key, hash_of(key), nullptr);
  return at < 0 ? nullptr : &dict->entries[at].value;
}
static void put_slot(DictObject* dict, uint64_t hash, int64_t entry) {
  uint64_t mask = static_cast<uint64_t>(dict->slot_count) - 1, i = hash & mask;
  while (dict->slots[i] > 0) i = (i + 1) & mask;
  dict->slots[i] = static_cast<int32_t>(entry + 1);
}
static bool adopt_dict(DictObject* dict) {
  return adopt(dict, sizeof *dict + sizeof(DictObject::Entry) * static_cast<size_t>(dict->capacity) +
                         sizeof(int32_t) * static_cast<size_t>(dict->slot_count));
}
// Room for one more entry; removed ones are dropped on the way.
static bool reserve(DictObject* dict) {
  if (!adopt_dict(dict)) return false;
  if (dict->used < dict->capacity) return true;
  int64_t capacity = dict->count * 2 < 8 ? 8 : dict->count * 2, slot_count = 16;
  while (slot_count < capacity * 2) slot_count *= 2;
  if (capacity > (int64_t{1} << 30)) return false;
  DictObject::Entry* entries = new_array<DictObject::Entry>(dict->account, capacity);
  int32_t* slots = new_array<int32_t>(dict->account, slot_count);
  if (!entries || !slots) {
    free_array(dict->account, entries, capacity);
    free_array(dict->account, slots, slot_count);
    return false;
  }
  int64_t n = 0;
  for (int64_t i = 0; i < dict->used; ++i)
    if (dict->entries[i].live) memcpy(static_cast<void*>(&entries[n++]), &dict->entries[i], sizeof(DictObject::Entry));
  free_array(dict->account, dict->entries, dict->capacity);
  free_array(dict->account, dict->slots, dict->slot_count);
  dict->entries = entries, dict->slots = slots;
  dict->capacity = capacity, dict->slot_count = slot_count, dict->used = n;
  for (int64_t i = 0; i < n; ++i) put_slot(dict, entries[i].hash, i);
  return true;
}
bool dict_set(DictObject* dict, const Value& key, const Value& value) {
  uint64_t hash = hash_of(key);
  int64_t at = find_entry(dict, key, hash, nullptr);
  if (at >= 0) {
    if (!adopt_dict(dict)) return false;
    dict->entries[at].value = value;
    return true;
  }
  Value kept_key(key), kept(value);  // may lie in this dict
  if (!reserve(dict)) return false;
  DictObject::Entry& e = dict->entries[dict->used];
  e.key = static_cast<Value&&>(kept_key);
  e.value = static_cast<Value&&>(kept);
  e.hash = hash;
  e.live = true;
  put_slot(dict, hash, dict->used++);
  ++dict->count;
  return true;
}
bool dict_remove(DictObject* dict, const Value& key) {
  int64_t slot, at = find_entry(dict, key, hash_of(key), &slot);
  if (at < 0) return false;
  dict->slots[slot] = -1;
  DictObject::Entry& e = dict->entries[at];
  e.live = false;
  e.key = Value();
  e.value = Value();
  --dict->count;
  return true;
}
void dict_clear(DictObject* dict) {
  for (int64_t i = 0; i < dict->used; ++i) {
    dict->entries[i].live = false;
    dict->entries[i].key = Value();
    dict->entries[i].value = Value();
  }
  if (dict->slots) memset(dict->slots, 0, sizeof(int32_t) * static_cast<size_t>(dict->slot_count));
  dict->used = dict->count = 0;
}
void dict_close_gaps(DictObject* dict) {
  if (dict->used == dict->count) return;
  int64_t n = 0;
  for (int64_t i = 0; i < dict->used; ++i) {
    if (!dict->entries[i].live) continue;
    if (n != i) {  // what was there is None
      memcpy(static_cast<void*>(&dict->entries[n]), &dict->entries[i], sizeof(DictObject::Entry));
      memset(static_cast<void*>(&dict->entries[i]), 0, sizeof(DictObject::Entry));
    }
    ++n;
  }
  dict->used = n;
  memset(dict->slots, 0, sizeof(int32_t) * static_cast<size_t>(dict->slot_count));
  for (int64_t i = 0; i < n; ++i) put_slot(dict, dict->entries[i].hash, i);
}
bool dict_next(const DictObject* dict, int64_t* at) {
  while (++*at < dict->used)
    if (dict->entries[*at].live) return true;
  return false;
}

// ---- objects ----
Instance* instance_create(const char* type_name, const ClassInfo* type, int32_t slots) {
  Instance* object = create<Instance>(Tag::object);
  if (!object) return nullptr;
  object->type_name = type_name;
  object->type = type;
  if (slots == 0 || instance_reserve(object, slots - 1)) return object;
  heap_release(object);
  return nullptr;
}
bool instance_reserve(Instance* object, int32_t slot) {
  if (slot < object->count) return true;
  if (!adopt(object, sizeof *object + sizeof(Value) * static_cast<size_t>(object->count))) return false;
  Value* grown = new_array<Value>(object->account, int64_t{slot} + 1);
  if (!grown) return false;
  if (object->count) memcpy(static_cast<void*>(grown), object->slots, sizeof(Value) * static_cast<size_t>(object->count));
  free_array(object->account, object->slots, object->count);
  object->slots = grown;
  object->count = slot + 1;
  return true;
}
int instance_slot(const Instance* object, const char* name) {
  for (int32_t i = 0; object->type && i < object->type->field_count; ++i)
    if (strcmp(object->type->fields[i], name) == 0) return i;
  return -1;
}
const Value* instance_attribute(const Instance* object, const char* name) {
  int slot = instance_slot(object, name);
  return slot >= 0 && slot < object->count ? &object->slots[slot] : nullptr;
}

// ---- equality ----
static int equal(const Value& a, const Value& b, int depth, int64_t* left);
static int equal_items(const Value* a, const Value* b, int64_t count, int depth, int64_t* left) {
  for (int64_t i = 0; i < count; ++i) {
    int same = equal(a[i], b[i], depth + 1, left);
    if (same != 1) return same;
  }
  return 1;
}
int values_equal(const Value& a, const Value& b, int64_t* compared) {
  int64_t left = kMaxComparisons;
  int same = equal(a, b, 0, &left);
  *compared += kMaxComparisons - left;
  return same;
}
static int equal(const Value& a, const Value& b, int depth, int64_t* left) {
  if (depth > kMaxNesting || (--*left < 0 && depth > 1)) return -1;
  if (a.is_number() && b.is_number()) {
    if (a.tag() != Tag::real && b.tag() != Tag::real) return a.integer() == b.integer();
    return a.number() == b.number();
  }
  if (a.tag() != b.tag()) return 0;
  switch (a.tag()) {
    case Tag::none:
      return 1;
    case Tag::string:
      if (a.string()->size != b.string()->size) return 0;
      *left -= a.string()->size >> 4;
      return memcmp(a.string()->text, b.string()->text, static_cast<size_t>(a.string()->size)) == 0;
    case Tag::list:
      return a.list()->count == b.list()->count ? equal_items(a.list()->items, b.list()->items, a.list()->count, depth, left) : 0;
    case Tag::tuple:
      return a.tuple()->count == b.tuple()->count ? equal_items(a.tuple()->items, b.tuple()->items, a.tuple()->count, depth, left) : 0;
    case Tag::dict: {
      if (a.dict()->count != b.dict()->count) return 0;
      *left -= a.dict()->used;
      for (int64_t i = -1; dict_next(a.dict(), &i);) {
        const Value* other = dict_find(b.dict(), a.dict()->entries[i].key);
        int same = other ? equal(a.dict()->entries[i].value, *other, depth + 1, left) : 0;
        if (same != 1) return same;
      }
      return 1;
    }
    default:
      return a.heap() == b.heap();
  }
}

}  // namespace pen
