// runtime/vulkan on the machine's driver: `vulkan FOLDER-OF-SHADERS WHAT`. Every function, its refusals included.
#include "program.h"
#include "penlight/runtime/vulkan/cache.h"

static void test_list() {
  DeviceInfo infos[8];
  int32_t count;
  OK(list_devices(infos, 8, &count, &error));
  CHECK(count >= 1);
  for (int32_t i = 0; i < count; ++i) {
    const DeviceInfo& d = infos[i];
    const Limits& l = d.limits;
    printf(
        "%s: %s, Vulkan %u.%u, %s %s, subgroup %u (%u-%u%s), groups of %u, %u bytes shared, alignment %u, range %llu, push %u, timestamps "
        "%u "
        "bits of %g ns, f16 %d/%d, 8-bit %d/%d, dot %d/%d, cooperative khr %d nv %d shapes %d, unified %d\n",
        d.name, type_name(d.type), d.api >> 22, d.api >> 12 & 0x3ff, d.driver, d.driver_info, l.subgroup_size, l.subgroup_min,
        l.subgroup_max, l.subgroup_choice ? "" : ", fixed", l.group_invocations, l.shared_bytes, l.storage_alignment,
        static_cast<unsigned long long>(l.storage_range), l.push_bytes, l.timestamp_bits, static_cast<double>(l.timestamp_period),
        l.f16_storage, l.f16_arithmetic, l.i8_storage, l.i8_arithmetic, l.integer_dot, l.integer_dot_fast, l.cooperative_khr,
        l.cooperative_nv, l.shape_count, l.unified);
    for (int32_t k = 0; k < l.shape_count; ++k) printf("  %u x %u x %u\n", l.shapes[k].m, l.shapes[k].n, l.shapes[k].k);
    CHECK(!d.unfit[0] && d.name[0] && d.api >= kVersion11);
    CHECK(l.subgroup_size && l.subgroup_min <= l.subgroup_size && l.subgroup_size <= l.subgroup_max);
    CHECK(l.group_invocations >= 128 && l.shared_bytes >= 16384 && l.storage_range >= 1 << 27 && l.push_bytes >= 128);
    CHECK(l.allocation_bytes >= 1 << 30 && l.memory_bytes && l.storage_alignment && l.storage_alignment <= 256 &&
          l.group_count[0] >= 65535);
  }
  int32_t again;
  OK(list_devices(nullptr, 0, &again, &error));
  CHECK(again == count);

  Device *first, *same, *named, *numbered;
  OK(open_device("", &first, &error));
  OK(open_device(nullptr, &same, &error));
  OK(open_device("0", &numbered, &error));
  std::string part = std::string(infos[0].name).substr(2, 6);
  for (char& c : part) c = static_cast<char>(toupper(c));
  OK(open_device(part.c_str(), &named, &error));
  CHECK(first == same && first == named && first == numbered && first->users == 4);
  for (Device* d : {first, same, named, numbered}) release_device(d);
  Device* none;
  for (const char* wrong : {"no such device", "99", "4294967296", "-1"})
    FAILS(open_device(wrong, &none, &error), PEN_ERROR_ARGUMENT, wrong, "part of a device's name", infos[0].name);
  CHECK(!none);
  setenv("PENLIGHT_VULKAN_DEVICE", "riva 128", 1);
  FAILS(open_device("0", &none, &error), PEN_ERROR_ARGUMENT, "PENLIGHT_VULKAN_DEVICE", "riva 128");
  setenv("PENLIGHT_VULKAN_DEVICE", infos[0].name, 1);
  OK(open_device("no such device", &first, &error));
  release_device(first);
  unsetenv("PENLIGHT_VULKAN_DEVICE");
}

