// Names of files for names of blocks.
#include "client/cpp/result/file_names.h"

#include "gmock/gmock.h"

namespace jacserve::client {
namespace {

using testing::ElementsAre;

TEST(FileNames, KeepPlainNames) {
  EXPECT_THAT(FileNamesFor({"conv1.weight", "x", "second.x"}),
              ElementsAre("conv1.weight.npy", "x.npy", "second.x.npy"));
}

TEST(FileNames, AreSafeAndDifferent) {
  EXPECT_THAT(FileNamesFor({"a/b", "a_b", "A_B", "../../etc/passwd", "", ".hidden", "value", "größe"}),
              ElementsAre("a_b.npy", "a_b-2.npy", "A_B-3.npy", "_.._.._etc_passwd.npy", "_.npy", "_.hidden.npy",
                          "value-2.npy", "gr____e.npy"));
  const std::vector<std::string> files = FileNamesFor({std::string(1000, 'n'), std::string(1000, 'n')});
  EXPECT_LT(files[0].size(), 200u);
  EXPECT_NE(files[0], files[1]);
}

}  // namespace
}  // namespace jacserve::client
