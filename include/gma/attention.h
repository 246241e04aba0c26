// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Gaussian mixture attention: the operator, its gradient and its decoding step.
// The mathematics, in the same symbols, is derived in docs/math.md.
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>

#include "gma/half.h"
#include "gma/parallel.h"
#include "gma/view.h"

namespace gma {

/// The type in which the mixture parameters, the state and every sum are held: double for double,
/// float for everything narrower.
template <class T>
using accumulate_t = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// Which implementation runs.
enum class Backend {
  automatic,  ///< the fastest that can do the job: `cpu`
  cpu,        ///< SIMD, fused, dispatched to the best instruction set at run time
  reference,  ///< the scalar oracle, in double whatever T is: slow and plain, for tests
};

/// What a sequence leaves behind, and all that decoding needs:
/// S = Gamma_K^T V and Z = Gamma_K^T 1, accumulated over its keys.
/// One state a sequence: B of them, or cu_seqlens.size() - 1 when sequences are packed.
template <class A>
struct State {
  View<A, 4> s;  ///< (B, Hk, K, Dv)
  View<A, 3> z;  ///< (B, Hk, K)

  explicit operator bool() const { return static_cast<bool>(z); }

  operator State<const A>() const
    requires(!std::is_const_v<A>)
  {
    return {s, z};
  }
};

/// Everything the operator reads. T is float, double, bfloat16 or float16; A = accumulate_t<T>.
///
/// Hq must be a multiple of Hk; query head h belongs to key head h / (Hq / Hk) and shares its
/// mixture. `variances` are sigma^2 > 0, already through softplus and floor; their shape is one of
///   (Hk, K, D)  diag: a variance for every component and channel,
///   (Hk, 1, D)  tied: the components of a head share theirs,
///   (Hk, K, 1)  spherical: each component has one for all channels.
/// tied and spherical need about half the arithmetic in D. `prior_logits` are log pi up to a
/// constant a head; -inf switches a component off.
template <class T>
struct AttentionArgs {
  using A = accumulate_t<T>;

  View<const T, 4> query;         ///< (B, Tq, Hq, D)
  View<const T, 4> key;           ///< (B, Tk, Hk, D)
  View<const T, 4> value;         ///< (B, Tk, Hk, Dv)
  View<const A, 3> means;         ///< (Hk, K, D)
  View<const A, 3> variances;     ///< (Hk, K, D), (Hk, 1, D) or (Hk, K, 1)
  View<const A, 2> prior_logits;  ///< (Hk, K)

  /// Token i reads the keys j <= i of its sequence; needs Tq = Tk.
  bool is_causal = false;
  /// (B, Tk), true = keep; absent keeps all. Left out of both S and Z by selection: whatever a
  /// masked key or value holds, NaN included, has no effect.
  View<const bool, 2> key_padding_mask = {};
  /// Boundaries of sequences packed along T with B = 1: from 0, non-decreasing, to T. Both or
  /// neither; empty means not packed. They win over key_padding_mask.
  std::span<const std::int64_t> cu_seqlens_q = {};
  std::span<const std::int64_t> cu_seqlens_k = {};
  /// Added to every read as if its keys came before the first; absent means zero.
  State<const A> initial_state = {};
  /// Added to the normaliser: o_i = n_i / (s_i + eps). Where s_i + eps is 0 the output is 0.
  double eps = 1e-6;
  /// Probability with which each responsibility is dropped (the others grow by 1/(1-p)), decided by
  /// a counter-based generator from `dropout_seed`, batch, head, side, token and component.
  double dropout_p = 0.0;
  std::uint64_t dropout_seed = 0;

  Backend backend = Backend::automatic;
  /// Absent (`run` empty) means openmp_executor().
  Executor executor = {};
};

/// What forward keeps for backward beside its inputs. Never of size N x K: one
/// normaliser a query, and the state at the start of each segment of a few hundred tokens (causal)
/// or of each whole sequence (otherwise). Allocate with saved_segments().
template <class A>
struct Saved {
  View<A, 3> normalizer;  ///< s_i, (B, Tq, Hq)
  View<A, 4> segment_s;   ///< (segments, Hk, K, Dv), contiguous
  View<A, 3> segment_z;   ///< (segments, Hk, K), contiguous

  explicit operator bool() const { return static_cast<bool>(normalizer); }

  operator Saved<const A>() const
    requires(!std::is_const_v<A>)
  {
    return {normalizer, segment_s, segment_z};
  }
};

/// What forward writes. Outputs must not overlap inputs or each other.
template <class T>
struct AttentionOutputs {
  using A = accumulate_t<T>;

  View<T, 4> output;          ///< (B, Tq, Hq, Dv)
  State<A> final_state = {};  ///< optional
  Saved<A> saved = {};        ///< optional; needed for backward
};

/// What backward is given beside AttentionArgs.
template <class T>
struct AttentionUpstream {
  using A = accumulate_t<T>;

