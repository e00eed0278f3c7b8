// The command line: what is taken, and what is refused by name.
#include "client/cli/options.h"

#include "absl/strings/str_split.h"
#include "client/cli/exit_code.h"
#include "gmock/gmock.h"

namespace jacserve::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

absl::StatusOr<ParsedCommandLine> Parse(const std::string& line, const std::string& server = "") {
  return ParseCommandLine(absl::StrSplit(line, ' ', absl::SkipEmpty()), server);
}

Options Parsed(const std::string& line, const std::string& server = "") {
  const absl::StatusOr<ParsedCommandLine> parsed = Parse(line, server);
  EXPECT_TRUE(parsed.ok()) << line << ": " << parsed.status();
  return parsed.ok() && parsed->options ? *parsed->options : Options{};
}

TEST(CommandLine, TakesTheWholeProblem) {
  const Options options = Parsed(
      "jacobian g.onnx --weights w.npz --input x=x.npy --second x=y.npy --pairwise cosine --sign -1 --epsilon 1e-6 "
      "--cosine-form max_norm --output embedding --shared-input c=c.npy --wrt conv*.kernel dense.bias --wrt-input x "
      "--rows 10:20 --precision fp64 --out dir --verify e.npz --local 3 --memory-budget 512MiB --json");
  const JacobianArguments& jacobian = options.jacobian;
  EXPECT_EQ(options.command, Command::kJacobian);
  EXPECT_EQ(jacobian.graph, "g.onnx");
  EXPECT_EQ(jacobian.weights, "w.npz");
  EXPECT_THAT(jacobian.inputs, ElementsAre("x=x.npy"));
  EXPECT_THAT(jacobian.seconds, ElementsAre("x=y.npy"));
  EXPECT_THAT(jacobian.shared, ElementsAre("c=c.npy"));
  EXPECT_EQ(jacobian.pairwise, "cosine");
  EXPECT_EQ(jacobian.sign, -1);
  EXPECT_EQ(jacobian.epsilon, 1e-6);
  EXPECT_EQ(jacobian.cosine_form, "max_norm");
  EXPECT_EQ(jacobian.output, "embedding");
  EXPECT_THAT(jacobian.wrt, ElementsAre("conv*.kernel", "dense.bias"));
  EXPECT_THAT(jacobian.wrt_inputs, ElementsAre("x"));
  EXPECT_EQ(jacobian.rows, (RowSlice{10, 20}));
  EXPECT_EQ(jacobian.precision, "fp64");
  EXPECT_EQ(jacobian.out, "dir");
  EXPECT_EQ(jacobian.verify, "e.npz");
  EXPECT_EQ(options.server.server, "");
  EXPECT_EQ(options.server.local, "3");
  EXPECT_EQ(options.server.memory_budget, "512MiB");
  EXPECT_TRUE(options.json);
}

TEST(CommandLine, RepeatsWhatMayBeRepeated) {
  const Options options =
      Parsed("jacobian --input x=a.npy --input t=b.npy --wrt a --wrt b --wrt-input x --wrt-input t g.onnx");
  EXPECT_THAT(options.jacobian.inputs, ElementsAre("x=a.npy", "t=b.npy"));
  EXPECT_THAT(options.jacobian.wrt, ElementsAre("a", "b"));
  EXPECT_THAT(options.jacobian.wrt_inputs, ElementsAre("x", "t"));
  EXPECT_EQ(options.jacobian.graph, "g.onnx");
}

TEST(CommandLine, DefaultsAreWhatTheHelpSays) {
  const Options options = Parsed("jacobian g.onnx --input x=x.npy");
  EXPECT_EQ(options.jacobian.sign, 1);
  EXPECT_EQ(options.jacobian.epsilon, 1e-12);
  EXPECT_EQ(options.jacobian.cosine_form, "sqrt_max_sum");
  EXPECT_EQ(options.jacobian.precision, "fp32");
  EXPECT_EQ(options.jacobian.out, "none");
  EXPECT_FALSE(options.jacobian.rows.has_value());
  EXPECT_EQ(options.server.local, "auto");
  EXPECT_EQ(options.server.memory_budget, "");
  EXPECT_EQ(options.server.device, "auto");
  EXPECT_FALSE(options.json);
}

