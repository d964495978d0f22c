// Kernels of precast as C++ values: errors are exceptions, what was opened is closed by itself.
#pragma once

#include <dlpack/dlpack.h>
#include <precast.h>

#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>

// Throw the text of an error.
inline void check(precast_status status, char *error) {
  if (status == PRECAST_OK) return;
  std::string text = error ? error : "there is not enough memory";
  precast_free(error);
  throw std::runtime_error(text);
}

// An argument of a kernel, made of what it stands for.
struct Argument : precast_value {
  Argument(const DLTensor &tensor) : precast_value{PRECAST_TENSOR, 0, {}} { as.tensor = &tensor; }
  Argument(double number) : precast_value{PRECAST_FLOAT, 0, {}} { as.real = number; }
  Argument(int64_t number) : precast_value{PRECAST_INT, 0, {}} { as.integer = number; }
};

class Kernel {
 public:
  explicit Kernel(precast_kernel *kernel) : kernel_(kernel, precast_release) {}
  const char *config() const { return precast_config(kernel_.get()); }
  const char *target() const { return precast_target(kernel_.get()); }

  void launch(void *stream, std::initializer_list<Argument> arguments) const {
    char *error = nullptr;
    precast_status status = precast_call(kernel_.get(), arguments.begin(), arguments.size(), stream, &error);
    check(status, error);
  }

 private:
  std::unique_ptr<precast_kernel, void (*)(precast_kernel *)> kernel_;
};

// A folder that `precast native CACHE --requests FILE` made.
class Table {
 public:
  explicit Table(const char *folder) : table_(open(folder), precast_close) {}

  // The kernel of a request, as the file of requests has it.
  Kernel get(const char *op, const char *config) const {
    precast_request request = {};
    request.size = sizeof request;
    request.op = op;
    request.config = config;
    precast_kernel *kernel = nullptr;
    char *error = nullptr;
    precast_status status = precast_get(table_.get(), &request, &kernel, &error);
    check(status, error);
    return Kernel(kernel);
  }

 private:
  static precast_table *open(const char *folder) {
    precast_table *table = nullptr;
    char *error = nullptr;
    precast_status status = precast_open(folder, nullptr, &table, &error);
    check(status, error);
    return table;
  }

  std::unique_ptr<precast_table, void (*)(precast_table *)> table_;
};

static_assert(sizeof(Argument) == sizeof(precast_value), "arguments are passed as an array of values");
