// Bytes between the host and buffers that it cannot reach: piece by piece through memory that it can, one piece on its way while the next
// is copied. That memory is freed at the end.
#include "penlight/runtime/vulkan/commands.h"

namespace pen::vulkan {

namespace {

constexpr uint64_t kPieceBytes = 8 << 20;

struct Piece {
  Buffer staging;
  Recording* recording;
  uint64_t at, bytes;
};

// Ends what this piece has under way; what it downloaded goes to `to`.
Status finish(Piece* piece, char* to, pen_error* error) {
  if (!piece->recording) return PEN_OK;
  Status status = wait(piece->recording, error);
  if (!status && to) memcpy(to + piece->at, piece->staging.mapped, static_cast<size_t>(piece->bytes));
  destroy_recording(piece->recording);
  piece->recording = nullptr;
  return status;
}

// What is uploaded, if anything is.
struct Source {
  FillFn fill;
  const void* context;
  explicit operator bool() const { return fill; }
};

Status start(Piece* piece, const Buffer* buffer, uint64_t offset, const Source& source, pen_error* error) {
  bool from = static_cast<bool>(source);
  if (from) source.fill(source.context, piece->at, piece->bytes, piece->staging.mapped);
  Range staged = {&piece->staging, 0, piece->bytes, !from}, there = {buffer, offset + piece->at, piece->bytes, from};
  Range ranges[] = {from ? staged : there, from ? there : staged};
  Step copy{};
  copy.ranges = ranges;
  copy.range_count = 2;
  if (Status s = create_recording(buffer->device, &copy, 1, false, &piece->recording, error)) return s;
  return submit(piece->recording, error);
}

// One of `from` and `to` is null.
Status transfer(const Buffer* buffer, uint64_t offset, const Source& from, char* to, uint64_t bytes, pen_error* error) {
  Piece pieces[2] = {};
  Status status = PEN_OK;
  int at = 0;
  for (uint64_t done = 0; done < bytes && !status; at ^= 1) {
    Piece& p = pieces[at];
    status = finish(&p, to, error);
    if (!status && !p.staging.device)
      status =
          create_buffer(buffer->device, from ? Use::upload : Use::download, bytes < kPieceBytes ? bytes : kPieceBytes, &p.staging, error);
    if (status) break;
    p.at = done;
    p.bytes = bytes - done < kPieceBytes ? bytes - done : kPieceBytes;
    status = start(&p, buffer, offset, from, error);
    done += p.bytes;
  }
  for (int i = 0; i < 2; ++i, at ^= 1) {
    Status last = finish(&pieces[at], status ? nullptr : to, status ? nullptr : error);
    if (!status) status = last;
    destroy_buffer(&pieces[at].staging);
  }
  return status;
}

Status check(const Buffer* buffer, uint64_t offset, uint64_t bytes, pen_error* error) {
  if (Status s = check_device(buffer->device, error)) return s;
  if (offset <= buffer->bytes && bytes <= buffer->bytes - offset && bytes <= SIZE_MAX) return PEN_OK;
  char expected[64], got[96];
  set_text(expected, sizeof expected, "a range of a buffer of %llu bytes", static_cast<unsigned long long>(buffer->bytes));
  set_text(got, sizeof got, "%llu bytes at %llu", static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(offset));
  return report(error, PEN_ERROR_ARGUMENT, buffer->device->info.name, expected, got);
}

}  // namespace

Status upload_with(const Buffer* to, uint64_t offset, uint64_t bytes, FillFn fill, const void* context, pen_error* error) {
  if (Status s = check(to, offset, bytes, error)) return s;
  if (!to->mapped || !to->coherent) return transfer(to, offset, {fill, context}, nullptr, bytes, error);
  fill(context, 0, bytes, static_cast<char*>(to->mapped) + offset);
  return PEN_OK;
}

Status upload(const Buffer* to, uint64_t offset, const void* from, uint64_t bytes, pen_error* error) {
  auto copy = [](const void* source, uint64_t at, uint64_t count, void* target) {
    memcpy(target, static_cast<const char*>(source) + at, static_cast<size_t>(count));
  };
  return upload_with(to, offset, bytes, copy, from, error);
}

Status download(const Buffer* from, uint64_t offset, void* to, uint64_t bytes, pen_error* error) {
  if (Status s = check(from, offset, bytes, error)) return s;
  if (!from->mapped) return transfer(from, offset, {}, static_cast<char*>(to), bytes, error);
  memcpy(to, static_cast<const char*>(from->mapped) + offset, static_cast<size_t>(bytes));
  return PEN_OK;
}

}  // namespace pen::vulkan
