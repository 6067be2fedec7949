// Values of the VM: what TorchScript code computes with. A Value is 16 bytes: a number, or a counted reference to something
// on the heap. All bytes zero is None, so zeroed memory is an array of Values.
//
// Lists, dicts and objects are shared by reference and change in place, as in Python; strings and tuples never change. Values belong to
// one module, which has one caller at a time; only giving references back is for any thread (count.h, account_defer).
#pragma once
#include "penlight/runtime/base/memory.h"
#include "penlight/runtime/base/tensor.h"
#include "penlight/runtime/file/class.h"
#include "penlight/runtime/vm/account.h"
#include "penlight/runtime/vm/count.h"

namespace pen {

enum class Tag : uint8_t { none = 0, boolean, integer, real, string, tensor, list, tuple, dict, object };
constexpr char kTagNames[][7] = {"None", "bool", "int", "float", "str", "Tensor", "list", "tuple", "dict", "object"};

// What every heap object begins with.
struct Heap {
  Count refs;
  Tag tag;
  int32_t mark;      // account_collect's
  Heap* next;        // in the queue of those about to be freed, or in one of account_collect's
  Account* account;  // that it is counted by; null: none
  Heap *before, *after;
};
// Gives one reference back. Whatever was held by it alone is freed too, without recursion: a list may be nested to any depth.
void heap_release(Heap* object);
// Frees what nobody holds, as heap_release does, or leaves it for the end of the run.
void heap_free(Heap* object);
// Takes everything out of a container.
void heap_empty(Heap* object);

struct StringObject;
struct TensorObject;
struct ListObject;
struct TupleObject;
struct DictObject;
struct Instance;

class Value {
 public:
  Value() = default;
  explicit Value(bool b) : tag_(Tag::boolean) { payload_.integer = b; }
  explicit Value(int64_t i) : tag_(Tag::integer) { payload_.integer = i; }
  explicit Value(double d) : tag_(Tag::real) { payload_.real = d; }
  // Takes over the caller's reference; null makes None.
  template <class T>
  static Value own(T* object) {
    Value v;
    if (!object) return v;
    v.tag_ = object->tag;
    v.payload_.heap = object;
    return v;
  }
  // Another reference to the same.
  template <class T>
  static Value share(T* object) {
    if (object) ++object->refs;
    return own(object);
  }
  Value(const Value& other) : payload_(other.payload_), tag_(other.tag_) { keep(); }
  Value(Value&& other) noexcept : payload_(other.payload_), tag_(other.tag_) { other.tag_ = Tag::none; }
  Value& operator=(const Value& other) {
    Value copy(other);
    swap(copy);
    return *this;
  }
  Value& operator=(Value&& other) noexcept {
    Value taken(static_cast<Value&&>(other));
    swap(taken);
    return *this;
  }
  ~Value() {
    if (on_heap()) heap_release(payload_.heap);
  }
  void swap(Value& other) {
    Payload p = payload_;
    Tag t = tag_;
    payload_ = other.payload_, tag_ = other.tag_;
    other.payload_ = p, other.tag_ = t;
  }

  Tag tag() const { return tag_; }
  const char* tag_name() const { return kTagNames[static_cast<int>(tag_)]; }
  bool on_heap() const { return tag_ >= Tag::string; }
  bool is_none() const { return tag_ == Tag::none; }
  bool is_number() const { return tag_ == Tag::integer || tag_ == Tag::real || tag_ == Tag::boolean; }

  // The caller has looked at tag() before.
  bool boolean() const { return payload_.integer != 0; }
  int64_t integer() const { return payload_.integer; }
  double real() const { return payload_.real; }
  // Any number as a double, or cut to an integer.
  double number() const { return tag_ == Tag::real ? payload_.real : static_cast<double>(payload_.integer); }
  StringObject* string() const { return reinterpret_cast<StringObject*>(payload_.heap); }
  TensorObject* tensor() const { return reinterpret_cast<TensorObject*>(payload_.heap); }
  ListObject* list() const { return reinterpret_cast<ListObject*>(payload_.heap); }
  TupleObject* tuple() const { return reinterpret_cast<TupleObject*>(payload_.heap); }
  DictObject* dict() const { return reinterpret_cast<DictObject*>(payload_.heap); }
  Instance* object() const { return reinterpret_cast<Instance*>(payload_.heap); }
  Heap* heap() const { return payload_.heap; }
  // The very same object, or equal numbers of one kind: Python's `is`.
  bool is(const Value& other) const { return tag_ == other.tag_ && (tag_ == Tag::none || payload_.integer == other.payload_.integer); }

