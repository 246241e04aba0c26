// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// gma: trains, evaluates and runs models with Gaussian mixture attention. Exit codes: 0 done, 1
// failed, 2 wrong usage or unusable input, 130 interrupted. Every error is one line on standard
// error.

#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <malloc.h>

#include <csignal>
#include <cstdio>
#include <limits>
#include <new>
#include <string>
#include <string_view>

#include "cli.h"
#include "gma/error.h"
#include "gma/version.h"

namespace {

constexpr int kFailed = 1;
constexpr int kWrongUsage = 2;

int fail(int code, std::string_view message) {
  fmt::print(stderr, "gma: error: {}\n", message.substr(0, message.find('\n')));
  return code;
}

int run(int argc, char** argv) {
  CLI::App app("Gaussian mixture attention: train, evaluate and run models");
  app.name("gma");
  app.set_version_flag("--version", std::string("gma ") + gma::version());
  gma::app::set_program(argv[0]);
  gma::app::set_conventions(app);
  app.footer("'gma VERB --help' lists the options of a verb.");
  gma::app::add_train_command(app);
  gma::app::add_eval_command(app);
  gma::app::add_generate_command(app);
  gma::app::add_compare_command(app);
  gma::app::add_report_command(app);
  gma::app::add_profile_command(app);
  gma::app::add_info_command(app);
  gma::app::add_inspect_command(app);
  gma::app::add_data_command(app);
  try {
    app.parse(argc, argv);
    if (app.get_subcommands().empty()) throw gma::InvalidArgument("no verb given; see gma --help");
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    return fail(kWrongUsage, error.what());
  } catch (const gma::app::Interrupted&) {
    return gma::app::kInterruptedCode;
  } catch (const gma::InvalidArgument& error) {
    return fail(kWrongUsage, error.what());
  } catch (const c10::Error& error) {
    const std::string_view message = error.what_without_backtrace();
    const bool is_memory = message.find("DefaultCPUAllocator") != message.npos ||
                           message.find("calculation overflowed") != message.npos;
    return fail(kFailed, is_memory ? "out of memory" : message);
  } catch (const std::bad_alloc&) {
    return fail(kFailed, "out of memory");
  } catch (const std::exception& error) {
    return fail(kFailed, error.what());
  }
  return 0;
}

/// Keeps freed memory for the next step, which needs as much again. Given back to the system and
/// asked for anew, the large tensors of a batch come as zeroed pages each time: a quarter of the
/// time of `gma eval`, measured with a vocabulary of 2,000.
void keep_freed_memory() {
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
}

}  // namespace

int main(int argc, char** argv) {
  keep_freed_memory();
  std::signal(SIGXFSZ, SIG_IGN);  // a write past a file size limit fails like one to a full disk
  const int code = run(argc, argv);
  if (code == 0 && (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)) {
    return fail(kFailed, "cannot write to standard output");
  }
  return code;
}
