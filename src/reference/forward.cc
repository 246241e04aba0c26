// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "reference/forward.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/sequences.h"
#include "reference/mixture.h"
#include "reference/reference.h"
#include "reference/token.h"

namespace gma::reference {

template <class T>
void forward(const AttentionArgs<T>& args, const AttentionOutputs<T>& outputs) {
  const std::vector<Sequence> list = sequences(args);
  for (std::int64_t head = 0; head < args.key.size(2); ++head) {
    const Mixture mixture(args.means, args.variances, args.prior_logits, head);
    for (std::size_t index = 0; index < list.size(); ++index) {
      const auto position = static_cast<std::int64_t>(index);
      forward_sequence(args, outputs, mixture.num_components(), list[index], position, head,
                       [&](Side side, std::int64_t row, std::int64_t h) {
                         return route(args, mixture, list[index], position, side, row, h);
                       });
    }
  }
}

template void forward(const AttentionArgs<float>&, const AttentionOutputs<float>&);
template void forward(const AttentionArgs<double>&, const AttentionOutputs<double>&);
template void forward(const AttentionArgs<bfloat16>&, const AttentionOutputs<bfloat16>&);
template void forward(const AttentionArgs<float16>&, const AttentionOutputs<float16>&);

}  // namespace gma::reference
