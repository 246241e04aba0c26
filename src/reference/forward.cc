// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <vector>

#include "common/sequences.h"
#include "reference/mixture.h"
#include "reference/reference.h"
#include "reference/token.h"

namespace gma::reference {
namespace {

template <class T>
void forward_sequence(const AttentionArgs<T>& args, const AttentionOutputs<T>& outputs,
                      const Mixture& mixture, const Sequence& sequence, std::int64_t index,
                      std::int64_t head) {
  HeadState state(mixture.num_components(), args.value.size(3));
  state.load_from(args.initial_state, index, head);

  std::int64_t written = 0;
  const auto write_until = [&](std::int64_t end) {
    for (; written < end; ++written) {
      if (!is_kept(args, sequence, written)) continue;
      const Token key = route(args, mixture, sequence, index, Side::key, written, head);
      state.add(key.weights, value_row(args, sequence, written, head), 1.0);
    }
  };

  const std::int64_t group = args.query.size(2) / args.key.size(2);
  for (std::int64_t row = 0; row < sequence.num_queries(); ++row) {
    write_until(visible_keys(args, sequence, row));
    const std::int64_t i = sequence.q_begin + row;
    for (std::int64_t h = head * group; h < (head + 1) * group; ++h) {
      const Token query = route(args, mixture, sequence, index, Side::query, row, h);
      const Read read(query.weights, state, args.eps);
      store(read.output, outputs.output.at(sequence.batch, i, h), outputs.output.strides[3]);
      if (outputs.saved) {
        outputs.saved.normalizer(sequence.batch, i, h) =
            static_cast<accumulate_t<T>>(read.normalizer);
      }
    }
  }
  write_until(sequence.num_keys());
  state.store_to(outputs.final_state, index, head);
}

}  // namespace

template <class T>
void forward(const AttentionArgs<T>& args, const AttentionOutputs<T>& outputs) {
  const std::vector<Sequence> list = sequences(args);
  for (std::int64_t head = 0; head < args.key.size(2); ++head) {
    const Mixture mixture(args.means, args.variances, args.prior_logits, head);
    for (std::size_t index = 0; index < list.size(); ++index) {
      forward_sequence(args, outputs, mixture, list[index], static_cast<std::int64_t>(index), head);
    }
  }
}

template void forward(const AttentionArgs<float>&, const AttentionOutputs<float>&);
template void forward(const AttentionArgs<double>&, const AttentionOutputs<double>&);
template void forward(const AttentionArgs<bfloat16>&, const AttentionOutputs<bfloat16>&);
template void forward(const AttentionArgs<float16>&, const AttentionOutputs<float16>&);

}  // namespace gma::reference
