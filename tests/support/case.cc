// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "support/case.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace gma::test {

std::vector<Case> length_cases() {
  std::vector<Case> cases;
  for (const bool is_causal : {false, true}) {
    for (const std::int64_t n : {1,   2,   3,   15,  16,   17,   63,   64,   65,   127,  129,
                                 255, 256, 257, 513, 1000, 1023, 1025, 2047, 4096, 4097, 5121}) {
      cases.push_back({.name = (is_causal ? "causal_N" : "bidirectional_N") + std::to_string(n),
                       .queries = n,
                       .keys = n,
                       .dim = 5,
                       .value_dim = 6,
                       .components = 7,
                       .is_causal = is_causal,
                       // With one key and no eps every gradient but the value's cancels to zero.
                       .eps = 0.05});
    }
  }
  return cases;
}

std::vector<Case> size_cases() {
  constexpr std::array<std::int64_t, 6> kSizes = {1, 3, 7, 60, 65, 100};
  std::vector<Case> cases;
  for (std::size_t i = 0; i < kSizes.size(); ++i) {
    for (std::size_t j = 0; j < kSizes.size(); ++j) {
      for (const bool is_causal : {false, true}) {
        // A Latin square: every pair of two of the three sizes occurs.
        Case one{.queries = 37,
                 .keys = 37,
                 .dim = kSizes[i],
                 .value_dim = kSizes[j],
                 .components = kSizes[(i + j) % kSizes.size()],
                 .is_causal = is_causal};
        one.name = (is_causal ? "causal_D" : "bidirectional_D") + std::to_string(one.dim) + "_Dv" +
                   std::to_string(one.value_dim) + "_K" + std::to_string(one.components);
        cases.push_back(one);
        const std::string name = one.name;
        one.covariance_type = CovarianceType::tied;
        one.name = "tied_" + name;
        cases.push_back(one);
        one.covariance_type = CovarianceType::spherical;
        one.name = "spherical_" + name;
        cases.push_back(one);
      }
    }
  }
  return cases;
}

std::vector<Case> option_cases() {
  const Case several{.batch = 2,
                     .queries = 70,
                     .keys = 70,
                     .query_heads = 3,
                     .key_heads = 3,
                     .dim = 12,
                     .value_dim = 20,
                     .components = 10};
  std::vector<Case> cases;
  const auto add = [&](std::string name, auto change) {
    for (const bool is_causal : {false, true}) {
      Case one = several;
      one.is_causal = is_causal;
      one.name = (is_causal ? "causal_" : "bidirectional_") + name;
      change(one);
      cases.push_back(one);
    }
  };
  const auto pack = [](Case& one) {
    one.batch = 1;
    one.queries = one.keys = 380;
    one.cu_seqlens_q = one.cu_seqlens_k = {0, 0, 1, 17, 80, 80, 380};
  };
  add("plain", [](Case&) {});
  add("mask", [](Case& one) { one.has_mask = true; });
  add("state", [](Case& one) { one.has_state = true; });
  add("grouped", [](Case& one) { one.query_heads = 6; });
  add("dropout", [](Case& one) { one.dropout_p = 0.3; });
  add("no_eps", [](Case& one) { one.eps = 0; });
  add("large_eps", [](Case& one) { one.eps = 10; });
  add("sharp", [](Case& one) { one.variance = 0.05; });
  add("offset", [](Case& one) { one.offset = 100; });
  add("packed", pack);
  add("packed_state", [&](Case& one) {
    pack(one);
    one.has_state = true;
  });
  add("everything", [](Case& one) {
    one.queries = one.keys = 530;
    one.query_heads = 6;
    one.has_mask = one.has_state = true;
    one.dropout_p = 0.1;
  });

  for (const CovarianceType type : {CovarianceType::tied, CovarianceType::spherical}) {
    const std::string name = type == CovarianceType::tied ? "tied" : "spherical";
    add(name, [&](Case& one) { one.covariance_type = type; });
    // A centre takes up an offset that all components have in common.
    add(name + "_offset", [&](Case& one) {
      one.covariance_type = type;
      one.offset = 100;
    });
    add(name + "_some_far", [&](Case& one) {
      one.covariance_type = type;
      one.far_every = 5;
      one.has_mask = true;
    });
    add(name + "_all_far", [&](Case& one) {
      one.covariance_type = type;
      one.variance = 0.03;
    });
    add(name + "_everything", [&](Case& one) {
      one.covariance_type = type;
      one.queries = one.keys = 530;
      one.query_heads = 6;
      one.has_mask = one.has_state = true;
      one.dropout_p = 0.1;
    });
  }

  Case cross = several;
  cross.name = "cross_more_keys";
  cross.keys = 301;
  cases.push_back(cross);
  cross.name = "cross_more_queries";
  cross.queries = 301;
  cross.keys = 5;
  cross.has_mask = cross.has_state = true;
  cases.push_back(cross);
  cross.name = "cross_packed";
  cross.batch = 1;
  cross.queries = 70;
  cross.keys = 43;
  cross.has_mask = false;
  cross.cu_seqlens_q = {0, 10, 10, 65, 70};
  cross.cu_seqlens_k = {0, 0, 3, 40, 43};
  cases.push_back(cross);
  return cases;
}

