// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "train/run_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "gma/error.h"
#include "infer/saved_model.h"
#include "scratch_folder.h"

namespace gma::app {
namespace {

namespace fs = std::filesystem;

TEST(RunFolder, GoesAwayUnlessSomethingIsSavedInIt) {
  const ScratchFolder scratch;
  {
    const RunFolder folder(scratch / "runs/a");
  }
  EXPECT_FALSE(fs::exists(scratch / "runs"));
  {
    const RunFolder folder(scratch / "runs/a/");
    EXPECT_FALSE(folder.holds_run());
    scratch.write("runs/a/last.safetensors", "x");
    EXPECT_TRUE(folder.holds_run());
  }
  EXPECT_TRUE(fs::exists(scratch / "runs/a/last.safetensors"));
}

TEST(RunFolder, BelongsToOneRunAtATime) {
  const ScratchFolder scratch;
  std::optional<RunFolder> first(scratch.string());
  EXPECT_REFUSED(RunFolder(scratch.string()), InvalidArgument, "another run is going on");
  first.reset();
  EXPECT_NO_THROW(RunFolder(scratch.string()));
}

TEST(RunFolder, ClearsWhatAKilledRunLeft) {
  const ScratchFolder scratch;
  for (const char* name : {".last.safetensors.tmp", ".log.jsonl.tmp", ".mine.tmp", "x.tmp"}) {
    scratch.write(name, "x");
  }
  const RunFolder folder(scratch.string());
  EXPECT_FALSE(fs::exists(scratch / ".last.safetensors.tmp"));
  EXPECT_FALSE(fs::exists(scratch / ".log.jsonl.tmp"));
  EXPECT_TRUE(fs::exists(scratch / ".mine.tmp"));
  EXPECT_TRUE(fs::exists(scratch / "x.tmp"));
}

TEST(RunFolder, RefusesWhatIsNoFolder) {
  const ScratchFolder scratch;
  EXPECT_REFUSED(RunFolder(scratch.write("file", "x")), InvalidArgument, "file: ");
  EXPECT_REFUSED(RunFolder(scratch / "file/below"), InvalidArgument, "--out ");
}

}  // namespace
}  // namespace gma::app
