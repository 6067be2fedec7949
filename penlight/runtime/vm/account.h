// What the values of one module hold: how much memory, below a limit, and which containers there are, so that those that
// contain themselves are found and freed. Every value made while a module runs belongs to its account, and the account keeps
// the model (class names, weights in the mapped file) until the last of them is gone: results may outlive module and model.
//
// Operators make values without saying for whom (list_create, tensor_create), so the account at work is known by thread.
#pragma once
#include "penlight/runtime/base/platform.h"

namespace pen {

struct Heap;
struct Model;

struct Account {
  size_t refs;                         // of the machine, and of each value
  size_t used;                         // bytes
  size_t limit;                        // 0: none
  size_t containers, containers_kept;  // now, and after the last search for cycles
  Heap* first;                         // of the containers
  Model* model;
  size_t boxes;    // containers that the caller holds
  bool orphan;     // its machine is gone
  bool refused;    // something was over the limit
  uint8_t lock;    // a value may be given back by another thread than the one that runs the module
  bool running;    // containers that other threads let go of wait in `dropped` until it is not
  int32_t giving;  // containers that such threads free because it was not; nobody searches for cycles meanwhile
  bool lost;       // the process forked while a thread had the lock, which is not there any more: the list may be half changed
  int32_t process;
  Heap* dropped;
};

// Null when out of memory. The model may be null.
Account* account_create(uint64_t limit, const Model* model);
void account_release(Account* account);
// The account of the values that this thread makes from here on. Returns the one before it: what to enter when done.
Account* account_enter(Account* account);
// Of this thread; null: values are nobody's.
Account* account_at_work();
// False where it would be over the limit. All of these take null: nothing is counted.
bool account_take(Account* account, size_t bytes);
void account_give(Account* account, size_t bytes);
size_t account_used(Account* account);
// A value begins and ends to belong to an account: it holds a reference to it, and containers are on its list.
void account_join(Account* account, Heap* object);
void account_leave(Account* account, Heap* object);
// Frees what is held by cycles only: containers that nothing outside of them refers to. For a run, which keeps others from freeing any;
// where one is being freed still, since before the run or further out on this thread, nothing is done: the next search finds them. (In a
// child of fork() never, where the thread that was freeing is not there: what it held may be half gone.)
void account_collect(Account* account);
// Something outside of an account lets go of containers of it, between these two: it may have been the last to hold a cycle. If the machine
// is gone, and the caller has no containers, cycles are freed. (account_let_go takes null.)
void account_hold(Account* account);
void account_let_go(Account* account);
// The caller takes a container, and gives it back: the same.
void account_box(Account* account);
void account_unbox(Account* account);
// Of an object that nothing refers to any more, before anything else is done with it. While a module runs, its containers are its own: one
// that another thread let go of, whatever that had held it by (a box, a tuple of the caller's), is kept until the run is over. False: free
// it now, account_leave last.
bool account_defer(Heap* object);
void account_begin_run(Account* account);
void account_end_run(Account* account);
// The machine lets go of it.
void account_orphan(Account* account);
// account_collect, if there are more than twice as many containers as after the last time.
void account_collect_sometimes(Account* account);

}  // namespace pen
