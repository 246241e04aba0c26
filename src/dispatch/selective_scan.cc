// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// The public entry points of the selective scan: validate, then hand over to a backend.
#include "gma/selective_scan.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/checks.h"
#include "cpu/selective_scan.h"
#include "reference/selective_scan.h"

namespace gma {
namespace {

template <class T, std::size_t Rank>
void check_optional(std::string_view name, const View<T, Rank>& view, std::string_view layout,
                    const std::array<std::int64_t, Rank>& expected) {
  if (view) check_shape(name, view, layout, expected);
}

template <class T>
void validate(const ScanArgs<T>& args) {
  check_extents("u", args.u);
  check_extents("a", args.a);
  check_present("u", args.u);
  const auto& [batch, tokens, channels] = args.u.shape;
  const std::int64_t num_states = args.a.size(1);
  check(num_states > 0, "a: expected at least one state, got S = 0");
  check_shape("delta", args.delta, "(B, T, E)", args.u.shape);
  check_shape("a", args.a, "(E, S)", {channels, num_states});
  check_shape("b", args.b, "(B, T, S)", {batch, tokens, num_states});
  check_shape("c", args.c, "(B, T, S)", {batch, tokens, num_states});
  check_shape("d", args.d, "(E)", {channels});
  check_optional("initial_state", args.initial_state, "(B, E, S)", {batch, channels, num_states});
}

template <class T>
View<T, 4> expected_saved(const ScanArgs<std::remove_const_t<T>>& args) {
  return {
      nullptr, {args.u.size(0), scan_segments(args.u.size(1)), args.a.size(1), args.u.size(2)}, {}};
}

template <class T>
void validate(const ScanArgs<T>& args, const ScanOutputs<T>& outputs) {
  validate(args);
  const std::array state{args.u.size(0), args.u.size(2), args.a.size(1)};
  check_shape("y", outputs.y, "(B, T, E)", args.u.shape);
  check_optional("final_state", outputs.final_state, "(B, E, S)", state);
  check_optional("saved", outputs.saved, "(B, segments, S, E)", expected_saved<T>(args).shape);
}

template <class T>
void validate(const ScanArgs<T>& args, const ScanUpstream<T>& upstream,
              const ScanGradients<T>& gradients) {
  validate(args);
  const std::array state{args.u.size(0), args.u.size(2), args.a.size(1)};
  check_optional("saved", upstream.saved, "(B, segments, S, E)", expected_saved<T>(args).shape);
  check_shape("grad_y", upstream.grad_y, "(B, T, E)", args.u.shape);
  check_optional("grad_final_state", upstream.grad_final_state, "(B, E, S)", state);
  check_optional("gradients.u", gradients.u, "of u", args.u.shape);
  check_optional("gradients.delta", gradients.delta, "of delta", args.u.shape);
  check_optional("gradients.a", gradients.a, "of a", args.a.shape);
  check_optional("gradients.b", gradients.b, "of b", args.b.shape);
  check_optional("gradients.c", gradients.c, "of c", args.c.shape);
  check_optional("gradients.d", gradients.d, "of d", args.d.shape);
  check_optional("gradients.initial_state", gradients.initial_state, "(B, E, S)", state);
}

/// Copies args with an executor in place.
template <class T>
ScanArgs<T> with_executor(const ScanArgs<T>& args) {
  ScanArgs<T> complete = args;
  Executor& executor = complete.executor;
  if (!executor.run) {
    executor = openmp_executor();
    executor.min_work = kMinParallelWork;
  }
  // An exponential is about eight multiply-adds.
  constexpr double kWorkPerState = 10;
  const double work =
      kWorkPerState * static_cast<double>(args.u.numel()) * static_cast<double>(args.a.size(1));
  if (work < static_cast<double>(executor.min_work)) executor = serial_executor();
  return complete;
}

}  // namespace

template <class T>
void selective_scan(const ScanArgs<T>& args, const ScanOutputs<T>& outputs) {
  validate(args, outputs);
  if (args.backend == Backend::reference) return reference::selective_scan(args, outputs);
  cpu::selective_scan(with_executor(args), outputs);
}

template <class T>
void selective_scan_backward(const ScanArgs<T>& args, const ScanUpstream<T>& upstream,
                             const ScanGradients<T>& gradients) {
  validate(args, upstream, gradients);
  if (args.backend == Backend::reference) {
    return reference::selective_scan_backward(args, upstream, gradients);
  }
  check(static_cast<bool>(upstream.saved) || args.u.numel() == 0,
        "saved: expected what forward saved, got nothing");
  cpu::selective_scan_backward(with_executor(args), upstream, gradients);
}

#define GMA_INSTANTIATE(T)                                                          \
  template void selective_scan(const ScanArgs<T>&, const ScanOutputs<T>&);          \
  template void selective_scan_backward(const ScanArgs<T>&, const ScanUpstream<T>&, \
                                        const ScanGradients<T>&)

GMA_INSTANTIATE(float);
GMA_INSTANTIATE(double);

#undef GMA_INSTANTIATE

}  // namespace gma
