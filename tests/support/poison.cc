// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// operator new and delete for a test program: fresh memory is all ones, which reads as NaN in every
// floating type, and lies between canaries that delete checks. Sanitizers bring their own
// allocator, so there this file is empty.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

namespace {

constexpr std::uint64_t kCanary = 0xfeedc0dedeadbea7U;
constexpr std::size_t kTrailingCanaries = 8;
constexpr int kPoison = 0xff;

/// Stands right before the memory handed out.
struct Header {
  std::size_t size;
  void* base;
  std::uint64_t canary;
};

void* allocate(std::size_t size, std::size_t alignment) noexcept {
  alignment = std::max(alignment, std::size_t{__STDCPP_DEFAULT_NEW_ALIGNMENT__});
  const std::size_t front = (sizeof(Header) + alignment - 1) / alignment * alignment;
  const std::size_t total = front + size + kTrailingCanaries * sizeof(kCanary);
  if (total < size) return nullptr;
  void* base = std::aligned_alloc(alignment, (total + alignment - 1) / alignment * alignment);
  if (base == nullptr) return nullptr;
  auto* memory = static_cast<unsigned char*>(base) + front;
  const Header header{size, base, kCanary};
  std::memcpy(memory - sizeof(Header), &header, sizeof(Header));
  std::memset(memory, kPoison, size);
  for (std::size_t i = 0; i < kTrailingCanaries; ++i) {
    std::memcpy(memory + size + i * sizeof(kCanary), &kCanary, sizeof(kCanary));
  }
  return memory;
}

void* allocate_or_throw(std::size_t size, std::size_t alignment) {
  void* memory = allocate(size, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

[[noreturn]] void report(const char* where) {
  std::fprintf(stderr, "memory %s an allocation was overwritten\n", where);
  std::abort();
}

void release(void* pointer) noexcept {
  if (pointer == nullptr) return;
  auto* memory = static_cast<unsigned char*>(pointer);
  Header header;
  std::memcpy(&header, memory - sizeof(Header), sizeof(Header));
  if (header.canary != kCanary) report("before");
  for (std::size_t i = 0; i < kTrailingCanaries; ++i) {
    if (std::memcmp(memory + header.size + i * sizeof(kCanary), &kCanary, sizeof(kCanary)) != 0) {
      report("after");
    }
  }
  std::memset(memory, kPoison, header.size);
  std::free(header.base);
}

constexpr std::size_t kDefault = __STDCPP_DEFAULT_NEW_ALIGNMENT__;

}  // namespace

void* operator new(std::size_t size) { return allocate_or_throw(size, kDefault); }
void* operator new[](std::size_t size) { return allocate_or_throw(size, kDefault); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate_or_throw(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return allocate_or_throw(size, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return allocate(size, kDefault);
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return allocate(size, kDefault);
}
void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return allocate(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return allocate(size, static_cast<std::size_t>(alignment));
}

void operator delete(void* pointer) noexcept { release(pointer); }
void operator delete[](void* pointer) noexcept { release(pointer); }
void operator delete(void* pointer, std::size_t) noexcept { release(pointer); }
void operator delete[](void* pointer, std::size_t) noexcept { release(pointer); }
void operator delete(void* pointer, std::align_val_t) noexcept { release(pointer); }
void operator delete[](void* pointer, std::align_val_t) noexcept { release(pointer); }
void operator delete(void* pointer, std::size_t, std::align_val_t) noexcept { release(pointer); }
void operator delete[](void* pointer, std::size_t, std::align_val_t) noexcept { release(pointer); }
void operator delete(void* pointer, const std::nothrow_t&) noexcept { release(pointer); }
void operator delete[](void* pointer, const std::nothrow_t&) noexcept { release(pointer); }
void operator delete(void* pointer, std::align_val_t, const std::nothrow_t&) noexcept {
  release(pointer);
}
void operator delete[](void* pointer, std::align_val_t, const std::nothrow_t&) noexcept {
  release(pointer);
}

#endif