TEST(CommandLine, ChoosesTheServer) {
  EXPECT_EQ(Parsed("info", "env:1").server.server, "env:1");
  EXPECT_EQ(Parsed("info --server given:2", "env:1").server.server, "given:2");
  EXPECT_EQ(Parsed("info --local 2", "env:1").server.server, "");
  EXPECT_EQ(Parsed("workers --local auto", "").server.local, "auto");
  EXPECT_EQ(Parsed("workers", "env:1").server.server, "env:1");
  EXPECT_EQ(Parsed("describe g.onnx --server a:1").command, Command::kDescribe);
  EXPECT_EQ(Parsed("workers --local 1").command, Command::kWorkers);
  EXPECT_EQ(Parsed("version --json").command, Command::kVersion);
}

TEST(CommandLine, RefusesByName) {
  const std::string start = "jacobian g.onnx --input x=x.npy ";
  const struct {
    std::string line;
    const char* message;
  } cases[] = {
      {"", "subcommand"},
      {"compute", "'compute' is no command"},
      {"jacobian --input x=x.npy", "graph"},
      {"jacobian g.onnx", "--input"},
      {start + "--colour", "--colour"},
      {start + "--precision fp8", "--precision"},
      {start + "--pairwise manhattan --second x=y.npy", "--pairwise"},
      {start + "--pairwise dot", "--second"},
      {start + "--second x=y.npy", "--second: needs --pairwise"},
      {start + "--sign -1", "--sign: needs --pairwise"},
      {start + "--pairwise dot --second x=y.npy --sign 0", "--sign"},
      {start + "--pairwise dot --second x=y.npy --sign abc", "--sign"},
      {start + "--pairwise dot --second x=y.npy --epsilon 1", "--epsilon: is for --pairwise cosine"},
      {start + "--pairwise sqdist --second x=y.npy --cosine-form max_norm", "--cosine-form"},
      {start + "--pairwise cosine --second x=y.npy --epsilon -1", "--epsilon"},
      {start + "--pairwise cosine --second x=y.npy --epsilon nan", "--epsilon"},
      {start + "--pairwise cosine --second x=y.npy --cosine-form max", "--cosine-form"},
      {start + "--rows 5", "--rows"},
      {start + "--rows 5:4", "--rows"},
      {start + "--rows=5:x", "--rows"},
      {start + "--rows 1:2:3", "--rows"},
      {start + "--rows 1:99999999999999999999", "--rows"},
      {start + "--local 0", "--local"},
      {start + "--local many", "--local"},
      {start + "--local 2 --server a:1", "--server"},
      {start + "--server a:1 --memory-budget 1GiB", "--memory-budget"},
      {start + "--memory-budget much", "--memory-budget"},
      {start + "--out", "--out"},
      {start + "--overwrite", "--overwrite: needs --out"},
      {"describe", "graph"},
      {"workers g.onnx", "g.onnx"},
  };
  for (const auto& c : cases) {
    const absl::Status status = Parse(c.line).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << c.line;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.message)) << c.line;
  }
  EXPECT_THAT(std::string(Parse(start + "--memory-budget 1GiB", "env:1").status().message()), HasSubstr("--local"));
}

