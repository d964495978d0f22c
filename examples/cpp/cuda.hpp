// The few functions of the CUDA driver that the example needs, found at run time: no CUDA toolkit is needed to build it.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <stdexcept>
#include <string>

class Cuda {
 public:
  Cuda() : library_(dlopen("libcuda.so.1", RTLD_NOW)) {
    if (!library_) throw std::runtime_error("libcuda.so.1 is not installed: run this on a machine with an NVIDIA GPU");
    void *context = nullptr;
    int device = 0;
    call("cuInit", 0u);
    call("cuDeviceGet", &device, 0);
    call("cuDevicePrimaryCtxRetain", &context, device);
    call("cuCtxSetCurrent", context);
  }

  // Call a function of the driver by its name.
  template <class... Arguments>
  void call(const char *name, Arguments... arguments) const {
    auto function = reinterpret_cast<int (*)(Arguments...)>(dlsym(library_, name));
    if (!function) throw std::runtime_error(std::string("libcuda.so.1 has no ") + name);
    int code = function(arguments...);
    if (code) throw std::runtime_error(std::string(name) + " returned error " + std::to_string(code));
  }

  void *allocate(std::size_t bytes) const {
    unsigned long long pointer = 0;
    call("cuMemAlloc_v2", &pointer, bytes);
    return reinterpret_cast<void *>(pointer);
  }

  void to_device(void *to, const void *from, std::size_t bytes) const {
    call("cuMemcpyHtoD_v2", reinterpret_cast<unsigned long long>(to), from, bytes);
  }

  void to_host(void *to, const void *from, std::size_t bytes) const {
    call("cuMemcpyDtoH_v2", to, reinterpret_cast<unsigned long long>(from), bytes);
  }

  void *stream() const {
    void *made = nullptr;
    call("cuStreamCreate", &made, 1u);  // it does not wait for the default stream
    return made;
  }

  void *event() const {
    void *made = nullptr;
    call("cuEventCreate", &made, 0u);
    return made;
  }

 private:
  void *library_;
};
