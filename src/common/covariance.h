// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Variances that components or channels share. Their shape says which.
#pragma once

#include <cstdint>

#include "gma/view.h"

namespace gma {

enum class CovarianceType {
  diag,       ///< (Hk, K, D)
  tied,       ///< (Hk, 1, D): the components of a head share theirs
  spherical,  ///< (Hk, K, 1): each component has one for all channels
};

/// From valid variances of K components of size D.
template <class A>
CovarianceType covariance_type(const View<A, 3>& variances, std::int64_t num_components,
                               std::int64_t dim) {
  if (variances.size(1) != num_components) return CovarianceType::tied;
  if (variances.size(2) != dim) return CovarianceType::spherical;
  return CovarianceType::diag;
}

/// All of them, (Hk, K, D): a shared axis gets stride 0.
template <class A>
View<A, 3> broadcast_variances(View<A, 3> variances, std::int64_t num_components,
                               std::int64_t dim) {
  switch (covariance_type(variances, num_components, dim)) {
    case CovarianceType::diag:
      break;
    case CovarianceType::tied:
      variances.strides[1] = 0;
      break;
    case CovarianceType::spherical:
      variances.strides[2] = 0;
      break;
  }
  variances.shape = {variances.size(0), num_components, dim};
  return variances;
}

}  // namespace gma