static void test_add(Device* d) {
  Shader add("add", 3, 8);
  const uint32_t n = 1000;
  const uint64_t bytes = n * 4;
  uint64_t step = (bytes + 255) / 256 * 256;
  Buffer up, in, down;
  OK(create_buffer(d, Use::upload, 2 * step, &up, &error));
  OK(create_buffer(d, Use::device, 3 * step, &in, &error));
  OK(create_buffer(d, Use::download, step, &down, &error));
  CHECK(up.mapped && down.mapped && (in.mapped != nullptr) == d->info.limits.unified);
  float *a = static_cast<float*>(up.mapped), *b = a + step / 4, *c = static_cast<float*>(down.mapped);

  const Pipeline* p = pipeline(d, add.program, {64, bits(2.5f)});
  struct {
    uint32_t n;
    float bias;
  } push = {n, 0.75f};
  Range first[] = {{&up, 0, step, false}, {&in, 0, step, true}}, second[] = {{&up, step, step, false}, {&in, step, step, true}};
  Range sum[] = {{&in, 0, bytes, false}, {&in, step, bytes, false}, {&in, 2 * step, bytes, true}};
  Range last[] = {{&in, 2 * step, bytes, false}, {&down, 0, bytes, true}};
  Step steps[] = {{nullptr, first, 2, nullptr, {}},
                  {nullptr, second, 2, nullptr, {}},
                  {p, sum, 3, &push, {(n + 63) / 64, 1, 1}},
                  {nullptr, last, 2, nullptr, {}}};
  for (bool timed : {false, true}) {
    if (timed && !d->info.limits.timestamp_bits) break;
    Recording* r;
    OK(create_recording(d, steps, 4, timed, &r, &error));
    CHECK(barrier_count(r) == (timed ? 3 : 2));  // the two copies may overlap
    for (int run_ = 0; run_ < 100; ++run_) {
      for (uint32_t i = 0; i < n; ++i) a[i] = static_cast<float>(i) + static_cast<float>(run_), b[i] = -static_cast<float>(i % 7);
      memset(c, 0xff, bytes);
      OK(run(r, &error));
      for (uint32_t i = 0; i < n; ++i) CHECK(c[i] == a[i] * 2.5f + b[i] + 0.75f);
    }
    uint64_t times[4];
    if (timed) {
      double before = seconds();
      OK(run(r, &error));
      double took = (seconds() - before) * 1e9;
      OK(read_times(r, times, &error));
      uint64_t all = 0;
      for (uint64_t t : times) all += t;
      CHECK(times[2] > 0 && static_cast<double>(all) < took);
    } else {
      FAILS(read_times(r, times, &error), PEN_ERROR_ARGUMENT, "not timed");
    }
    OK(submit(r, &error));  // twice without waiting, and destroyed while it runs
    OK(submit(r, &error));
    destroy_recording(r);
  }
  // Nothing to do at all.
  Recording* empty;
  OK(create_recording(d, nullptr, 0, false, &empty, &error));
  OK(run(empty, &error));
  destroy_recording(empty);
  for (Buffer* buffer : {&up, &in, &down}) destroy_buffer(buffer), destroy_buffer(buffer);
}

