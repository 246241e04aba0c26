// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// The public entry points: validate, then hand over to a backend.
#include "gma/attention.h"

#include <cstdint>
#include <span>

#include "common/checks.h"
#include "common/plan.h"
#include "cpu/cpu.h"
#include "dispatch/executor.h"
#include "dispatch/validate.h"
#include "reference/reference.h"

namespace gma {
namespace {

/// Multiply-adds a token and head.
template <class Args>
double token_work(const Args& args, std::int64_t value_dim) {
  return static_cast<double>(args.means.size(1)) *
         static_cast<double>(2 * args.means.size(2) + value_dim);
}

template <class T>
AttentionArgs<T> with_executor(const AttentionArgs<T>& args) {
  const auto tokens = [](const View<const T, 4>& x) { return x.size(0) * x.size(1) * x.size(2); };
  return with_executor(args, tokens(args.query) + tokens(args.key),
                       token_work(args, args.value.size(3)));
}

template <class T>
StepArgs<T> with_executor(const StepArgs<T>& args) {
  const auto tokens = [](const View<const T, 3>& x) { return x.size(0) * x.size(1); };
  return with_executor(args, tokens(args.query) + tokens(args.key),
                       token_work(args, args.value.size(2)));
}

}  // namespace

template <class T>
std::int64_t saved_segments(const AttentionArgs<T>& args) {
  validate(args);
  return num_saved(args);
}

template <class T>
void forward(const AttentionArgs<T>& args, const AttentionOutputs<T>& outputs) {
  validate(args, outputs);
  if (args.backend == Backend::reference) return reference::forward(args, outputs);
  cpu::forward(with_executor(args), outputs);
}

template <class T>
void backward(const AttentionArgs<T>& args, const AttentionUpstream<T>& upstream,
              const AttentionGradients<T>& gradients) {
  validate(args, upstream, gradients);
  if (args.backend == Backend::reference) return reference::backward(args, upstream, gradients);
  check(static_cast<bool>(upstream.saved) || args.query.numel() == 0,
        "saved: expected what forward saved, got nothing");
  cpu::backward(with_executor(args), upstream, gradients);
}

template <class T>
void step(const StepArgs<T>& args, const View<T, 3>& output) {
  validate(args, output);
  if (args.backend == Backend::reference) return reference::step(args, output);
  cpu::step(with_executor(args), output);
}

template <class A>
void reorder_state(const State<const A>& from, std::span<const std::int64_t> order,
                   const State<A>& to) {
  const auto count = static_cast<std::int64_t>(order.size());
  const auto& [sequences, heads, components, value_dim] = from.s.shape;
  check_extents("from.s", from.s);
  check_present("from.s", from.s);
  check_shape("from.z", from.z, "(B, Hk, K)", {sequences, heads, components});
  check_shape("to.s", to.s, "(size of order, Hk, K, Dv)", {count, heads, components, value_dim});
  check_shape("to.z", to.z, "(size of order, Hk, K)", {count, heads, components});
  for (const std::int64_t index : order) {
    check(index >= 0 && index < sequences, "order: expected indices in [0, {}), got {}", sequences,
          index);
  }
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t k = 0; k < components; ++k) {
        to.z(i, h, k) = from.z(order[i], h, k);
        for (std::int64_t d = 0; d < value_dim; ++d) to.s(i, h, k, d) = from.s(order[i], h, k, d);
      }
    }
  }
}

template void reorder_state(const State<const float>&, std::span<const std::int64_t>,
                            const State<float>&);
template void reorder_state(const State<const double>&, std::span<const std::int64_t>,
                            const State<double>&);

#define GMA_INSTANTIATE(T)                                                     \
  template std::int64_t saved_segments(const AttentionArgs<T>&);               \
  template void forward(const AttentionArgs<T>&, const AttentionOutputs<T>&);  \
  template void backward(const AttentionArgs<T>&, const AttentionUpstream<T>&, \
                         const AttentionGradients<T>&);                        \
  template void step(const StepArgs<T>&, const View<T, 3>&)

GMA_INSTANTIATE(float);
GMA_INSTANTIATE(double);
GMA_INSTANTIATE(bfloat16);
GMA_INSTANTIATE(float16);

#undef GMA_INSTANTIATE

}  // namespace gma
