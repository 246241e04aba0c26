// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Checks that the attention operators share, with and without a mixture.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/SymInt.h>

#include <cmath>
#include <optional>
#include <string>

#include "ops/arguments.h"
#include "ops/checks.h"
#include "ops/dtype.h"

namespace gma_torch::ops {

template <class Visit>
void visit_given(const char* name, const std::optional<at::Tensor>& tensor, const Visit& visit) {
  if (is_given(tensor)) visit(name, *tensor);
}

inline void check_eps(double eps) {
  TORCH_CHECK_VALUE(std::isfinite(eps) && eps >= 0, "eps: expected a finite number >= 0, got ",
                    eps);
}

/// Query heads come in groups of the same size for each key head.
inline void check_heads(const c10::SymInt& query_heads, const c10::SymInt& heads) {
  const bool fits = holds(heads.sym_eq(0)) ? holds(query_heads.sym_eq(0))
                                           : holds((query_heads % heads).sym_eq(0));
  TORCH_CHECK_VALUE(fits, "query: expected its number of heads to be a multiple of key's ", heads,
                    ", got ", query_heads);
}

inline void check_causal(bool is_causal, const c10::SymInt& queries, const c10::SymInt& keys) {
  TORCH_CHECK_VALUE(!is_causal || holds(queries.sym_eq(keys)),
                    "is_causal: expected as many queries as keys, got Tq = ", queries,
                    " and Tk = ", keys, ": which keys a query may read is not defined otherwise");
}

inline void check_key_padding_mask(const std::optional<at::Tensor>& mask, const c10::SymInt& batch,
                                   const c10::SymInt& keys) {
  if (!is_given(mask)) return;
  TORCH_CHECK_TYPE(mask->scalar_type() == at::kBool, "key_padding_mask: expected dtype Bool, got ",
                   mask->scalar_type());
  check_shape("key_padding_mask", *mask, "(B, Tk)", {batch, keys});
}

/// `shape` is that of S, and `layout` names its axes; Z has all of them but the last.
inline void check_state(const char* s_name, const at::Tensor& s, const char* z_name,
                        const at::Tensor& z, const at::Tensor& query, const std::string& layout,
                        const SymShape& shape) {
  const at::ScalarType accumulate = accumulate_type(query.scalar_type());
  check_dtype(s_name, s, accumulate, "query", query);
  check_dtype(z_name, z, accumulate, "query", query);
  check_shape(s_name, s, layout.c_str(), shape);
  check_shape(z_name, z, (layout.substr(0, layout.rfind(',')) + ")").c_str(),
              {shape.begin(), shape.end() - 1});
}

/// Both halves of an initial state or neither.
inline void check_initial_state(const std::optional<at::Tensor>& s,
                                const std::optional<at::Tensor>& z, const at::Tensor& query,
                                const std::string& layout, const SymShape& shape) {
  TORCH_CHECK_VALUE(is_given(s) == is_given(z), is_given(s) ? "initial_state.z" : "initial_state.s",
                    ": expected together with ",
                    is_given(s) ? "initial_state.s" : "initial_state.z", ", got None");
  if (is_given(s)) check_state("initial_state.s", *s, "initial_state.z", *z, query, layout, shape);
}

}  // namespace gma_torch::ops
