// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Forward over one sequence, wherever the weights of its tokens come from.
#pragma once

#include <cstdint>

#include "common/dropout.h"
#include "common/sequences.h"
#include "gma/attention.h"
#include "reference/mixture.h"
#include "reference/token.h"

namespace gma::reference {

/// One key head and the query heads that share it; route(side, row, head) is a Token of the
/// sequence.
template <class Args, class T, class Route>
void forward_sequence(const Args& args, const AttentionOutputs<T>& outputs,
                      std::int64_t num_weights, const Sequence& sequence, std::int64_t index,
                      std::int64_t head, const Route& route) {
  HeadState state(num_weights, args.value.size(3));
  state.load_from(args.initial_state, index, head);

  std::int64_t written = 0;
  const auto write_until = [&](std::int64_t end) {
    for (; written < end; ++written) {
      if (!is_kept(args, sequence, written)) continue;
      state.add(route(Side::key, written, head).weights, value_row(args, sequence, written, head),
                1.0);
    }
  };

  const std::int64_t group = args.query.size(2) / args.key.size(2);
  for (std::int64_t row = 0; row < sequence.num_queries(); ++row) {
    write_until(visible_keys(args, sequence, row));
    const std::int64_t i = sequence.q_begin + row;
    for (std::int64_t h = head * group; h < (head + 1) * group; ++h) {
      const Read read(route(Side::query, row, h).weights, state, args.eps);
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

}  // namespace gma::reference