// Values of a random program share an arena at random, overlapping places; the device must compute what the host computes one by one.
static void test_chain(Device* d) {
  Shader shader("chain", 2, 8);
  const uint32_t n = 4096, rounds = 200;
  const uint64_t slot = 256, size = n * 4, arena_bytes = size * 6;
  Buffer arena;
  OK(create_buffer(d, Use::device, arena_bytes, &arena, &error));
  const Pipeline* p = pipeline(d, shader.program, {rounds});
  for (int trial = 0; trial < 6; ++trial) {
    std::vector<uint32_t> host(arena_bytes / 4), got(arena_bytes / 4);
    for (uint32_t& v : host) v = static_cast<uint32_t>(below(1u << 31));
    OK(upload(&arena, 0, host.data(), arena_bytes, &error));
    const int count = 60;
    std::vector<Range> ranges(count * 2);
    std::vector<Step> steps;
    std::vector<uint32_t> pushes(count * 2);
    for (int k = 0; k < count; ++k) {
      uint64_t from = 0, to = 0, bytes = slot * (1 + below(16));
      do {
        from = below((arena_bytes - bytes) / slot) * slot;
        to = below((arena_bytes - bytes) / slot) * slot;
      } while (from < to + bytes && to < from + bytes);
      ranges[k * 2] = {&arena, from, bytes, false};
      ranges[k * 2 + 1] = {&arena, to, bytes, true};
      uint32_t* push = &pushes[k * 2];
      push[0] = static_cast<uint32_t>(bytes / 4), push[1] = static_cast<uint32_t>(k * 2 + 3);
      bool copy = below(5) == 0;
      steps.push_back({copy ? nullptr : p, &ranges[k * 2], 2, push, {push[0] / 64, 1, 1}});
    }
    Recording* r;
    OK(create_recording(d, steps.data(), count, false, &r, &error));
    CHECK(barrier_count(r) < count - 1 && barrier_count(r) > 0);
    for (int round = 0; round < 3; ++round) {
      for (int k = 0; k < count; ++k)
        for (uint32_t i = 0; i < pushes[k * 2]; ++i) {
          uint32_t x = host[ranges[k * 2].offset / 4 + i];
          host[ranges[k * 2 + 1].offset / 4 + i] = steps[k].pipeline ? chain(x, i, rounds, pushes[k * 2 + 1]) : x;
        }
      OK(submit(r, &error));
    }
    OK(wait(r, &error));
    OK(download(&arena, 0, got.data(), arena_bytes, &error));
    CHECK(memcmp(host.data(), got.data(), arena_bytes) == 0);
    destroy_recording(r);
  }
  destroy_buffer(&arena);
}

// Barriers against a plain account, byte by byte, of who touched what since the last.
static void test_hazards() {
  Buffer buffers[2] = {};
  buffers[0].handle = VkBuffer{1}, buffers[1].handle = VkBuffer{2};
  for (int trial = 0; trial < 300; ++trial) {
    Hazards h;
    std::vector<int> touched(2 * 64);  // 1: read, 2: written
    for (int k = 0; k < 30; ++k) {
      Range ranges[3];
      bool wait_ = false;
      for (Range& r : ranges) {
        uint64_t begin = below(64), bytes = 1 + below(64 - begin < 8 ? 64 - begin : 8);
        uint64_t which = below(2);
        r = {&buffers[which], begin, bytes, below(3) == 0};
        for (uint64_t i = begin; i < begin + bytes; ++i)
          wait_ = wait_ || (touched[which * 64 + i] & 2) || (r.written && touched[which * 64 + i]);
      }
      CHECK(h.conflict(ranges, 3) == wait_);
      if (wait_) h.forget(), touched.assign(2 * 64, 0);
      CHECK(h.add(ranges, 3, 1, 1));
      for (Range& r : ranges)
        for (uint64_t i = r.offset; i < r.offset + r.bytes; ++i)
          touched[static_cast<size_t>(r.buffer - buffers) * 64 + i] |= r.written ? 2 : 1;
    }
    h.since.release();
  }
}

static void test_transfer(Device* d) {
  const uint64_t bytes = (20 << 20) + 12;  // three pieces
  std::vector<uint8_t> from(bytes), to(bytes);
  for (uint64_t i = 0; i < bytes; ++i) from[i] = static_cast<uint8_t>(i * 31 >> 3);
  Buffer b;
  for (Use use : {Use::device, Use::download}) {
    OK(create_buffer(d, use, bytes + 7, &b, &error));
    Buffer unmapped = b;
    unmapped.mapped = nullptr;  // as on a device with memory of its own
    for (const Buffer* way : {&b, &unmapped}) {
      memset(to.data(), 0, bytes);
      OK(upload(way, 4, from.data(), bytes, &error));
      OK(download(way, 4, to.data(), bytes, &error));
      CHECK(from == to);
    }
    OK(upload(&b, bytes, from.data(), 0, &error));
    FAILS(upload(&b, bytes, from.data(), 32, &error), PEN_ERROR_ARGUMENT, "32 bytes at 20971532");
    FAILS(download(&b, ~uint64_t{0}, to.data(), 32, &error), PEN_ERROR_ARGUMENT, "a range of a buffer");
    destroy_buffer(&b);
  }
}

