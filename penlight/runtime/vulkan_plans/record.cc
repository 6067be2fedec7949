#include "penlight/runtime/gpu/unpack.h"
#include "penlight/runtime/vulkan_plans/plans.h"
#include "penlight/runtime/vulkan_plans/weights.h"

namespace pen::vulkan_plans {

using vulkan::Range;

namespace {

// Everything that a recording is made of, while it is made.
struct Recorder {
  Runner* r;
  Target& t;
  const Model& model;
  Plan* plan;
  Held* h;
  Pool scrap;
  int32_t count;  // of steps
  vulkan::Step* steps;
  vulkan::PipelineRequest* requests;
  vulkan::Program* programs;  // by shader
  const vulkan::Pipeline** pipelines;
  vulkan::Weight* weights;
  int32_t* weight_of;  // of each plan buffer: its number in weights, or -1
  int32_t weight_count;

  ~Recorder() {
    for (int i = 0; programs && i < shader::kShaders; ++i) free(const_cast<uint32_t*>(programs[i].words));
    scrap.release();
  }

  Status out_of_memory() { return report(r->error, PEN_ERROR_MEMORY, "", "memory for the plan"); }

  template <class F>
  Status each_dispatch(F f) {
    for (int32_t i = 0; i < plan->step_count; ++i) {
      const Step& step = plan->steps[i];
      for (int32_t k = 0; k < step.copy_count; ++k)
        for (Dispatch* d = static_cast<Dispatch*>(step.copies[k].params); d; d = d->next) PEN_TRY(f(i, d));
      for (Dispatch* d = static_cast<Dispatch*>(step.params); d; d = d->next) PEN_TRY(f(i, d));
    }
    return PEN_OK;
  }

  // Whether shaders can have a caller's memory itself: numbers are stored alike there, and it is not written while it is still read.
  bool can_use(int32_t buffer, const Memory& memory) const {
    const Buffer& b = plan->buffers[buffer];
    if (element_bytes(t, register_dtype(b)) != dtype_size(register_dtype(b))) return false;
    for (int32_t i = 0; i < plan->buffers.count; ++i)
      if (i != buffer && bound_to(*r, plan->buffers[i]) == &memory &&
          (b.kind == Buffer::Kind::output || plan->buffers[i].kind == Buffer::Kind::output))
        return false;
    return true;
  }

  // Inputs and outputs in one buffer of the device, and in one to upload from and one to download to.
  Status make_ports() {
    h->ports = static_cast<Held::Port*>(calloc(static_cast<size_t>(plan->buffers.count) + 1, sizeof(Held::Port)));
    h->bound = static_cast<uint64_t*>(calloc(static_cast<size_t>(plan->buffers.count) + 1, sizeof(uint64_t)));
    if (!h->ports || !h->bound) return out_of_memory();
    uint64_t io = 0, up = 0, down = 0;
    for (int32_t i = 0; i < plan->buffers.count; ++i) {
      const Buffer& b = plan->buffers[i];
      bool input = b.kind == Buffer::Kind::input, output = b.kind == Buffer::Kind::output;
      if (!input && !output) continue;
      uint64_t bytes = static_cast<uint64_t>(b.size);
      const Memory* callers = bound_to(*r, b);
      h->ports[i] = {io, input ? up : down, bytes, callers ? &callers->buffer : nullptr, callers && can_use(i, *callers)};
      if (callers) h->bound[i] = callers->number;
      if (!h->ports[i].direct) io += aligned(bytes);
      if (callers || !bytes) continue;
      (input ? up : down) += aligned(bytes);
      (input ? h->bytes_up : h->bytes_down) += bytes;
      ++h->copies;
    }
    PEN_TRY(each_dispatch([&](int32_t, Dispatch* d) {
      for (int k = 0; k < d->operand_count; ++k)
        if (d->operands[k].buffer < Operand::kNone) h->begun.bytes = 2 * kAlign;
      return PEN_OK;
    }));
    h->begun.io = io;
    h->begun.host = up;
    h->faults = down;
    io += h->begun.bytes;
    up += h->begun.bytes;
    if (h->begun.bytes) down += kAlign;
    PEN_TRY(vulkan::create_buffer(t.device, vulkan::Use::device, io, &h->io, r->error));
    PEN_TRY(vulkan::create_buffer(t.device, vulkan::Use::upload, up, &h->up, r->error));
    return vulkan::create_buffer(t.device, vulkan::Use::download, down, &h->down, r->error);
  }

  DType register_dtype(const Buffer& b) const {
    if (b.kind == Buffer::Kind::input)
      for (int32_t i = 0; i < plan->input_count; ++i)
        if (plan->inputs[i].index == static_cast<uint32_t>(b.index)) return plan->inputs[i].tensor.dtype;
    for (int32_t i = 0; i < plan->output_count; ++i)
      if (plan->outputs[i].index == static_cast<uint32_t>(b.index)) return plan->outputs[i].tensor.dtype;
    return DType::f32;
  }

