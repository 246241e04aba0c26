// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "data/download.h"

#include <curl/curl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <exception>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>

#include "data/temporary_file.h"
#include "gma/error.h"

namespace gma::app {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::string_view kUnit = "bytes ";  ///< of Content-Range
constexpr long kMaxRedirects = 10;
constexpr long kConnectSeconds = 30;
constexpr double kLongestWait = 60.0;
constexpr long kOk = 200;
constexpr long kPartialContent = 206;
constexpr long kRequestTimeout = 408;
constexpr long kRangeNotSatisfiable = 416;
constexpr long kTooManyRequests = 429;

/// A failure that may pass.
struct Failure {
  std::string what;
};

/// What tells one version of a file from another: a strong ETag, or else the date of the last
/// change. Empty where the server gives neither, and a break cannot be mended.
struct Identity {
  std::string url;
  std::string validator;
};

/// What a server said, of the last answer if there were redirects.
struct Answer {
  long status = 0;
  std::string etag;
  std::string last_modified;
  std::string content_range;

  std::string validator() const {
    return !etag.empty() && !etag.starts_with("W/") ? etag : last_modified;
  }
  /// First byte of "bytes 100-199/200".
  std::optional<std::int64_t> range_start() const {
    if (!content_range.starts_with(kUnit)) return std::nullopt;
    std::int64_t start = 0;
    const char* end = content_range.data() + content_range.size();
    if (std::from_chars(content_range.data() + kUnit.size(), end, start).ec != std::errc()) {
      return std::nullopt;
    }
    return start;
  }
};

/// The bytes so far, and whose they are.
class PartialFile {
 public:
  explicit PartialFile(const fs::path& path)
      : file_(path, path.parent_path() / fmt::format(".{}.part", path.filename().string())),
        identity_path_(file_.temporary().string() + ".json") {}
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;
  ~PartialFile() {
    if (file_.size() == 0) remove();
  }

  const fs::path& path() const { return file_.temporary(); }
  std::int64_t size() const { return file_.size(); }

  /// What can be gone on with: the validator of the bytes, if they are of `url`.
  std::string validator(const std::string& url) const {
    std::ifstream file(identity_path_);
    const auto json = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || json.value("url", nlohmann::json()) != url) return {};
    const nlohmann::json validator = json.value("validator", nlohmann::json());
    return validator.is_string() ? validator.get<std::string>() : std::string();
  }

  /// The bytes go before the file says whose the next ones are: a kill in between loses them, and
  /// mixes nothing.
  void start_anew(const Identity& identity) {
    file_.clear();
    std::ofstream file(identity_path_, std::ios::trunc);
    const nlohmann::json json = {{"url", identity.url}, {"validator", identity.validator}};
    // A server may send any bytes. Those that are no UTF-8 are lost, and will not be gone on with.
    file << json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << std::flush;
    if (!file) throw IoError(fmt::format("{}: cannot write", identity_path_.string()));
  }

  void append(std::string_view bytes) { file_.append(bytes); }

  void remove() const {
    file_.remove();
    ::unlink(identity_path_.c_str());
  }

  void complete() {
    file_.sync();
    file_.rename();
    ::unlink(identity_path_.c_str());
    sync_folder_of(file_.path());
  }

 private:
  TemporaryFile file_;
  fs::path identity_path_;
};

/// One request, for the whole file or the rest of it. Exceptions cannot pass through libcurl: those
/// of the callbacks wait here.
class Transfer {
 public:
  Transfer(const DownloadOptions& options, PartialFile& file, const Watch& watch)
      : options_(options), file_(file), watch_(watch), curl_(curl_easy_init()) {
    if (!curl_) throw std::bad_alloc();
  }

  /// Returns when the file is complete. Throws Failure for what may pass.
  void run() {
    const std::string validator = file_.validator(options_.url);
    is_rest_ = file_.size() > 0 && !validator.empty();
    expected_validator_ = validator;
    set_options();
    std::unique_ptr<curl_slist, FreeList> headers;
    if (is_rest_) {
      set(CURLOPT_RANGE, fmt::format("{}-", file_.size()).c_str());
      headers.reset(curl_slist_append(nullptr, ("If-Range: " + validator).c_str()));
      if (!headers) throw std::bad_alloc();
      set(CURLOPT_HTTPHEADER, headers.get());
    }
    begin_ = Clock::now();
    const CURLcode code = curl_easy_perform(curl_.get());
    if (pending_) std::rethrow_exception(pending_);
    if (code != CURLE_OK) fail_transport(code);
    check_status();
    // A file without a byte has had no call of on_body().
    if (!is_body_begun_) begin_body();
  }

