// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// gma: trains, evaluates and runs models with Gaussian mixture attention. Exit codes: 0 done, 1
// failed, 2 wrong usage or unusable input, 130 interrupted. Every error is one line on standard
// error.

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <csignal>
#include <cstdio>
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

}  // namespace

/// What jemalloc, which serves the whole program, is to do; it reads this before main(), and the
/// variable MALLOC_CONF of the environment after it. Freed memory is kept for the next batch, which
/// needs as much again: from the system it would come as zeroed pages each time. glibc, told the
/// same, finds no room for batches of other lengths in what it keeps, and takes more and more.
extern "C" {
[[gnu::visibility("default")]] extern const char* const malloc_conf;
const char* const malloc_conf = "oversize_threshold:0,dirty_decay_ms:-1,muzzy_decay_ms:-1";
}

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a write past a file size limit fails like one to a full disk
  const int code = run(argc, argv);
  if (code == 0 && (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)) {
    return fail(kFailed, "cannot write to standard output");
  }
  return code;
}