// The device's memory is taken: an error, not the host's memory instead, which would be slow; what is the host's own is still had.
static void test_full() {
  Device* d;
  OK(open_device("", &d, &error));
  Buffer b;
  FAILS(create_buffer(d, Use::device, 4096, &b, &error), PEN_ERROR_MEMORY, "of the device's own", "VK_ERROR_OUT_OF_DEVICE_MEMORY");
  OK(create_buffer(d, Use::upload, 4096, &b, &error));
  destroy_buffer(&b);
  release_device(d);
}

static void test_refusals(Device* d) {
  Buffer huge, small;
  FAILS(create_buffer(d, Use::device, uint64_t{1} << 60, &huge, &error), PEN_ERROR_MEMORY, "1152921504606846976 bytes", d->info.name,
        "at most");
  FAILS(create_buffer(d, Use::upload, ~uint64_t{0}, &huge, &error), PEN_ERROR_MEMORY, "upload");
  CHECK(!huge.device);
  destroy_buffer(&huge);
  // More than there is, in pieces that may be had.
  std::vector<Buffer> many;
  Status s = PEN_OK;
  if (d->info.type != VK_PHYSICAL_DEVICE_TYPE_CPU)  // which would take the host's memory, and not all that is promised is there
    while (!s && many.size() < 4096) {
      many.push_back({});
      s = create_buffer(d, Use::device, d->info.limits.allocation_bytes / 2, &many.back(), &error);
    }
  if (!many.empty()) FAILS(s, PEN_ERROR_MEMORY, "VK_ERROR_OUT_OF");
  for (Buffer& b : many) destroy_buffer(&b);

  OK(create_buffer(d, Use::device, 0, &small, &error));
  CHECK(small.bytes == 4);
  destroy_buffer(&small);
  OK(create_buffer(d, Use::device, 4096, &small, &error));
  Shader shader("chain", 2, 8);
  const Pipeline* p = pipeline(d, shader.program, {1});
  uint32_t push[2] = {64, 1};
  const uint32_t* most = d->info.limits.group_count;
  Range right[] = {{&small, 0, 256, false}, {&small, 1024, 256, true}};
  auto refused = [&](Step step, const char* expected, const char* got) {
    Recording* r;
    FAILS(create_recording(d, &step, 1, false, &r, &error), PEN_ERROR_ARGUMENT, expected, got,
          step.pipeline ? "step 0 (chain)" : "step 0 (copy)");
    CHECK(!r);
  };
  char count[64];
  if (most[1] != ~0u) {
    snprintf(count, sizeof count, "got 1 x %u x 1", most[1] + 1);
    refused({p, right, 2, push, {1, most[1] + 1, 1}}, "groups", count);
  }
  refused({p, right, 1, push, {1, 1, 1}}, "2 ranges", "got 1");
  refused({p, right, 2, nullptr, {1, 1, 1}}, "8 bytes of push constants", "none");
  refused({nullptr, right, 1, nullptr, {}}, "2 ranges", "got 1");
  Range outside[] = {{&small, 4096 - 128, 256, false}, right[1]}, odd[] = {{&small, 4, 256, false}, right[1]};
  Range uneven[] = {right[0], {&small, 1024, 128, true}}, crossing[] = {right[0], {&small, 128, 256, true}}, nothing[] = {{}, right[1]};
  refused({p, outside, 2, push, {1, 1, 1}}, "inside a buffer", "256 bytes at 3968");
  refused({nullptr, outside, 2, nullptr, {}}, "inside a buffer", "256 bytes at 3968");
  refused({p, odd, 2, push, {1, 1, 1}}, "at a multiple of", "256 bytes at 4");
  refused({p, nothing, 2, push, {1, 1, 1}}, "inside a buffer", "0 bytes");
  refused({nullptr, uneven, 2, nullptr, {}}, "one size", "two");
  refused({nullptr, crossing, 2, nullptr, {}}, "apart", "overlap");
  destroy_buffer(&small);

  const Limits& l = d->info.limits;
  const Pipeline* none;
  Program text = shader.program, wide = shader.program, odd_push = shader.program;
  uint32_t words[8] = {};
  text.words = words, text.word_count = 8;
  wide.buffers = l.storage_buffers + 1;
  odd_push.push_bytes = 6;
  for (Program* program : {&text, &wide, &odd_push}) {
    PipelineRequest r = {program, nullptr, 0, 0};
    FAILS(make_pipelines(d, &r, 1, &none, nullptr, &error), PEN_ERROR_ARGUMENT, "chain");
  }
  for (uint32_t size : {3u, l.subgroup_max * 2, l.subgroup_min / 2}) {
    PipelineRequest r = {&shader.program, nullptr, 0, size};
    FAILS(make_pipelines(d, &r, 1, &none, nullptr, &error), PEN_ERROR_ARGUMENT, "subgroup");
  }
  if (l.subgroup_choice) pipeline(d, shader.program, {1}, l.subgroup_max);
}