  Saved<const A> saved;                  ///< as forward wrote it
  View<const T, 4> grad_output;          ///< (B, Tq, Hq, Dv)
  State<const A> grad_final_state = {};  ///< optional; absent means zero
};

/// What backward writes (it overwrites, it does not add). Any of them may be absent; what is absent
/// is not computed where that saves work.
template <class T>
struct AttentionGradients {
  using A = accumulate_t<T>;

  View<T, 4> query = {};  ///< as AttentionArgs::query, and so on
  View<T, 4> key = {};
  View<T, 4> value = {};
  View<A, 3> means = {};
  View<A, 3> variances = {};  ///< with respect to sigma^2, of its shape
  View<A, 2> prior_logits = {};
  State<A> initial_state = {};
};

/// Every causal segment but the last of its sequence has at least this many tokens: what bounds
/// saved_segments() from shapes alone.
inline constexpr std::int64_t kMinSegmentTokens = 256;

/// Number of leading entries of Saved::segment_s and segment_z. Depends on shapes, is_causal and
/// cu_seqlens alone. Throws InvalidArgument as forward() does.
template <class T>
std::int64_t saved_segments(const AttentionArgs<T>& args);

/// Forward pass. O(N K (D + Dv)) time; memory beside the outputs does not grow with N but for
/// segment states.
/// Throws InvalidArgument for shapes that do not fit together, a causal call with Tq != Tk, bad
/// cu_seqlens, eps < 0, dropout_p outside [0, 1), K = 0, D = 0 or a head whose components are all
/// off.
template <class T>
void forward(const AttentionArgs<T>& args, const AttentionOutputs<T>& outputs);

/// Gradients of everything that forward reads. `args` must be the same as for forward.
template <class T>
void backward(const AttentionArgs<T>& args, const AttentionUpstream<T>& upstream,
              const AttentionGradients<T>& gradients);

/// One decoding step for each of B sequences.
template <class T>
struct StepArgs {
  using A = accumulate_t<T>;

  View<const T, 3> query;         ///< (B, Hq, D)
  View<const T, 3> key;           ///< (B, Hk, D)
  View<const T, 3> value;         ///< (B, Hk, Dv)
  View<const A, 3> means;         ///< (Hk, K, D)
  View<const A, 3> variances;     ///< (Hk, K, D), (Hk, 1, D) or (Hk, K, 1)
  View<const A, 2> prior_logits;  ///< (Hk, K)
  State<A> state;                 ///< updated in place
  double eps = 1e-6;
  Backend backend = Backend::automatic;
  Executor executor = {};
};

/// Adds the token to the state, then reads with its query: the causal pass, one token at a time.
/// O(K (D + Dv)) a head, whatever came before. `output` is (B, Hq, Dv).
template <class T>
void step(const StepArgs<T>& args, const View<T, 3>& output);

/// Copies the states of sequences `order[0]`, `order[1]`, ... of `from` to the first, second, ...
/// of `to`, which has as many and must not overlap `from`: beams that are reordered, doubled or
/// ended. Throws InvalidArgument for shapes that do not fit or an index that `from` does not have.
template <class A>
void reorder_state(const State<const A>& from, std::span<const std::int64_t> order,
                   const State<A>& to);

/// Options of gaussian_mixture_attention(), by the names that every layer uses.
template <class T>
struct AttentionOptions {
  bool is_causal = false;
  View<const bool, 2> key_padding_mask = {};
  std::span<const std::int64_t> cu_seqlens_q = {};
  std::span<const std::int64_t> cu_seqlens_k = {};
  State<const accumulate_t<T>> initial_state = {};
  State<accumulate_t<T>> final_state = {};  ///< written where present
  double eps = 1e-6;
  double dropout_p = 0.0;
  std::uint64_t dropout_seed = 0;
  Backend backend = Backend::automatic;
  Executor executor = {};
};

/// forward() in the form of a call to scaled_dot_product_attention.
template <class T>
void gaussian_mixture_attention(View<const T, 4> query, View<const T, 4> key,
                                View<const T, 4> value, View<const accumulate_t<T>, 3> means,
                                View<const accumulate_t<T>, 3> variances,
                                View<const accumulate_t<T>, 2> prior_logits, View<T, 4> output,
                                const AttentionOptions<T>& options = {}) {
  forward<T>({.query = query,
              .key = key,
              .value = value,
              .means = means,
              .variances = variances,
              .prior_logits = prior_logits,
              .is_causal = options.is_causal,
              .key_padding_mask = options.key_padding_mask,
              .cu_seqlens_q = options.cu_seqlens_q,
              .cu_seqlens_k = options.cu_seqlens_k,
              .initial_state = options.initial_state,
              .eps = options.eps,
              .dropout_p = options.dropout_p,
              .dropout_seed = options.dropout_seed,
              .backend = options.backend,
              .executor = options.executor},
             {.output = output, .final_state = options.final_state});
}

}  // namespace gma
