// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <stdexcept>

namespace gma::app {
namespace {

constexpr int kNotStartedCode = 127;  ///< as of a shell

volatile sig_atomic_t child = 0;

extern "C" void hand_on(int signal) {
  if (child > 0) ::kill(static_cast<pid_t>(child), signal);
}

/// While it lives, SIGINT and SIGTERM go to the child alone.
class SignalsHandedOn {
 public:
  SignalsHandedOn() {
    struct sigaction action{};
    action.sa_handler = hand_on;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, &old_int_);
    sigaction(SIGTERM, &action, &old_term_);
  }
  ~SignalsHandedOn() {
    child = 0;
    sigaction(SIGINT, &old_int_, nullptr);
    sigaction(SIGTERM, &old_term_, nullptr);
  }
  SignalsHandedOn(const SignalsHandedOn&) = delete;
  SignalsHandedOn& operator=(const SignalsHandedOn&) = delete;

 private:
  struct sigaction old_int_{};
  struct sigaction old_term_{};
};

/// In a process group of its own: Ctrl-C at a terminal would reach the child twice otherwise, and a
/// second one ends it without saving. Its standard output is `output`, unless that is negative. If
/// we are killed, it saves and ends as well: it would go on unseen otherwise, and the same command
/// again would find its folder taken.
pid_t spawn(const std::vector<std::string>& arguments, int output) {
  std::vector<std::string> words = {"gma"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  const pid_t parent = ::getpid();
  const pid_t started = ::fork();
  if (started < 0) {
    throw std::runtime_error(fmt::format("cannot start gma: {}", std::strerror(errno)));
  }
  if (started > 0) return started;
  // From here to execv only calls that are safe after a fork, as other threads may have held locks.
  ::setpgid(0, 0);
  ::signal(SIGTERM, SIG_DFL);  // the handler that hands on would swallow it until execv
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  const bool has_parent = ::getppid() == parent;
  if (has_parent && (output < 0 || ::dup2(output, STDOUT_FILENO) >= 0)) {
    ::execv("/proc/self/exe", argv.data());
  }
  ::_exit(kNotStartedCode);
}

/// Its exit code, or 128 and the signal that ended it.
int wait_for(pid_t started) {
  int status = 0;
  while (::waitpid(started, &status, 0) < 0) {
    if (errno != EINTR) {
      throw std::runtime_error(fmt::format("cannot wait for gma: {}", std::strerror(errno)));
    }
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

int run_self(const std::vector<std::string>& arguments) {
  std::fflush(stdout);
  const SignalsHandedOn handed_on;
  const pid_t started = spawn(arguments, /*output=*/-1);
  child = started;
  return wait_for(started);
}

ChildOutput read_self(const std::vector<std::string>& arguments) {
  std::fflush(stdout);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    throw std::runtime_error(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  }
  const SignalsHandedOn handed_on;
  ChildOutput output;
  try {
    child = spawn(arguments, ends[1]);
  } catch (...) {
    ::close(ends[0]);
    ::close(ends[1]);
    throw;
  }
  const auto started = static_cast<pid_t>(child);
  ::close(ends[1]);
  char buffer[4096];
  for (ssize_t count = 0; (count = ::read(ends[0], buffer, sizeof(buffer))) != 0;) {
    if (count < 0 && errno != EINTR) break;
    if (count > 0) output.text.append(buffer, static_cast<std::size_t>(count));
  }
  ::close(ends[0]);
  output.code = wait_for(started);
  return output;
}

}  // namespace gma::app