 private:
  union alignas(8) Payload {  // i386 would have it at multiples of 4
    int64_t integer;
    double real;
    Heap* heap;
  };
  void keep() {
    if (on_heap()) ++payload_.heap->refs;
  }
  Payload payload_ = {0};
  Tag tag_ = Tag::none;
};
static_assert(sizeof(Value) == 16, "a tag and eight bytes");

struct StringObject : Heap {
  int64_t size;
  char text[1];  // `size` bytes of UTF-8 and a zero
};
struct ListObject : Heap {
  Value* items;
  int64_t count, capacity;
};
struct TupleObject : Heap {
  int64_t count;
  const struct ClassInfo* type;  // of a named tuple; else null
  Value items[1];
};
// Insertion order, as in Python. Keys are numbers, strings and bools.
struct DictObject : Heap {
  struct Entry {
    Value key, value;
    uint64_t hash;
    bool live;
  };
  Entry* entries;  // in order of insertion; removed ones stay, not live, until the next growth
  int64_t used, capacity, count;
  int32_t* slots;  // open addressing: entry number + 1, 0 empty, -1 removed
  int64_t slot_count;
};
// A module or another object of a TorchScript class. Attributes are numbered in the order of the class.
struct Instance : Heap {
  const ClassInfo* type;  // null: unknown
  const char* type_name;
  Value* slots;
  int32_t count;
};

// All of these return null when out of memory.
StringObject* string_create(const char* text, int64_t size);
StringObject* string_create(const char* text);
StringObject* string_format(const char* format, ...) __attribute__((format(printf, 1, 2)));
ListObject* list_create(int64_t capacity);
// False when out of memory; the list is then as before.
bool list_append(ListObject* list, const Value& item);
bool list_insert(ListObject* list, int64_t at, const Value& item);
bool list_set(ListObject* list, int64_t at, const Value& item);
void list_remove(ListObject* list, int64_t at);
void list_clear(ListObject* list);
TupleObject* tuple_create(int64_t count);
DictObject* dict_create();
// Null where the key is not there. `key` is a number, bool or string (dict_can_hold).
Value* dict_find(DictObject* dict, const Value& key);
bool dict_set(DictObject* dict, const Value& key, const Value& value);
bool dict_remove(DictObject* dict, const Value& key);
void dict_clear(DictObject* dict);
// Closes the gaps that removed entries left: entry i is then entries[i].
void dict_close_gaps(DictObject* dict);
bool dict_can_hold(const Value& key);
// The entries that are there, in order: for (int64_t i = -1; dict_next(dict, &i);) … dict->entries[i]
bool dict_next(const DictObject* dict, int64_t* at);
Instance* instance_create(const char* type_name, const ClassInfo* type, int32_t slots);
// Makes room for this slot, None where it is new. False when out of memory.
bool instance_reserve(Instance* object, int32_t slot);
// The number of an attribute; -1: there is none of that name.
int instance_slot(const Instance* object, const char* name);
// Null where there is none.
const Value* instance_attribute(const Instance* object, const char* name);

// Equal as in Python for numbers, strings, None and containers of these; tensors are equal to themselves only. -1: nested
// deeper than kMaxNesting, or more to compare than kMaxComparisons (parts may be shared, so that a little memory is a lot).
// Adds what was compared to *compared: values, and text by 16 bytes.
constexpr int kMaxNesting = 64;
constexpr int64_t kMaxComparisons = int64_t{1} << 26;
int values_equal(const Value& a, const Value& b, int64_t* compared);

}  // namespace pen
