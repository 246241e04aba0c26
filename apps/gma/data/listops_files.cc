// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "data/listops_files.h"

#include <fmt/format.h>

#include <chrono>
#include <numeric>

#include "data/listops.h"
#include "data/output_file.h"

namespace gma::app {
namespace {

constexpr const char* kHeader = "Source\tTarget\r\n";
constexpr std::int64_t kRowsBetweenLooks = 256;

}  // namespace

ListOpsFilesReport write_listops(const std::filesystem::path& folder,
                                 const ListOpsFilesOptions& options, const Watch& watch) {
  const auto begin = std::chrono::steady_clock::now();
  ListOpsGenerator generator(options.generator, options.seed);
  OutputFiles files(folder, kListOpsFiles);
  std::array<ListOpsCounts, 3> counts;
  ListOpsFilesReport report;
  const std::int64_t total =
      std::accumulate(options.rows.begin(), options.rows.end(), std::int64_t{0});
  std::int64_t done = 0;
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  for (std::size_t split = 0; split < options.rows.size(); ++split) {
    files.write(split, kHeader);
    for (std::int64_t row = 0; row < options.rows[split]; ++row, ++done) {
      if (done % kRowsBetweenLooks == 0) {
        watch.check();
        watch.status(fmt::format("{:3}%  {} of {} expressions, {:.0f}/s", 100 * done / total, done,
                                 total, static_cast<double>(done) / seconds()));
      }
      const std::span<const Token> tokens = generator.next();
      const int value = evaluate_listops(tokens);
      counts[split].add(tokens, value);
      const std::string line = fmt::format(
          "{}\t{}\r\n",
          options.parentheses ? listops_text_with_parentheses(tokens) : listops_text(tokens),
          value);
      report.bytes += std::ssize(line);
      files.write(split, line);
    }
  }
  files.commit();
  report.baselines = listops_baselines(counts.front(), counts.back());
  report.seconds = seconds();
  return report;
}

}  // namespace gma::app
