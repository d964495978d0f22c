// Runs two kernels, one behind the other on a stream, without Python: out = 0.5 * rmsnorm(x) * weight.
//
// norm FOLDER [ROWS]
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <vector>

#include "cuda.hpp"
#include "kernel.hpp"

namespace {

constexpr int64_t kHidden = 4096;
constexpr double kEps = 1e-6, kFactor = 0.5;
constexpr int kCalls = 2000;

using Bfloat16 = uint16_t;

float to_float(Bfloat16 value) {
  uint32_t bits = static_cast<uint32_t>(value) << 16;
  float made;
  std::memcpy(&made, &bits, sizeof made);
  return made;
}

Bfloat16 to_bfloat16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<Bfloat16>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// A tensor in the GPU's memory, whose rows lie behind each other.
struct Tensor {
  Tensor(const Cuda &cuda, std::vector<int64_t> sizes) : shape(std::move(sizes)), strides(shape.size(), 1) {
    for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
    view.data = cuda.allocate(bytes());
    view.device = {kDLCUDA, 0};
    view.ndim = static_cast<int32_t>(shape.size());
    view.dtype = {kDLBfloat, 16, 1};
    view.shape = shape.data();
    view.strides = strides.data();
    view.byte_offset = 0;
  }
  Tensor(const Tensor &) = delete;
  size_t bytes() const { return static_cast<size_t>(strides[0] * shape[0]) * sizeof(Bfloat16); }

  std::vector<int64_t> shape, strides;
  DLTensor view;
};

std::vector<Bfloat16> numbers(size_t count, uint32_t seed) {
  std::vector<Bfloat16> made(count);
  for (Bfloat16 &value : made) {
    seed = seed * 1664525u + 1013904223u;
    value = to_bfloat16(static_cast<float>(seed >> 8) / 8388608.0f - 1.0f);
  }
  return made;
}

// The greatest difference from what the kernels should give, as a part of the value.
double worst(const std::vector<Bfloat16> &x, const std::vector<Bfloat16> &weight, const std::vector<Bfloat16> &out) {
  double most = 0;
  for (size_t row = 0; row < x.size() / kHidden; ++row) {
    double squares = 0;
    for (int64_t i = 0; i < kHidden; ++i) squares += std::pow(to_float(x[row * kHidden + i]), 2);
    double scale = kFactor / std::sqrt(squares / kHidden + kEps);
    for (int64_t i = 0; i < kHidden; ++i) {
      double expected = to_float(x[row * kHidden + i]) * scale * to_float(weight[i]);
      double apart = std::fabs(to_float(out[row * kHidden + i]) - expected);
      most = std::fmax(most, apart / std::fmax(std::fabs(expected), 1e-3));
    }
  }
  return most;
}

int run(const char *folder, int64_t rows) {
  Table table(folder);
  Cuda cuda;
  Kernel rmsnorm = table.get("rmsnorm", R"({"dtype": "bfloat16", "hidden": 4096})");
  Kernel scale = table.get("scale", R"({"dtype": "bfloat16"})");
  std::printf("rmsnorm %s for %s\nscale   %s for %s\n", rmsnorm.config(), rmsnorm.target(), scale.config(), scale.target());

  Tensor x(cuda, {rows, kHidden}), weight(cuda, {kHidden}), out(cuda, {rows, kHidden}), flat(cuda, {rows * kHidden});
  flat.view.data = out.view.data;  // the same memory, as a vector
  std::vector<Bfloat16> host_x = numbers(rows * kHidden, 1), host_weight = numbers(kHidden, 2), host_out(rows * kHidden);
  cuda.to_device(x.view.data, host_x.data(), x.bytes());
  cuda.to_device(weight.view.data, host_weight.data(), weight.bytes());

  void *stream = cuda.stream(), *begin = cuda.event(), *end = cuda.event();
  rmsnorm.launch(stream, {x.view, weight.view, out.view, kEps});
  scale.launch(stream, {flat.view, flat.view, kFactor});
  cuda.call("cuStreamSynchronize", stream);
  cuda.to_host(host_out.data(), out.view.data, out.bytes());
  double apart = worst(host_x, host_weight, host_out);
  std::printf("%lld rows: the greatest relative difference is %.4f\n", static_cast<long long>(rows), apart);

  cuda.call("cuEventRecord", begin, stream);
  auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kCalls; ++i) rmsnorm.launch(stream, {x.view, weight.view, out.view, kEps});
  std::chrono::duration<double, std::micro> host = std::chrono::steady_clock::now() - start;
  cuda.call("cuEventRecord", end, stream);
  cuda.call("cuStreamSynchronize", stream);
  float milliseconds = 0;
  cuda.call("cuEventElapsedTime", &milliseconds, begin, end);
  std::printf("rmsnorm: %.2f us a call on the host, %.2f us on the GPU\n", host.count() / kCalls, milliseconds * 1e3 / kCalls);
  return apart < 0.02 ? 0 : 1;
}

}  // namespace

int main(int count, char **words) {
  if (count < 2) {
    std::fprintf(stderr, "usage: norm FOLDER [ROWS]\n");
    return 2;
  }
  try {
    return run(words[1], count > 2 ? std::atoll(words[2]) : 64);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
