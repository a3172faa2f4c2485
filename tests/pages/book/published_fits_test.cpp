// What `fit` counts beside published peaks, as a page shows it.
#include "common/pages/book/published_fits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/files.h"
#include "tests/support/support.h"

namespace tenfold {
namespace {

using testing::HasSubstr;

class PublishedFits : public testing::Test {
 protected:
  PublishedFits() {
    write("published.json", R"([
      {"id": "a", "what": "a | model", "peak_bytes": 1073741824, "kind": "allocated", "tokens_per_s": 100,
       "date": "2026-01-02", "source": "https://x.org/a", "settings": "some", "differs": "Much.", "card": "T4",
       "flags": ["--layers", "1"]},
      {"id": "b", "what": "never counted", "peak_bytes": 1, "kind": "allocated", "date": "2026-01-02",
       "source": "https://x.org/b", "settings": "", "differs": "", "card": "T4", "flags": []}])");
  }
  void write(const std::string& name, const std::string& text) const {
    test::write_text(root_ / "docs/published_fits" / name, text);
  }
  const test::Scratch scratch_;
  const std::filesystem::path root_ = scratch_.path();
};

TEST_F(PublishedFits, ArePutBesideWhatWasCounted) {
  EXPECT_EQ(published_fits_markdown(root_), "Not counted yet.\n");
  EXPECT_EQ(printed_fit_markdown(root_), "Not counted yet.\n");
  write("counted.json", R"({"rows": [{"id": "a", "allocated_bytes": 2147483648, "tokens_per_s": 50}],
                           "example": {"command": "./tenfold fit --layers 1", "printed": "all of it\n"}})");
  const std::string text = published_fits_markdown(root_);
  EXPECT_THAT(text,
              HasSubstr("| [a \\| model](https://x.org/a) | 2026-01-02 | 1.00 GiB | 2.00 GiB | +100 % | 100 | 50"));
  EXPECT_THAT(text, HasSubstr("- *a | model*: some. Much. Counted by `./tenfold fit --layers 1 --gpu T4`.\n"));
  EXPECT_EQ(text.find("never"), std::string::npos);
  EXPECT_EQ(printed_fit_markdown(root_), "```text\n$ ./tenfold fit --layers 1\nall of it\n```\n");
}

TEST_F(PublishedFits, ADamagedFileIsNamed) {
  for (const char* const text : {"{", R"({"rows": [{"id": "a"}], "example": {}})"}) {
    write("counted.json", text);
    EXPECT_THAT(test::message_of<FileError>([&] { published_fits_markdown(root_); }), HasSubstr("counted.json"));
  }
}

}  // namespace
}  // namespace tenfold