static void test_pipelines(Device* d) {
  Shader shader("chain", 2, 8), same("chain", 2, 8);
  ThreadPool* pool = pool_create(3);
  int32_t before = pipeline_counts(d).pipelines;
  const int count = 40;
  uint32_t constants[count];
  PipelineRequest requests[count];
  const Pipeline *made[count], *again[count];
  for (int i = 0; i < count; ++i) {
    constants[i] = 1000 + static_cast<uint32_t>(i / 2);  // each twice, from words in two places
    requests[i] = {i % 2 ? &same.program : &shader.program, &constants[i], 1, 0};
  }
  OK(make_pipelines(d, requests, count, made, nullptr, &error));
  CHECK(pipeline_counts(d).pipelines == before + count / 2);
  OK(make_pipelines(d, requests, count, again, pool, &error));
  CHECK(memcmp(made, again, sizeof made) == 0 && pipeline_counts(d).pipelines == before + count / 2);
  for (int i = 0; i < count; ++i) CHECK(made[i] && (i % 2 ? made[i] == made[i - 1] : !i || made[i] != made[i - 1]));
  for (uint32_t& c : constants) c += 1000;
  OK(make_pipelines(d, requests, count, made, pool, &error));
  CHECK(pipeline_counts(d).pipelines == before + count);
  pool_destroy(pool);
}

// A dispatch from one part of a buffer into another.
struct OneStep {
  Device* d;
  Buffer b;
  Range ranges[2] = {{&b, 0, 256, false}, {&b, 1024, 256, true}};
  uint32_t push[2] = {64, 1};
  Step step;
  OneStep() {
    OK(open_device("", &d, &error));
    OK(create_buffer(d, Use::device, 4096, &b, &error));
    Shader shader("chain", 2, 8);
    step = {pipeline(d, shader.program, {1}), ranges, 2, push, {1, 1, 1}};
  }
  OneStep(const OneStep&) = delete;
};