  Status collect_weights() {
    weight_of = scrap.take_array<int32_t>(plan->buffers.count + 1);
    weights = scrap.take_array<vulkan::Weight>(plan->buffers.count + 1);
    if (!weight_of || !weights) return out_of_memory();
    for (int32_t i = 0; i < plan->buffers.count; ++i) weight_of[i] = -1;
    PEN_TRY(each_dispatch([&](int32_t, Dispatch* d) {
      ++count;
      for (int k = 0; k < d->operand_count; ++k) {
        const Operand& o = d->operands[k];
        if (o.buffer < 0 || plan->buffers[o.buffer].kind != Buffer::Kind::constant || weight_of[o.buffer] >= 0) continue;
        const Buffer& b = plan->buffers[o.buffer];
        weight_of[o.buffer] = weight_count;
        weights[weight_count++] = {b.base, static_cast<uint64_t>(b.size), t.limits.f16 && o.dtype == DType::f32, nullptr, 0};
      }
      return PEN_OK;
    }));
    return vulkan::place_weights(t.device, model, weights, weight_count, r->error);
  }

  // Where an operand lies, at an offset that the device can bind, and how many elements after that it begins.
  Range range_of(const Operand& o, bool written, uint32_t* first) {
    *first = 0;
    if (o.buffer < Operand::kNone) return {&h->io, h->begun.io + (o.buffer == Operand::kRandom ? kAlign : 0), kFaultWords * 4, written};
    if (o.buffer < 0 || o.bytes == 0) return {&h->io, 0, 4, false};  // nothing that is read
    int32_t root = root_of(*plan, o.buffer);
    const Buffer& b = plan->buffers[root];
    uint64_t inside = stored(t, o.dtype, o.offset), bytes = stored(t, o.dtype, o.bytes);
    const vulkan::Buffer* buffer = &h->io;
    uint64_t at = 0;
    if (b.kind == Buffer::Kind::arena) {
      buffer = &t.arena;
      at = static_cast<uint64_t>(b.offset);
    } else if (b.kind == Buffer::Kind::constant) {
      const vulkan::Weight& w = weights[weight_of[o.buffer]];
      buffer = w.buffer;
      at = w.offset;
    } else if (h->ports[root].direct) {
      buffer = h->ports[root].callers;
    } else {
      at = h->ports[root].io;
    }
    at += inside;
    uint64_t rest = at % t.device->info.limits.storage_alignment;
    *first = static_cast<uint32_t>(rest / static_cast<uint64_t>(element_bytes(t, o.dtype)));
    uint64_t end = (at + bytes + 15) / 16 * 16;  // a shader may look at four elements at a time
    return {buffer, at - rest, (end < buffer->bytes ? end : buffer->bytes) - (at - rest), written};
  }

  // A step's shader, unpacked once: steps with the same one are known by that (pipeline.cc).
  Status request(int32_t index, uint16_t number, const uint32_t* constants, uint32_t constant_count) {
    const ShaderProgram& p = kShaderPrograms[number];
    vulkan::Program& program = programs[number];
    if (!program.words) {
      program = {p.name, nullptr, 0, p.buffers, p.push_bytes};
      program.words = unpack_shader(p, t.limits.f16 && p.words[1], &program.word_count);
    }
    if (!program.word_count) return report(r->error, PEN_ERROR_KERNEL, t.device->info.name, "a shader that this library has", p.name);
    if (!program.words) return out_of_memory();
    requests[index] = {&program, constants, constant_count, 0};
    return PEN_OK;
  }

  Status add_dispatch(int32_t index, const Dispatch& d) {
    const ShaderProgram& p = kShaderPrograms[d.shader];
    PEN_TRY(request(index, d.shader, d.constants, d.constant_count));
    vulkan::Step& s = steps[index];
    Range* ranges = scrap.take_array<Range>(d.operand_count + 1);
    uint32_t* push = scrap.take_array<uint32_t>(d.push_words + 1);
    if (!ranges || !push) return out_of_memory();
    memcpy(push, d.push, d.push_words * size_t{4});
    for (int k = 0; k < d.operand_count; ++k) {
      uint32_t first;
      ranges[k] = range_of(d.operands[k], d.written >> k & 1, &first);
      if (d.at[k] >= 0)
        push[d.at[k]] += first;
      else if (first)
        return report(r->error,
                      {PEN_ERROR_ARGUMENT, t.device->info.name, p.name, "", "a buffer at a multiple of its alignment", "another"});
    }
    // What could be written and is not stands where something is: apart, it would seem to be written there.
    for (int k = 0; k < d.operand_count; ++k)
      for (int j = 0; j < d.operand_count && d.operands[k].buffer == Operand::kNone && d.written >> k & 1; ++j)
        if (d.operands[j].buffer != Operand::kNone && d.written >> j & 1) ranges[k] = ranges[j];
    s.ranges = ranges;
    s.range_count = d.operand_count;
    s.push = push;
    memcpy(s.groups, d.groups, sizeof s.groups);
    return PEN_OK;
  }