TEST(CommandLine, QuestionsAboutAServerNeedOne) {
  for (const char* line : {"workers", "info"}) {
    const absl::Status status = Parse(line).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << line;
    EXPECT_THAT(std::string(status.message()), HasSubstr("--server HOST:PORT"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("JACSERVE_SERVER"));
  }
  EXPECT_TRUE(Parse("describe g.onnx").ok()) << "any server tells the same of a model";
}

TEST(CommandLine, UsageErrorsNameTheHelpThatHelps) {
  EXPECT_THAT(std::string(Parse("jacobian g.onnx --colour").status().message()),
              HasSubstr("see jacserve jacobian --help"));
  EXPECT_THAT(std::string(Parse("describe").status().message()), HasSubstr("see jacserve describe --help"));
  EXPECT_THAT(std::string(Parse("compute").status().message()), HasSubstr("see jacserve --help"));
}

TEST(CommandLine, TellsItsVersion) {
  const absl::StatusOr<ParsedCommandLine> parsed = Parse("--version");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_FALSE(parsed->options.has_value());
  EXPECT_EQ(parsed->help, "jacserve " JACSERVE_VERSION "\n");
}

TEST(RowSlices, AreNumpys) {
  const struct {
    const char* text;
    RowRange of_ten;
  } cases[] = {
      {"2:4", {2, 2}},   {":4", {0, 4}},   {"4:", {4, 6}},   {"-3:", {7, 3}}, {":-3", {0, 7}},
      {"-5:-2", {5, 3}}, {"2:-2", {2, 6}}, {"10:", {10, 0}}, {"3:3", {3, 0}},
  };
  for (const auto& c : cases) {
    const auto options = Parsed(std::string("jacobian g.onnx --input x=x.npy --rows=") + c.text);
    ASSERT_TRUE(options.jacobian.rows.has_value()) << c.text;
    const absl::StatusOr<RowRange> rows = RowsOf(*options.jacobian.rows, 10);
    ASSERT_TRUE(rows.ok()) << rows.status();
    EXPECT_EQ(*rows, c.of_ten) << c.text;
  }
  EXPECT_FALSE(Parsed("jacobian g.onnx --input x=x.npy --rows :").jacobian.rows.has_value());
}

TEST(RowSlices, OutsideTheTargetAreErrors) {
  for (const RowSlice& slice : {RowSlice{0, 11}, RowSlice{11, {}}, RowSlice{-11, {}}, RowSlice{6, -5}}) {
    const absl::Status status = RowsOf(slice, 10).status();
    EXPECT_TRUE(absl::IsOutOfRange(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("a target with 10 rows"));
  }
}

TEST(CommandLine, HelpIsNoError) {
  for (const char* line : {"--help", "jacobian --help", "describe -h", "workers --help"}) {
    const absl::StatusOr<ParsedCommandLine> parsed = Parse(line);
    ASSERT_TRUE(parsed.ok()) << line;
    EXPECT_FALSE(parsed->options.has_value());
    EXPECT_THAT(parsed->help, HasSubstr("Usage: jacserve"));
  }
  EXPECT_THAT(Parse("--help")->help, HasSubstr("Exit codes"));
  EXPECT_THAT(Parse("jacobian --help")->help, HasSubstr("Examples"));
}

TEST(ExitCode, TellsTheKindsOfFailureApart) {
  EXPECT_EQ(ExitCodeOf(absl::OkStatus()), 0);
  EXPECT_EQ(ExitCodeOf(absl::InternalError("")), 1);
  EXPECT_EQ(ExitCodeOf(absl::DataLossError("")), 1);
  EXPECT_EQ(ExitCodeOf(absl::InvalidArgumentError("")), 2);
  EXPECT_EQ(ExitCodeOf(absl::UnimplementedError("")), 2);
  EXPECT_EQ(ExitCodeOf(absl::NotFoundError("")), 2);
  EXPECT_EQ(ExitCodeOf(absl::UnavailableError("")), 3);
  EXPECT_EQ(ExitCodeOf(absl::ResourceExhaustedError("")), 5);
  EXPECT_EQ(ExitCodeOf(absl::CancelledError("")), 130);
}

}  // namespace
}  // namespace jacserve::client