 private:
  struct FreeCurl {
    void operator()(CURL* curl) const { curl_easy_cleanup(curl); }
  };
  struct FreeList {
    void operator()(curl_slist* list) const { curl_slist_free_all(list); }
  };

  template <class Value>
  void set(CURLoption option, Value value) {
    if (curl_easy_setopt(curl_.get(), option, value) != CURLE_OK) {
      throw std::runtime_error("libcurl lacks an option that downloads need");
    }
  }

  void set_options() {
    set(CURLOPT_URL, options_.url.c_str());
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_REDIR_PROTOCOLS_STR, options_.url.starts_with("https:") ? "https" : "http,https");
    set(CURLOPT_FOLLOWLOCATION, 1L);
    set(CURLOPT_MAXREDIRS, kMaxRedirects);
    set(CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
    set(CURLOPT_LOW_SPEED_LIMIT, 1L);
    set(CURLOPT_LOW_SPEED_TIME, std::max(1L, static_cast<long>(options_.stall_seconds)));
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_USERAGENT, "gma");
    set(CURLOPT_ERRORBUFFER, error_);
    set(CURLOPT_HEADERFUNCTION, on_header);
    set(CURLOPT_HEADERDATA, this);
    set(CURLOPT_WRITEFUNCTION, on_body);
    set(CURLOPT_WRITEDATA, this);
    set(CURLOPT_NOPROGRESS, 0L);
    set(CURLOPT_XFERINFOFUNCTION, on_progress);
    set(CURLOPT_XFERINFODATA, this);
  }

  /// Runs a callback; false where it threw, which ends the transfer.
  template <class Call>
  bool guarded(Call call) {
    try {
      call();
      return true;
    } catch (...) {
      pending_ = std::current_exception();
      return false;
    }
  }

  static std::size_t on_header(char* data, std::size_t size, std::size_t count, void* self) {
    const std::string_view line(data, size * count);
    const bool is_good = static_cast<Transfer*>(self)->guarded(
        [&] { static_cast<Transfer*>(self)->read_header(line); });
    return is_good ? size * count : 0;
  }
  static std::size_t on_body(char* data, std::size_t size, std::size_t count, void* self) {
    const std::string_view bytes(data, size * count);
    const bool is_good = static_cast<Transfer*>(self)->guarded(
        [&] { static_cast<Transfer*>(self)->read_body(bytes); });
    return is_good ? size * count : CURL_WRITEFUNC_ERROR;
  }
  static int on_progress(void* self, curl_off_t total, curl_off_t now, curl_off_t, curl_off_t) {
    const bool is_good = static_cast<Transfer*>(self)->guarded(
        [&] { static_cast<Transfer*>(self)->report(total, now); });
    return is_good ? 0 : 1;
  }

  void read_header(std::string_view line) {
    if (line.starts_with("HTTP/")) {  // of a new answer, after a redirect
      answer_ = {};
      return;
    }
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) return;
    std::string name(line.substr(0, colon));
    std::ranges::transform(name, name.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    std::string_view value = line.substr(colon + 1);
    value.remove_prefix(std::min(value.find_first_not_of(" \t"), value.size()));
    value = value.substr(0, value.find_last_not_of(" \t\r\n") + 1);
    if (name == "etag") answer_.etag = value;
    if (name == "last-modified") answer_.last_modified = value;
    if (name == "content-range") answer_.content_range = value;
  }

  void read_status() { curl_easy_getinfo(curl_.get(), CURLINFO_RESPONSE_CODE, &answer_.status); }

  void read_body(std::string_view bytes) {
    read_status();
    if (answer_.status != kOk && answer_.status != kPartialContent)
      return;  // a page about an error
    if (!is_body_begun_) begin_body();
    file_.append(bytes);
  }

  /// Goes on with the bytes that are there, or starts anew.
  void begin_body() {
    is_body_begun_ = true;
    const std::string validator = answer_.validator();
    if (answer_.status != kPartialContent) {
      if (is_rest_)
        watch_.line("note: the file has changed, or its server sends no parts: it starts anew");
      file_.start_anew({options_.url, validator});
      return;
    }
    const bool is_same = is_rest_ && (validator.empty() || validator == expected_validator_);
    if (is_same && answer_.range_start() == file_.size()) return;
    // Not what was asked for: bytes of another version, or from another place.
    file_.start_anew({});
    throw Failure{"the server sent another part than was asked for"};
  }

  void report(std::int64_t total, std::int64_t now) {
    watch_.check();
    const std::chrono::duration<double> taken = Clock::now() - begin_;
    if (taken.count() - reported_ < 0.2) return;
    reported_ = taken.count();
    const double rate = static_cast<double>(now) / std::max(taken.count(), 1e-9);
    const std::int64_t before = file_.size() - now;
    std::string text = fmt::format("{:.1f} MB", static_cast<double>(file_.size()) / 1e6);
    if (total > 0 && before >= 0) {
      const std::int64_t whole = before + total;
      text = fmt::format("{:3.0f}%  {} of {:.1f} MB",
                         100.0 * static_cast<double>(file_.size()) / static_cast<double>(whole),
                         text, static_cast<double>(whole) / 1e6);
      if (rate > 0) {
        const auto left = static_cast<std::int64_t>(static_cast<double>(total - now) / rate);
        text += fmt::format("  {:.1f} MB/s  {}:{:02} left", rate / 1e6, left / 60, left % 60);
      }
    }
    watch_.status(text);
  }

  void check_status() {
    read_status();
    const long status = answer_.status;
    if (status == kOk || status == kPartialContent) return;
    if (status == kRangeNotSatisfiable && is_rest_) {
      is_body_begun_ = true;
      // The file is still that one, or the whole of it would have come: all of it is there.
      if (answer_.content_range == fmt::format("bytes */{}", file_.size())) return;
      file_.start_anew({});
      throw Failure{"the file is shorter than before"};
    }
    const std::string what = fmt::format("{}: the server answered {}", options_.url, status);
    const bool may_pass = status >= 500 || status == kRequestTimeout || status == kTooManyRequests;
    if (!may_pass) throw InvalidArgument(what);
    throw Failure{what};
  }

  [[noreturn]] void fail_transport(CURLcode code) {
    const std::string what =
        fmt::format("{}: {}", options_.url, error_[0] != '\0' ? error_ : curl_easy_strerror(code));
    switch (code) {
      case CURLE_UNSUPPORTED_PROTOCOL:
      case CURLE_URL_MALFORMAT:
      case CURLE_TOO_MANY_REDIRECTS:
        throw InvalidArgument(what);
      case CURLE_PEER_FAILED_VERIFICATION:
      case CURLE_SSL_CACERT_BADFILE:
        throw IoError(what);
      default:
        throw Failure{what};
    }
  }

  const DownloadOptions& options_;
  PartialFile& file_;
  const Watch& watch_;
  std::unique_ptr<CURL, FreeCurl> curl_;
  char error_[CURL_ERROR_SIZE] = {};
  Answer answer_;
  std::string expected_validator_;
  std::exception_ptr pending_;
  bool is_rest_ = false;
  bool is_body_begun_ = false;
  Clock::time_point begin_;
  double reported_ = -1.0;
};