  // A port between its place on the device and the host's: a copy, or a shader where its numbers change.
  Status add_port(int32_t index, int32_t buffer, bool input) {
    const Held::Port& port = h->ports[buffer];
    DType dtype = register_dtype(plan->buffers[buffer]);
    Range device = {&h->io, port.io, stored(t, dtype, static_cast<int64_t>(port.bytes)), input};
    Range host = {input ? &h->up : &h->down, port.host, port.bytes, !input};
    if (port.callers) host = {port.callers, 0, port.bytes, !input};
    Range* ranges = scrap.take_array<Range>(2);
    if (!ranges) return out_of_memory();
    ranges[0] = input ? host : device;
    ranges[1] = input ? device : host;
    vulkan::Step& s = steps[index];
    s.ranges = ranges;
    s.range_count = 2;
    if (device.bytes == host.bytes) return PEN_OK;
    PEN_TRY(request(index, input ? shader::Narrow::kNumber : shader::Widen::kNumber, nullptr, 0));
    uint32_t* push = scrap.take_array<uint32_t>(4);
    if (!push) return out_of_memory();
    int64_t n = static_cast<int64_t>(port.bytes / 4);
    push[0] = static_cast<uint32_t>(n);
    s.push = push;
    Groups groups = rounds(n, 128);
    s.groups[0] = static_cast<uint32_t>(groups.x);
    s.groups[1] = s.groups[2] = 1;
    return PEN_OK;
  }

  // Before the first dispatch that is `begun`, and after the last that are the faults.
  Status add_begun(int32_t index, bool start) {
    Range* ranges = scrap.take_array<Range>(2);
    if (!ranges) return out_of_memory();
    const Held::Port& p = h->begun;
    ranges[0] = start ? Range{&h->up, p.host, p.bytes, false} : Range{&h->io, p.io, kFaultWords * 4, false};
    ranges[1] = start ? Range{&h->io, p.io, p.bytes, true} : Range{&h->down, h->faults, kFaultWords * 4, true};
    steps[index].ranges = ranges;
    steps[index].range_count = 2;
    h->timed_steps[index] = -1;
    return PEN_OK;
  }

  Status record() {
    PEN_TRY(make_ports());
    PEN_TRY(collect_weights());
    int32_t most = count + plan->buffers.count + 2;
    steps = scrap.take_array<vulkan::Step>(most + 1);
    requests = scrap.take_array<vulkan::PipelineRequest>(most + 1);
    programs = scrap.take_array<vulkan::Program>(shader::kShaders);
    pipelines = scrap.take_array<const vulkan::Pipeline*>(most + 1);
    h->timed_steps = static_cast<int32_t*>(calloc(static_cast<size_t>(most) + 1, sizeof(int32_t)));
    if (!steps || !requests || !programs || !pipelines || !h->timed_steps) return out_of_memory();
    int32_t n = 0;
    for (int32_t i = 0; i < plan->buffers.count; ++i)
      if (plan->buffers[i].kind == Buffer::Kind::input && h->ports[i].bytes && !h->ports[i].direct) {
        h->timed_steps[n] = -1;
        PEN_TRY(add_port(n++, i, true));
      }
    if (h->begun.bytes) PEN_TRY(add_begun(n++, true));
    PEN_TRY(each_dispatch([&](int32_t step, Dispatch* d) {
      h->timed_steps[n] = step;
      return add_dispatch(n++, *d);
    }));
    for (int32_t i = 0; i < plan->buffers.count; ++i)
      if (plan->buffers[i].kind == Buffer::Kind::output && h->ports[i].bytes && !h->ports[i].direct) {
        h->timed_steps[n] = -1;
        PEN_TRY(add_port(n++, i, false));
      }
    if (h->begun.bytes) PEN_TRY(add_begun(n++, false));
    // Pipelines are asked for together; steps that are copies have none.
    int32_t wanted = 0;
    int32_t* places = scrap.take_array<int32_t>(n + 1);
    vulkan::PipelineRequest* asked = scrap.take_array<vulkan::PipelineRequest>(n + 1);
    if (!places || !asked) return out_of_memory();
    for (int32_t i = 0; i < n; ++i)
      if (requests[i].program) {
        places[wanted] = i;
        asked[wanted++] = requests[i];
      }
    PEN_TRY(vulkan::make_pipelines(t.device, asked, wanted, pipelines, r->pool, r->error));
    for (int32_t i = 0; i < wanted; ++i) steps[places[i]].pipeline = pipelines[i];
    h->recorded = n;
    h->dispatches = static_cast<uint64_t>(n) - h->copies;
    h->timed = is_timed(*r, t);
    h->nanoseconds = static_cast<uint64_t*>(calloc(static_cast<size_t>(n) + 1, sizeof(uint64_t)));
    if (!h->nanoseconds) return out_of_memory();
    return vulkan::create_recording(t.device, steps, n, h->timed, &h->recording, r->error);
  }
};

}  // namespace

Status record(Runner* r, const Model& model, Plan* plan, Held* h) {
  Recorder recorder = {r, *h->target, model, plan, h, {}, 0, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, 0};
  return recorder.record();
}

}  // namespace pen::vulkan_plans
