// A batch in turns. Where the results of steps follow, image by image, from their inputs, a batch need not go through each step as a whole:
// all its images are in no cache, and every step would read from memory what the step before has written there. So a few images go
// through many steps, then the next few. Values between these steps have memory for the few alone, the same in every turn; what other steps
// read or write has room for all, and operands move on in it from turn to turn.
//
// That it may be done is proved step by step, from what operators declare (Op.images in ops/registry.py): images lie along dim 0 of the
// parameters that the schema marks with '+' and of all results; all else must be constant. Bits are the same, by that declaration, so that
// caches may decide how many images take a turn (images_at_once in turns.cc).
#pragma once
#include "penlight/runtime/exec/bind.h"

namespace pen {

// Cuts the steps of a region, bound for the whole batch, into turns where that gains. `values`: its values; `first`: its first step;
// `scrap`: for what only this needs. False when out of memory.
bool choose_turns(Plan* plan, const Model& model, const format::Region& region, const ValueState* values, int32_t first, Pool* scrap);
// Of each value of a region, the last node that reads it, counted from 1. Null when out of memory.
uint32_t* last_readers(const Model& model, const format::Region& region, Pool* scrap);
// Around bind_node, for a step that takes turns: its operands as one turn sees them, and where they are in the next one.
void begin_turn(Given::State& s, const Turns& turns);
Status end_turn(Given::State& s, Turns* turns);

}  // namespace pen