std::vector<Case> benchmark_cases() {
  const Case usual{.queries = 8192,
                   .keys = 8192,
                   .query_heads = 8,
                   .key_heads = 8,
                   .dim = 64,
                   .value_dim = 64,
                   .components = 128,
                   .variance = 32};
  std::vector<Case> cases;
  const auto add = [&](std::string name, auto change) {
    for (const bool is_causal : {false, true}) {
      Case one = usual;
      one.is_causal = is_causal;
      one.name = (is_causal ? "causal_" : "bidirectional_") + name;
      change(one);
      cases.push_back(one);
    }
  };
  add("N8192", [](Case&) {});
  add("N1024", [](Case& one) { one.queries = one.keys = 1024; });
  add("N65536_one_head", [](Case& one) {
    one.queries = one.keys = 65'536;
    one.query_heads = one.key_heads = 1;
  });
  add("N8192_K32", [](Case& one) { one.components = 32; });
  add("N8192_D32", [](Case& one) { one.dim = one.value_dim = 32; });
  add("N8192_tied", [](Case& one) { one.covariance_type = CovarianceType::tied; });
  add("N8192_spherical", [](Case& one) { one.covariance_type = CovarianceType::spherical; });
  add("N8192_grouped", [](Case& one) { one.key_heads = 2; });
  add("N8192_mask", [](Case& one) { one.has_mask = true; });
  add("N8192_dropout", [](Case& one) { one.dropout_p = 0.1; });
  add("N8192_packed",
      [](Case& one) { one.cu_seqlens_q = one.cu_seqlens_k = {0, 1000, 1001, 3000, 8192}; });
  return cases;
}

std::vector<Case> gradient_cases() {
  std::vector<Case> cases;
  for (const bool is_causal : {false, true}) {
    Case one{.name = is_causal ? "causal" : "bidirectional",
             .batch = 2,
             .queries = 5,
             .keys = 5,
             .query_heads = 2,
             .key_heads = 1,
             .dim = 3,
             .value_dim = 2,
             .components = 4,
             .is_causal = is_causal,
             .has_mask = true,
             .has_state = true};
    cases.push_back(one);
    one.name += "_dropout";
    one.dropout_p = 0.4;
    cases.push_back(one);
    one.name = is_causal ? "causal_packed" : "bidirectional_packed";
    one.dropout_p = 0;
    one.batch = 1;
    one.has_mask = false;
    one.cu_seqlens_q = one.cu_seqlens_k = {0, 2, 2, 5};
    cases.push_back(one);
  }
  for (const CovarianceType type : {CovarianceType::tied, CovarianceType::spherical}) {
    Case one = cases.front();
    one.name = type == CovarianceType::tied ? "tied" : "spherical";
    one.covariance_type = type;
    cases.push_back(one);
  }
  cases.push_back({.name = "cross",
                   .queries = 3,
                   .keys = 6,
                   .query_heads = 2,
                   .key_heads = 2,
                   .dim = 3,
                   .value_dim = 2,
                   .components = 4});
  return cases;
}

}  // namespace gma::test
