// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "reference/mixture.h"
#include "reference/reference.h"

namespace gma::reference {

template <class T>
void step(const StepArgs<T>& args, const View<T, 3>& output) {
  const std::int64_t group = args.key.size(1) == 0 ? 0 : args.query.size(1) / args.key.size(1);
  for (std::int64_t head = 0; head < args.key.size(1); ++head) {
    const Mixture mixture(args.means, args.variances, args.prior_logits, head);
    for (std::int64_t b = 0; b < args.query.size(0); ++b) {
      HeadState state(mixture.num_components(), args.value.size(2));
      state.load_from(args.state, b, head);
      const Vector k = load(args.key.at(b, head), mixture.dim(), args.key.strides[2]);
      const Vector v = load(args.value.at(b, head), args.value.size(2), args.value.strides[2]);
      state.add(mixture.responsibilities(k), v, 1.0);
      state.store_to(args.state, b, head);
      for (std::int64_t h = head * group; h < (head + 1) * group; ++h) {
        const Vector q = load(args.query.at(b, h), mixture.dim(), args.query.strides[2]);
        const Read read(mixture.responsibilities(q), state, args.eps);
        store(read.output, output.at(b, h), output.strides[2]);
      }
    }
  }
}

template void step(const StepArgs<float>&, const View<float, 3>&);
template void step(const StepArgs<double>&, const View<double, 3>&);
template void step(const StepArgs<bfloat16>&, const View<bfloat16, 3>&);
template void step(const StepArgs<float16>&, const View<float16, 3>&);

}  // namespace gma::reference