static void test_lost() {
  OneStep one;
  Device *d = one.d, *fresh;
  Recording *r, *none;
  OK(create_recording(d, &one.step, 1, false, &r, &error));
  OK(run(r, &error));
  FAILS(device_error(d, VK_ERROR_DEVICE_LOST, "a recording that ends", &error), kDeviceFailed, "VK_ERROR_DEVICE_LOST", "open it again");
  FAILS(submit(r, &error), kDeviceFailed, "lost");
  FAILS(wait(r, &error), kDeviceFailed, "lost");
  FAILS(create_recording(d, &one.step, 1, false, &none, &error), kDeviceFailed, "lost");
  Buffer refused;
  FAILS(create_buffer(d, Use::device, 16, &refused, &error), kDeviceFailed, "lost");
  OK(open_device("", &fresh, &error));
  CHECK(fresh != d && !fresh->lost);
  release_device(d);  // its buffer and recording keep it
  destroy_recording(r);
  destroy_buffer(&one.b);
  test_chain(fresh);
  release_device(fresh);
}

static void* opener(void*) {
  for (int i = 0; i < 10; ++i) {
    pen_error e;
    Device* d;
    int32_t count;
    CHECK(list_devices(nullptr, 0, &count, &e) == PEN_OK);
    CHECK(open_device("", &d, &e) == PEN_OK);
    Shader shader("chain", 2, 8);
    uint32_t constant = static_cast<uint32_t>(i);
    PipelineRequest request = {&shader.program, &constant, 1, 0};
    const Pipeline* p;
    CHECK(make_pipelines(d, &request, 1, &p, nullptr, &e) == PEN_OK);
    Buffer b;
    CHECK(create_buffer(d, Use::device, 1024, &b, &e) == PEN_OK);
    uint32_t x[64], y[64], push[2] = {64, 5};
    for (uint32_t k = 0; k < 64; ++k) x[k] = k;
    CHECK(upload(&b, 0, x, sizeof x, &e) == PEN_OK);
    Range ranges[] = {{&b, 0, 256, false}, {&b, 512, 256, true}};
    Step step = {p, ranges, 2, push, {1, 1, 1}};
    Recording* r;
    CHECK(create_recording(d, &step, 1, false, &r, &e) == PEN_OK);
    CHECK(run(r, &e) == PEN_OK);
    CHECK(download(&b, 512, y, sizeof y, &e) == PEN_OK);
    for (uint32_t k = 0; k < 64; ++k) CHECK(y[k] == chain(k, k, constant, 5));
    destroy_recording(r);
    destroy_buffer(&b);
    release_device(d);
  }
  return nullptr;
}

static void test_threads() {
  pthread_t threads[4];
  for (pthread_t& t : threads) CHECK(pthread_create(&t, nullptr, opener, nullptr) == 0);
  for (pthread_t& t : threads) pthread_join(t, nullptr);
}

