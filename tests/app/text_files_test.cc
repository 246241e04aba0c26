// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "data/text_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "data/utf8.h"
#include "gma/error.h"
#include "scratch_folder.h"

namespace gma::app {
namespace {

void write_gzip(const std::filesystem::path& path, const std::string& text) {
  gzFile file = gzopen(path.c_str(), "wb");
  ASSERT_NE(file, nullptr);
  ASSERT_EQ(gzwrite(file, text.data(), static_cast<unsigned>(text.size())),
            static_cast<int>(text.size()));
  ASSERT_EQ(gzclose(file), Z_OK);
}

TEST(Utf8, LengthOfSequences) {
  EXPECT_EQ(utf8_length("a"), 1U);
  EXPECT_EQ(utf8_length("\xC3\xA9x"), 2U);
  EXPECT_EQ(utf8_length("\xE4\xB8\xAD"), 3U);
  EXPECT_EQ(utf8_length("\xF0\x9F\x98\x80"), 4U);
  EXPECT_EQ(utf8_length(""), 0U);
  EXPECT_EQ(utf8_length("\x80"), 0U) << "continuation byte";
  EXPECT_EQ(utf8_length("\xC0\x80"), 0U) << "overlong";
  EXPECT_EQ(utf8_length("\xE0\x80\x80"), 0U) << "overlong";
  EXPECT_EQ(utf8_length("\xED\xA0\x80"), 0U) << "surrogate";
  EXPECT_EQ(utf8_length("\xF4\x90\x80\x80"), 0U) << "past U+10FFFF";
  EXPECT_EQ(utf8_length("\xE4\xB8"), 0U) << "cut short";
}

TEST(Utf8, StreamHoldsBackUnfinishedCharacters) {
  Utf8Stream stream;
  EXPECT_EQ(stream.push("a\xF0\x9F"), "a");
  EXPECT_EQ(stream.push("\x98"), "");
  EXPECT_EQ(stream.push("\x80z"), "\xF0\x9F\x98\x80z");
  EXPECT_EQ(stream.finish(), "");
}

TEST(Utf8, StreamReplacesWhatIsNoCharacter) {
  Utf8Stream stream;
  EXPECT_EQ(stream.push("\xFFok\xC3"), "\xEF\xBF\xBDok");
  EXPECT_EQ(stream.push("("), "\xEF\xBF\xBD(");
  EXPECT_EQ(stream.push("\xE4\xB8"), "");
  EXPECT_EQ(stream.finish(), "\xEF\xBF\xBD");
}

TEST(TextFiles, TellsTextFromBinary) {
  EXPECT_TRUE(is_text("plain\ttext\r\n"));
  EXPECT_TRUE(is_text("caf\xC3\xA9"));
  EXPECT_TRUE(is_text("a few latin-1 bytes in a long line: caf\xE9"));
  EXPECT_FALSE(is_text(std::string_view("a\0b", 3)));
  EXPECT_FALSE(is_text("\x80\x91\xFE\xFF\x01\x02\x03"));
}

TEST(TextFiles, ReadsGzipLikePlainText) {
  const ScratchFolder folder;
  const std::string text(300000, 'x');
  write_gzip(folder / "a.gz", text);
  EXPECT_EQ(read_text_file(folder / "a.gz").text, text);
  EXPECT_EQ(read_text_file(folder.write("a.txt", text)).text, text);
}

TEST(TextFiles, RefusesWhatCannotBeRead) {
  const ScratchFolder folder;
  EXPECT_REFUSED(read_text_file(folder / "none"), InvalidArgument, "no such file");
  EXPECT_REFUSED(read_text_file(folder.string()), InvalidArgument, "got a folder");
  EXPECT_REFUSED(read_text_file(folder.write("empty", "")), InvalidArgument, "empty");
  EXPECT_REFUSED(read_text_file(folder.write("binary", std::string(100, '\0'))), InvalidArgument,
                 "not a text file");
  std::string noise;
  for (int i = 0; i < 5000; ++i) noise += static_cast<char>('a' + i * i % 23);
  write_gzip(folder / "cut.gz", noise);
  std::filesystem::resize_file(folder / "cut.gz",
                               std::filesystem::file_size(folder / "cut.gz") - 12);
  EXPECT_THROW(read_text_file(folder / "cut.gz"), InvalidArgument);
}

TEST(TextFiles, ReadsFoldersInOrderAndSkipsTheRest) {
  const ScratchFolder folder;
  folder.write("b.txt", "b");
  folder.write("a/z.txt", "az");
  folder.write("a/binary", std::string(10, '\0'));
  folder.write("a/empty", "");
  folder.write(".git/config", "hidden folder");
  folder.write(".hidden", "hidden file");
  folder.write("build/x.txt", "built");
  folder.write("build-debug/x.txt", "built");
  folder.write("run/log.jsonl", "{}");
  const TextFiles result = read_text_files({folder.string()});
  std::vector<std::string> texts;
  for (const TextFile& file : result.files) texts.push_back(file.text);
  EXPECT_THAT(texts, ::testing::ElementsAre("az", "b"));
  EXPECT_EQ(result.skipped, 2);
  EXPECT_EQ(result.skipped_folders, 4);
  EXPECT_REFUSED(read_text_files({(folder / "run").string(), (folder / "none").string()}),
                 InvalidArgument, "no such file");
}

TEST(TextFiles, ReadsAFileWithSeveralNamesOnce) {
  const ScratchFolder folder;
  const std::string file = folder.write("a.txt", "a");
  std::filesystem::create_symlink(file, folder / "b.txt");
  EXPECT_EQ(read_text_files({folder.string(), folder.string()}).files.size(), 1U);
}

TEST(TextFiles, RefusesFoldersWithoutText) {
  const ScratchFolder folder;
  folder.write("binary", std::string(10, '\0'));
  EXPECT_REFUSED(read_text_files({folder.string()}), InvalidArgument, "no text files");
}

}  // namespace
}  // namespace gma::app