void wait(double seconds, const Watch& watch) {
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (Clock::now() < end) {
    watch.check();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

void set_up_curl() {
  static const CURLcode code = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (code != CURLE_OK) throw std::runtime_error("libcurl cannot be used");
}

}  // namespace

std::string file_name_of_url(const std::string& url) {
  set_up_curl();
  const std::unique_ptr<CURLU, void (*)(CURLU*)> parts(curl_url(), curl_url_cleanup);
  char* text = nullptr;
  if (curl_url_set(parts.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK ||
      curl_url_get(parts.get(), CURLUPART_PATH, &text, CURLU_URLDECODE) != CURLUE_OK) {
    throw InvalidArgument(fmt::format("--url {}: not a URL", url));
  }
  const std::unique_ptr<char, void (*)(void*)> path(text, curl_free);
  if (!url.starts_with("http://") && !url.starts_with("https://")) {
    throw InvalidArgument(fmt::format("--url {}: expected http:// or https://", url));
  }
  const std::string name = fs::path(path.get()).filename().string();
  if (name.empty() || name.starts_with('.')) {
    throw InvalidArgument(fmt::format("--url {}: expected the address of a file", url));
  }
  return name;
}

void download(const DownloadOptions& options, const fs::path& path, const Watch& watch) {
  set_up_curl();
  PartialFile file(path);
  std::int64_t failures = 0;
  std::int64_t most = file.size();
  while (true) {
    try {
      Transfer(options, file, watch).run();
      break;
    } catch (const Failure& failure) {
      if (file.size() > most) failures = 0;  // it goes on, if in pieces
      most = std::max(most, file.size());
      if (failures >= options.retries) throw IoError(failure.what);
      const double seconds =
          std::min(kLongestWait, std::ldexp(options.retry_seconds, static_cast<int>(failures)));
      ++failures;
      watch.line(fmt::format("note: {}; trying again in {:.1f} s", failure.what, seconds));
      wait(seconds, watch);
    }
  }
  if (!options.sha256.empty()) {
    try {
      check_sha256(file.path(), options.sha256, watch);
    } catch (const InvalidArgument& error) {
      file.remove();  // to go on from here would fail again
      throw InvalidArgument(fmt::format("{}: {}", options.url, error.what()));
    }
  }
  file.complete();
}

}  // namespace gma::app