// The child says what it finds, and ends.
template <class Child>
static void forked(Child run_child) {
  lock_process();  // as another thread of the parent may have it
  pid_t child = fork();
  if (child == 0) {
    run_child();
    fflush(nullptr);
    _exit(0);
  }
  unlock_process();
  int status;
  CHECK(child > 0 && waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void test_fork() {
  Device* d;
  int32_t count;
  OK(open_device("", &d, &error));
  release_device(d);
  forked([] {
    Device* own;
    OK(open_device("", &own, &error));
    test_chain(own);
    release_device(own);
  });
  OK(open_device("", &d, &error));
  Buffer b;
  OK(create_buffer(d, Use::device, 4096, &b, &error));
  Shader shader("chain", 2, 8);
  const Pipeline* p = pipeline(d, shader.program, {1});
  Range ranges[] = {{&b, 0, 256, false}, {&b, 1024, 256, true}};
  uint32_t push[2] = {64, 1};
  Step step = {p, ranges, 2, push, {1, 1, 1}};
  Recording* r;
  OK(create_recording(d, &step, 1, false, &r, &error));
  OK(run(r, &error));
  forked([&] {
    Buffer other;
    Device* own;
    const Pipeline* none;
    PipelineRequest request = {&shader.program, nullptr, 0, 0};
    FAILS(submit(r, &error), kDeviceFailed, "after the fork");
    FAILS(wait(r, &error), kDeviceFailed, "after the fork");
    FAILS(create_buffer(d, Use::device, 4, &other, &error), kDeviceFailed, "after the fork");
    FAILS(make_pipelines(d, &request, 1, &none, nullptr, &error), kDeviceFailed, "after the fork");
    FAILS(upload(&b, 0, push, 8, &error), kDeviceFailed, "after the fork");
    FAILS(open_device("", &own, &error), kDeviceFailed, "had a device open when it forked", "spawn");
    FAILS(list_devices(nullptr, 0, &count, &error), kDeviceFailed, "had a device open when it forked");
    save_pipelines(d);
    destroy_recording(r);
    destroy_buffer(&b);
    release_device(d);
    FAILS(open_device("", &own, &error), kDeviceFailed, "had a device open when it forked");
  });
  OK(run(r, &error));
  destroy_recording(r);
  destroy_buffer(&b);
  test_chain(d);
  release_device(d);
}

// What the cache file gave, then everything through it.
static void test_cache(const char* set) {
  if (set) set_cache_folder(set);
  Device* d;
  OK(open_device("", &d, &error));
  Shader shader("chain", 2, 8);
  double before = seconds();
  pipeline(d, shader.program, {7});
  double took = seconds() - before;
  printf("%llu bytes from the cache, %.2f ms to make a pipeline\n", static_cast<unsigned long long>(pipeline_counts(d).cache_bytes),
         took * 1e3);
  save_pipelines(d);
  test_chain(d);
  release_device(d);
}

// A library between the runtime and the driver loses the device at the first run.
static void test_loss() {
  OneStep one;
  Device *d = one.d, *fresh;
  Recording* r;
  OK(create_recording(d, &one.step, 1, false, &r, &error));
  FAILS(run(r, &error), kDeviceFailed, "VK_ERROR_DEVICE_LOST", d->info.name, "open it again");
  FAILS(run(r, &error), kDeviceFailed, "lost");
  OK(open_device("", &fresh, &error));
  CHECK(fresh != d);
  test_chain(fresh);
  destroy_recording(r);
  destroy_buffer(&one.b);
  release_device(d);
  release_device(fresh);
}

static void test_broken() {
  Device* d;
  OK(open_device("", &d, &error));
  Shader shader("chain", 2, 8);
  uint32_t constants[] = {1, 2, 3, 4, 5, 6};
  PipelineRequest requests[6];
  const Pipeline* made[6];
  for (int i = 0; i < 6; ++i) requests[i] = {&shader.program, &constants[i], 1, 0};
  FAILS(make_pipelines(d, requests, 6, made, nullptr, &error), kDeviceFailed, "the shader chain", "VK_ERROR_INVALID_SHADER_NV");
  release_device(d);
}

// Every device, its kind, and why it cannot be used; then the first that can.
static void test_kinds() {
  DeviceInfo infos[8];
  int32_t count;
  OK(list_devices(infos, 8, &count, &error));
  for (int32_t i = 0; i < count; ++i) printf("%s|%s|%s\n", infos[i].name, type_name(infos[i].type), infos[i].unfit);
  Device* d = nullptr;
  Status status = open_device("", &d, &error);
  printf("%s\n", status ? error.message : d->info.name);
  Device* unfit;
  for (int32_t i = 0; i < count; ++i)
    if (infos[i].unfit[0]) FAILS(open_device(infos[i].name, &unfit, &error), kDeviceFailed, infos[i].unfit, infos[i].name);
  if (!status) release_device(d);
}

// No loader, no driver, no device: the same reason every time, and never more than that.
static void test_none() {
  pen_error e;
  for (int i = 0; i < 3; ++i) {
    int32_t count = 7;
    Device* d = reinterpret_cast<Device*>(1);
    CHECK(list_devices(nullptr, 0, &count, &error) != PEN_OK && count == 0);
    CHECK(open_device("", &d, &e) != PEN_OK && !d);
    CHECK(strcmp(error.message, e.message) == 0);
  }
  printf("%s\n", error.message);
}

// What a validation layer must complain about: the proof that it looks.
static void test_misuse() {
  Device* d;
  OK(open_device("", &d, &error));
  VkBufferCreateInfo info{};
  VkBuffer buffer{};
  info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT;
  d->f.CreateBuffer(d->handle, &info, nullptr, &buffer);  // of no bytes
  d->f.DestroyBuffer(d->handle, buffer, nullptr);
  Shader shader("chain", 2, 8);
  const Pipeline* p = pipeline(d, shader.program, {1});
  Buffer a;
  OK(create_buffer(d, Use::device, 4096, &a, &error));
  // A write that is told as a read: nobody waits for it.
  Range first[] = {{&a, 0, 256, false}, {&a, 1024, 256, false}}, second[] = {{&a, 1024, 256, false}, {&a, 2048, 256, true}};
  uint32_t push[2] = {64, 1};
  Step steps[] = {{p, first, 2, push, {1, 1, 1}}, {p, second, 2, push, {1, 1, 1}}};
  Recording* r;
  OK(create_recording(d, steps, 2, false, &r, &error));
  destroy_recording(r);
  destroy_buffer(&a);
  release_device(d);
}

static void bench(Device* d) {
  Shader shader("chain", 2, 8);
  const Pipeline* p = pipeline(d, shader.program, {1});
  Buffer b;
  OK(create_buffer(d, Use::device, 1 << 20, &b, &error));
  uint32_t push[2] = {64, 1};
  for (int count : {0, 1, 100}) {
    std::vector<Range> ranges;
    for (int i = 0; i < count; ++i) {
      uint64_t from = static_cast<uint64_t>(i % 2) * 4096;
      ranges.push_back({&b, from, 256, false});
      ranges.push_back({&b, 4096 - from, 256, true});
    }
    std::vector<Step> steps;
    for (int i = 0; i < count; ++i) steps.push_back({p, &ranges[static_cast<size_t>(i) * 2], 2, push, {1, 1, 1}});
    Recording* r = nullptr;
    double before = seconds();
    for (int i = 0; i < 50; ++i) {
      destroy_recording(r);
      OK(create_recording(d, steps.data(), count, false, &r, &error));
    }
    double recorded = (seconds() - before) / 50;
    OK(run(r, &error));
    before = seconds();
    for (int i = 0; i < 200; ++i) OK(run(r, &error));
    double ran = (seconds() - before) / 200;
    printf("%d dispatches, %d barriers: %.1f us to record, %.1f us a replay\n", count, barrier_count(r), recorded * 1e6, ran * 1e6);
    destroy_recording(r);
  }
  destroy_buffer(&b);
}

int main(int argc, char** argv) {
  CHECK(argc >= 3);
  folder = argv[1];
  std::string what = argv[2];
  if (what == "list") test_list();
  if (what == "lost") test_lost();
  if (what == "threads") test_threads();
  if (what == "fork") test_fork();
  if (what == "cache") test_cache(argc > 3 ? argv[3] : nullptr);
  if (what == "none") test_none();
  if (what == "loss") test_loss();
  if (what == "broken") test_broken();
  if (what == "kinds") test_kinds();
  if (what == "misuse") test_misuse();
  if (what == "full") test_full();
  if (what == "compute" || what == "transfer" || what == "bench") {
    Device* d;
    OK(open_device("", &d, &error));
    if (what == "bench") bench(d);
    if (what == "transfer") test_transfer(d);
    if (what == "compute") {
      test_hazards();
      test_add(d);
      test_chain(d);
      test_transfer(d);
      test_refusals(d);
      test_pipelines(d);
    }
    CHECK(d->users == 1);
    release_device(d);
  }
  printf("all well\n");
  return 0;
}
