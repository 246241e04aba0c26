// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "reference/selective_scan.h"

#include <cmath>
#include <cstdint>
#include <vector>

namespace gma::reference {
namespace {

/// h of one channel and state before the first token and after each, (T + 1).
template <class T>
std::vector<double> states(const ScanArgs<T>& args, std::int64_t b, std::int64_t e,
                           std::int64_t s) {
  std::vector<double> h{args.initial_state ? static_cast<double>(args.initial_state(b, e, s)) : 0};
  for (std::int64_t t = 0; t < args.u.size(1); ++t) {
    const double delta = args.delta(b, t, e);
    h.push_back(std::exp(delta * args.a(e, s)) * h.back() +
                delta * args.b(b, t, s) * args.u(b, t, e));
  }
  return h;
}

/// An array of doubles of a view's shape, to sum into before it is rounded to T.
template <class T, std::size_t Rank>
class Sums {
 public:
  explicit Sums(const View<const T, Rank>& like)
      : values_(static_cast<std::size_t>(like.numel())),
        view_(View<double, Rank>::contiguous(values_.data(), like.shape)) {}

  template <class... Index>
  double& operator()(Index... index) {
    return view_(index...);
  }

  void store_to(const View<T, Rank>& target) {
    if (target) store(target, 0, target.data, values_.data());
  }

 private:
  const double* store(const View<T, Rank>& target, std::size_t axis, T* to, const double* from) {
    for (std::int64_t i = 0; i < target.size(axis); ++i, to += target.strides[axis]) {
      if (axis + 1 == Rank) {
        *to = static_cast<T>(*from++);
      } else {
        from = store(target, axis + 1, to, from);
      }
    }
    return from;
  }

  std::vector<double> values_;
  View<double, Rank> view_;
};

}  // namespace

template <class T>
void selective_scan(const ScanArgs<T>& args, const ScanOutputs<T>& outputs) {
  const auto& [batch, tokens, channels] = args.u.shape;
  const std::int64_t num_states = args.a.size(1);
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t e = 0; e < channels; ++e) {
      std::vector<double> y;
      for (std::int64_t t = 0; t < tokens; ++t) {
        y.push_back(static_cast<double>(args.d(e)) * args.u(b, t, e));
      }
      for (std::int64_t s = 0; s < num_states; ++s) {
        const std::vector<double> h = states(args, b, e, s);
        for (std::int64_t t = 0; t < tokens; ++t) y[t] += args.c(b, t, s) * h[t + 1];
        if (outputs.final_state) outputs.final_state(b, e, s) = static_cast<T>(h.back());
      }
      for (std::int64_t t = 0; t < tokens; ++t) outputs.y(b, t, e) = static_cast<T>(y[t]);
    }
  }
}

template <class T>
void selective_scan_backward(const ScanArgs<T>& args, const ScanUpstream<T>& upstream,
                             const ScanGradients<T>& gradients) {
  const auto& [batch, tokens, channels] = args.u.shape;
  const std::int64_t num_states = args.a.size(1);
  Sums<T, 3> du(args.u), ddelta(args.delta), db(args.b), dc(args.c);
  Sums<T, 2> da(args.a);
  Sums<T, 1> dd(args.d);
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t e = 0; e < channels; ++e) {
      for (std::int64_t t = 0; t < tokens; ++t) {
        const double dy = upstream.grad_y(b, t, e);
        du(b, t, e) += dy * args.d(e);
        dd(e) += dy * args.u(b, t, e);
      }
      for (std::int64_t s = 0; s < num_states; ++s) {
        const std::vector<double> h = states(args, b, e, s);
        const double a = args.a(e, s);
        // The gradient of h_t, of all that comes after token t first.
        double dh = upstream.grad_final_state ? upstream.grad_final_state(b, e, s) : 0;
        for (std::int64_t t = tokens; t-- > 0;) {
          const double delta = args.delta(b, t, e), u = args.u(b, t, e), input = args.b(b, t, s);
          const double dy = upstream.grad_y(b, t, e);
          dc(b, t, s) += dy * h[t + 1];
          dh += dy * args.c(b, t, s);
          db(b, t, s) += dh * delta * u;
          du(b, t, e) += dh * delta * input;
          // Of the exponent delta A.
          const double dexponent = dh * std::exp(delta * a) * h[t];
          ddelta(b, t, e) += dexponent * a + dh * input * u;
          da(e, s) += dexponent * delta;
          dh *= std::exp(delta * a);
        }
        if (gradients.initial_state) gradients.initial_state(b, e, s) = static_cast<T>(dh);
      }
    }
  }
  du.store_to(gradients.u);
  ddelta.store_to(gradients.delta);
  da.store_to(gradients.a);
  db.store_to(gradients.b);
  dc.store_to(gradients.c);
  dd.store_to(gradients.d);
}

#define GMA_INSTANTIATE(T)                                                          \
  template void selective_scan(const ScanArgs<T>&, const ScanOutputs<T>&);          \
  template void selective_scan_backward(const ScanArgs<T>&, const ScanUpstream<T>&, \
                                        const ScanGradients<T>&)

GMA_INSTANTIATE(float);
GMA_INSTANTIATE(double);

#undef GMA_INSTANTIATE

}  // namespace gma::reference
